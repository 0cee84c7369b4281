-- Moves: the few things that can happen to a job, and the indexes that follow from them.
--
-- ready:<queue>, solo:<queue>, aside:<queue>\n<task>\n<version>   sorted sets of ready jobs, by rank; others are in lanes, see flow/lanes.lua
-- asides            hash of the aside groups -> when a worker that declares it was last there
-- due, expiring     sorted sets by instant
-- bucket:<name>     sorted set of ended jobs in the order they ended; `buckets` is the set of names
local CHUNK = 1000

local function aside_group(queue, task, version) return queue .. '\n' .. task .. '\n' .. version end

-- The index that a ready job is in.
local function ready_key(h)
    if h[HOLD] == SOLO then return 'solo:' .. h[QUEUE] end
    if h[HOLD] == ASIDE then return 'aside:' .. aside_group(h[QUEUE], h[TASK], h[VERSION]) end
    if h[HOLD] == LANE then return 'lane:' .. h[QUEUE] .. '\n' .. lanes.name(h) end
    return 'ready:' .. h[QUEUE]
end

-- For a job that comes in or comes back: while it ran, its expiry was of no interest.
local function watch_expiry(t, id, h)
    if h[EXPIRES] > 0 and (h[STATE] == WAITING or h[STATE] == RUNNING) then add(t, 'expiring', h[EXPIRES], id) end
end

-- Into its lane, or the ready order. `silent`: it was ready before, and wakes nobody.
local function place_ready(t, id, h, silent)
    local lane = (t.gates or h[TERMS]) and lanes.of(t, h[TASK], flow.terms(h)) or ''
    touch(t, id)
    if lane ~= '' then return lanes.join(t, id, h, lane, silent) end
    h[HOLD] = NOT_HELD
    add(t, 'ready:' .. h[QUEUE], h[RANK], id)
end

-- `due`: the time that has come for it. It is known of it until it ends, also when it goes back to its place.
local function make_ready(t, id, h, keep_place, due)
    watch_expiry(t, id, h)
    set_state(t, h, READY)
    h[WORKER], h[DUE] = '', keep_place and h[DUE] or due or 0
    if not (keep_place and h[RANK] > 0) then h[RANK] = h[TERMS] and lanes.rank(t, h) or next_rank(t, h[PRIORITY]) end
    if not runs_alone(h) or (h[TERMS] and not lanes.lets_go(t, id, h)) then return place_ready(t, id, h) end
    h[HOLD] = SOLO
    add(t, 'solo:' .. h[QUEUE], h[RANK], id)
    touch(t, id)
end

-- An idle worker for a job that was made ready; what is in a lane is seen to with that.
local function wake_for(t, h)
    if h[HOLD] ~= LANE then wake(t, h[QUEUE], 1) end
end

local function make_scheduled(t, id, h, due)
    watch_expiry(t, id, h)
    set_state(t, h, SCHEDULED)
    h[WORKER], h[DUE] = '', due
    add(t, 'due', due, id)
    touch(t, id)
end

-- Out of the index of the state it is in.
local function unplace(t, id, h)
    if h[STATE] == READY and h[HOLD] == LANE then
        lanes.part(t, id, h)
    elseif h[STATE] == READY then
        rem(t, ready_key(h), id)
    elseif h[STATE] == SCHEDULED then
        rem(t, 'due', id)
    end
end

-- Says in which bucket a job is kept if nothing else does. `failed`: in that of those who failed.
local function name_bucket(t, h, failed)
    local field = failed and KEEP_FAILED or KEEP_DONE
    if h[field] == '' then h[field] = (failed and t.settings.failed or t.settings.done) .. h[QUEUE] end
    return h[field]
end

local function file(t, id, bucket)
    t.rank = t.rank + 1
    add(t, 'bucket:' .. bucket, t.rank, id)
    t.touched[bucket] = true
end

-- Any state to a terminal one: filed for retention, and whoever waits is told at the end of the step.
local function finish(t, id, h, state, reason, keep)
    local was = h[STATE]
    set_state(t, h, state)
    h[FINISHED], h[REASON], h[WORKER], h[CANCEL] = t.now, reason, '', 0
    if keep ~= '' then h[state == FAILED and KEEP_FAILED or KEEP_DONE] = keep end
    if h[LINKS] then graphs.end_job(t, id, h, was) else file(t, id, name_bucket(t, h, state == FAILED)) end
    faults.index(t, add, id, h)
    if h[EXPIRES] > 0 then rem(t, 'expiring', id) end
    t.ended[#t.ended + 1] = id
    touch(t, id)
    if h[TERMS] then flow.leave(t, id, h) end
end

-- An ended job that is replayed or deleted leaves its bucket, and so does a workflow.
local function unfile(t, id, h)
    if h[STATE] <= RUNNING then return end
    local place, bucket = h[LINKS], h[STATE] == FAILED and h[KEEP_FAILED] or h[KEEP_DONE]
    faults.index(t, rem, id, h)
    if not place or place[L.GRAPH] == '' or place[L.AFTERMATH] == 1 then
        rem(t, 'bucket:' .. bucket, id)
    elseif id == place[L.GRAPH] and bucket ~= '' then
        flush(t)
        local g = graphs.row(t, id)
        if call('ZREM', t.p .. 'bucket:' .. bucket, id) == 1 and g then graphs.weigh(t, bucket, -g[G.NODES]) end
    end
end
