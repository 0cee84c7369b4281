-- Moves: the few things that can happen to a job, and the indexes that follow from them.
--
-- ready:<queue>, solo:<queue>, aside:<queue>\n<task>\n<version>   sorted sets of ready jobs, by rank; others are in lanes, see lanes.lua
-- asides            hash of the aside groups -> when a worker that declares it was last there
-- due, expiring     sorted sets by instant
-- bucket:<name>     sorted set of ended jobs in the order they ended; `buckets` is the set of names
-- failed, failed:task:<task>, failed:mark:<fingerprint>   sorted sets of dead letters, by number
-- cancelled, skipped   the same of those that ended so
-- marks, faults     the fingerprints there are -> '>I5I5' (how many dead letters, the newest one's number); the same in order: by how
--                    many, then by that number, which stands before the fingerprint
-- watched           hash id -> names of the clients to tell
-- log:<k>, chunks, live, sparse   the order of acceptance: lists of 1,000 ids; which lists there are; how many of each live; of which
--                    little is left
local PRUNE_STEP = 100
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

-- A job that ended, and not well, comes into the indexes of these or leaves them: `act` is add or rem.
function faults.index(t, act, id, h)
    if h[STATE] <= SUCCEEDED or is_join(h) then return end
    local keys = { STATES[h[STATE]] }
    if h[STATE] == FAILED then
        keys[2], keys[3] = 'failed:task:' .. h[TASK], 'failed:mark:' .. h[FINGERPRINT]
        t.faults[h[FINGERPRINT]] = true
    end
    for _, key in ipairs(keys) do
        if act == add then add(t, key, h[N], id) else rem(t, key, id) end
    end
end

-- In which of these a job is whose record cannot be read, or else among those that ended well.
function faults.state_of(t, id)
    for state = FAILED, SKIPPED do
        if call('ZSCORE', t.k[STATES[state]], id) then return state end
    end
    return SUCCEEDED
end

-- One goes whose record does not say any more which fault it was.
function faults.lose(t, id, task)
    for state = FAILED, SKIPPED do call('ZREM', t.k[STATES[state]], id) end
    if task then call('ZREM', t.p .. 'failed:task:' .. task, id) end
    for _, mark in ipairs(call('HKEYS', t.k.marks)) do
        if call('ZREM', t.p .. 'failed:mark:' .. mark, id) == 1 then t.faults[mark] = true end
    end
end

-- Counts the faults anew that this step has changed: from their dead letters, so that no count can go astray.
function faults.write(t)
    for mark in pairs(t.faults) do
        local key, before = t.p .. 'failed:mark:' .. mark, call('HGET', t.k.marks, mark)
        local newest = tonumber(call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2])
        local now = newest and struct.pack('>I5I5', call('ZCARD', key), newest)
        if now ~= before then
            if before then call('ZREM', t.k.faults, sub(before, 6) .. mark) end
            if now then
                call('ZADD', t.k.faults, struct.unpack('>I5', now), sub(now, 6) .. mark)
                call('HSET', t.k.marks, mark, now)
            else
                call('HDEL', t.k.marks, mark)
            end
        end
    end
    t.faults = {}
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

-- Whatever of a graph has not ended is to be cancelled.
function graphs.stop(t, id, how, reason, culprit)
    local g = graphs.row(t, id)
    if not g or g[G.STOPPING] ~= '' then return end
    g[G.STOPPING], g[G.REASON], g[G.CULPRIT] = how, reason, culprit
    graphs.touch(t, id)
    graphs.todo(t, 'stop', id)
end

-- A job that waits for a graph it has started takes that with it.
function graphs.stop_awaited(t, id, h, was, reason)
    local awaited = was == WAITING and h[LINKS] and h[LINKS][L.AWAITS] or ''
    if awaited == '' or not graphs.is_under_way(t, awaited) then return end
    if reason == 'expired' then reason = h[TASK] .. ' ' .. id .. ' expired' end  -- the job's time has passed, not that of the graph's jobs
    graphs.stop(t, awaited, 'cancel', reason, '')
end

-- What the end of a job means for its graph and for the one it waits for.
function graphs.end_job(t, id, h, was)
    local place, failed = h[LINKS], h[STATE] == FAILED
    graphs.stop_awaited(t, id, h, was, h[REASON] ~= '' and h[REASON] or 'cancelled')
    if place[L.EDGES] ~= '' then graphs.todo(t, 'spread', place[L.GRAPH], id) end
    local g = graphs.of(t, h)
    place[L.CULPRIT] = ''  -- it is to blame itself; whoever gives a node up says otherwise
    if g then
        g[G.STAMP] = g[G.STAMP] + 1
        graphs.touch(t, place[L.GRAPH])
    end
    if not g or place[L.AFTERMATH] == 1 then return file(t, id, name_bucket(t, h, failed)) end
    g[G.ENDED + h[STATE]] = g[G.ENDED + h[STATE]] + 1
end

-- In a bucket of workflows each counts for all of its nodes.
local function weigh(t, bucket, by)
    if string.find(bucket, '^%-?%d+|%-?%d+|#') then t.weights[bucket] = (t.weights[bucket] or 0) + by end
end

-- A workflow that is over is kept as a unit, under its end. One that a job awaits goes with that job's record.
function graphs.file(t, id)
    local g, h = graphs.row(t, id), row(t, id)
    if not g or not h or g[G.REAL] == 0 or g[G.STATE] == WAITING then return end
    local parent = g[G.PARENT] ~= '' and row(t, g[G.PARENT])
    if parent and parent[LINKS] and parent[LINKS][L.AWAITS] == id then return end
    local failed = g[G.STATE] ~= SUCCEEDED
    local bucket = failed and g[G.KEEP_FAILED] or g[G.KEEP_DONE]
    if bucket == '' then bucket = (failed and t.settings.failed or t.settings.done) .. '#workflows' end
    h[KEEP_DONE], h[KEEP_FAILED] = bucket, bucket
    touch(t, id)
    file(t, id, bucket)
    weigh(t, bucket, g[G.NODES])
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
    if h[TERMS] then flow.over(t, id, h) end
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
        if call('ZREM', t.p .. 'bucket:' .. bucket, id) == 1 and g then weigh(t, bucket, -g[G.NODES]) end
    end
end

local function expire(t, id, h)
    unplace(t, id, h)
    if h[EXPIRE_TO] == FAILED then
        h[ERROR], h[FINGERPRINT] = LIBRARY.errors.expired, 'expired'
    end
    finish(t, id, h, h[EXPIRE_TO], 'expired', '')
    job_news(t, STATES[h[EXPIRE_TO]], '', id, h, reason_data('expired'))
end

-- ---- the order of acceptance

local function log_accepted(t, from, ids)
    local place = 1
    while place <= #ids do
        local k = floor((from + place - 1) / CHUNK)
        local last = min(#ids, place + (k + 1) * CHUNK - (from + place - 1) - 1)
        call('RPUSH', t.p .. 'log:' .. k, unpack(ids, place, last))
        local added = last - place + 1
        if call('HINCRBY', t.k.live, k, added) == added then call('ZADD', t.k.chunks, k, k) end
        place = last + 1
    end
end

-- ---- damaged records

-- A record that cannot be read is taken out alone: its bytes are kept aside and a dead letter stands in its place. `queue` and
-- `state`: where it was found, if that is known.
local quarantine
do
    -- In which state a record was that cannot be read: by the index it is in, out of which it is taken.
    local function take_out(t, id, queue, in_graph)
        flush(t)
        if call('ZREM', t.k.due, id) == 1 then return SCHEDULED end
        if call('ZREM', t.p .. 'ready:' .. queue, id) + call('ZREM', t.p .. 'solo:' .. queue, id) > 0 then return READY end
        for _, key in ipairs(lanes.keys(t, queue, CHUNK)) do
            if call('ZREM', t.p .. key, id) == 1 then
                lanes.lost_one(t, key)
                return READY
            end
        end
        for _, group in ipairs(call('HKEYS', t.k.asides)) do
            if call('ZREM', t.p .. 'aside:' .. group, id) == 1 then return READY end
        end
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            if call('HDEL', t.p .. 'held:' .. worker, id) == 1 then return RUNNING end
        end
        local state = faults.state_of(t, id)
        if state ~= SUCCEEDED then return state end
        return in_graph and #in_graph[2] > 0 and graphs.is_under_way(t, in_graph[1]) and WAITING or SUCCEEDED
    end

    -- The number of a job and when it came, as far as it can be believed; a new one otherwise.
    local function number_of_damaged(t, id, raw, h)
        if h then return h[N], h[AT] end
        if raw and #raw >= PREFIX then
            local n, at = struct.unpack('>I5I6', raw)
            if n >= 1 and n <= t.n and at <= t.now and call('LPOS', t.p .. 'log:' .. floor((n - 1) / CHUNK), id) then return n, at end
        end
        t.n = t.n + 1
        log_accepted(t, t.n - 1, { id })
        return t.n, t.now
    end

    function quarantine(t, id, queue, state)
        local raw, packed = call('HGET', t.k.jobs, id), call('HGET', t.k.heads, id)
        local from, task, version, came_to, priority = read_body(raw)
        local h = packed and read_head(packed)
        local came_with = not (h and h[LINKS]) and graphs.came_with(call('HGET', t.k.links, id))
        if task == '' or (h and is_join(h)) or (came_with and came_with[5] > 0) then return graphs.mend_join(t, id, came_with) end
        call('HSET', t.k.corrupt, id, pack({ t.now, raw or '', packed or '' }))
        queue = queue or (h and h[QUEUE]) or came_to or ''
        if not is_text(queue) then queue = '' end
        state = state or take_out(t, id, queue, came_with)
        rem(t, 'expiring', id)
        if not is_text(id) then  -- nobody could call it by its name
            count(t, queue, state, -1)
            flow.lose(t, id, state)
            call('HDEL', t.k.jobs, id)
            call('HDEL', t.k.heads, id)
            return forget(t, id)
        end
        if state > SUCCEEDED then faults.lose(t, id, task) end
        local n, at = number_of_damaged(t, id, raw, h)
        if not from or not is_text(task) then
            task, version, priority = 'windlass.corrupt', 1, 5
            raw = new_body(n, at, pack(task, version, queue, priority) .. binary('null') .. binary('{}'))
            call('HSET', t.k.jobs, id, raw)
        end
        local place, terms = h and h[LINKS] or (came_with and graphs.place_anew(came_with)) or false, h and h[TERMS] or false
        if (packed and not h) or not from then flow.lose(t, id, state) end
        h = fresh_head(raw, 0)
        h[N], h[AT], h[QUEUE], h[STATE], h[ERROR], h[FINGERPRINT], h[LINKS], h[TERMS] =
            n, at, queue, state, LIBRARY.errors.corrupt, 'corrupt-record', place, terms
        t.rows[id], t.stamped[id] = h, nil
        finish(t, id, h, FAILED, 'corrupt record', '')
        if came_with then
            -- Nobody knows any more which of its edges were decided: those behind it count theirs anew.
            place[L.EDGES] = string.rep('0', #came_with[3] / 3)
            graphs.todo(t, 'recount', came_with[1], id)
        end
        job_news(t, 'failed', '', id, h, reason_data('corrupt record'))
    end
end

-- ---- time

-- Due jobs become ready, in the order they were due and came in; how many per queue.
local function promote(t, limit)
    local ids = call('ZRANGEBYSCORE', t.k.due, '-inf', t.now, 'LIMIT', 0, limit)
    local promoted, found = {}, {}
    load(t, ids)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        rem(t, 'due', id)
        if is_lost(h) then
            quarantine(t, id, nil, SCHEDULED)
        elseif h[STATE] == SCHEDULED then
            found[#found + 1] = { id, h }
        end
    end
    table.sort(found, function(a, b)
        if a[2][DUE] ~= b[2][DUE] then return a[2][DUE] < b[2][DUE] end
        return a[2][N] < b[2][N]
    end)
    for _, one in ipairs(found) do
        make_ready(t, one[1], one[2], false, one[2][DUE])
        if one[2][HOLD] ~= LANE then promoted[one[2][QUEUE]] = (promoted[one[2][QUEUE]] or 0) + 1 end
    end
    return promoted, #found
end

-- ---- the end of records

local count_left, thin
do
    -- Whether a job is there and came in with this list: its name may have been given again to one that is in a later list. A large
    -- body is not read for that: it would cost more than a name that is kept too long.
    local function is_logged_in(t, id, k)
        local size = call('HSTRLEN', t.k.jobs, id)
        if size < PREFIX then return false end
        local n = size <= 4096 and struct.unpack('>I5', call('HGET', t.k.jobs, id))
        if n == 0 then  -- a node's body was written before it was accepted
            local h = row(t, id)
            n = h and h[N] or 0
        end
        return not n or floor((n - 1) / CHUNK) == k
    end

    -- A list of accepted ids goes with its last job. One of which little is left is noted down for the next sweep: most lists come to
    -- their end soon after.
    function count_left(t, k, left)
        local key = t.p .. 'log:' .. k
        if left <= 0 then
            call('DEL', key)
            call('HDEL', t.k.live, k)
            call('ZREM', t.k.chunks, k)
            call('SREM', t.k.sparse, k)
        elseif 4 * left < CHUNK then
            call('SADD', t.k.sparse, k)
        end
    end

    -- Writes such a list anew without what is gone, so that one job that is kept for long does not keep a thousand names.
    function thin(t, k)
        k = tonumber(k)
        local key, left = t.p .. 'log:' .. k, tonumber(call('HGET', t.k.live, k) or 0)
        local size = call('LLEN', key)
        if size <= 16 or size <= 4 * left then return end
        local kept, seen = {}, {}
        for _, id in ipairs(call('LRANGE', key, 0, -1)) do
            if not seen[id] and is_logged_in(t, id, k) then seen[id], kept[#kept + 1] = true, id end
        end
        call('DEL', key)
        if #kept == 0 then return count_left(t, k, 0) end
        call_many('RPUSH', key, kept)
        if #kept < left then call('HSET', t.k.live, k, #kept) end  -- a damaged record may have left unseen
    end
end

-- A graph is no more; its nodes go in bounded steps. `which`: 'prune', without a word, and its callbacks stay as long as each is kept;
-- or 'all', as if each was deleted.
function graphs.drop(t, id, which)
    t.rank = t.rank + 1
    graphs.forget(t, id)
    if call('EXISTS', t.p .. 'members:' .. id) == 1 then
        call('RENAME', t.p .. 'members:' .. id, t.p .. 'dropped:' .. format('%d', t.rank))
        graphs.todo(t, 'drop', id, t.rank, which)
    end
end

-- Deletes records that are in no index any more.
local erase
do
    -- An ended job of which little can be read goes: it was counted as one of the two most likely.
    local function count_damaged(t, id, chunks)
        local raw = call('HGET', t.k.jobs, id)
        local from, task, _, queue = read_body(raw)
        if not from or task == '' then return end
        local state = faults.state_of(t, id)
        count(t, queue, state, -1)
        if state ~= SUCCEEDED then faults.lose(t, id, task) end
        local k = floor((struct.unpack('>I5', raw) - 1) / CHUNK)
        if k >= 0 then chunks[k] = (chunks[k] or 0) + 1 end
    end

    -- Of a head read up to LOGGED: number, queue, state, lines logged. Nil where it is damaged.
    local function glance(fine, _, n, _, _, _, queue, _, state, ...)
        local logged = fine and select(19, ...)
        if type(n) ~= 'number' or type(queue) ~= 'string' or type(logged) ~= 'number' then return nil end
        return n, queue, state, logged
    end

    -- Counts one job out. A job that ended well is only glanced at: in a busy store every job that ends prunes another.
    local function count_out(t, id, packed, chunks)
        local n, queue, state, logged
        if packed and t.rows[id] == nil then n, queue, state, logged = glance(pcall(unpack_limit, packed, LOGGED, 3)) end
        if state ~= SUCCEEDED then
            local h = row(t, id)
            if not h then return count_damaged(t, id, chunks) end
            faults.index(t, rem, id, h)
            n, queue, state, logged = h[N], h[QUEUE], h[STATE], h[LOGGED]
        end
        if n == 0 then return end  -- a join, or a node that was never accepted
        count(t, queue, state, -1)
        if logged > 0 then call('DEL', t.p .. 'logs:' .. id) end
        local k = floor((n - 1) / CHUNK)
        chunks[k] = (chunks[k] or 0) + 1
    end

    local function is_node(t, id, packed)
        local h = t.rows[id]
        if h then return h[LINKS] end
        return packed and byte(packed, -1) ~= 194
    end

    -- With the end of a workflow all of it goes, and with a job the graph that it awaits.
    local function drop_with(t, id)
        local h = row(t, id)
        local awaited = h and h[LINKS] and h[LINKS][L.AWAITS] or ''
        if graphs.row(t, id) then graphs.drop(t, id, 'prune') end
        if awaited ~= '' and graphs.row(t, awaited) and not graphs.is_under_way(t, awaited) then graphs.drop(t, awaited, 'prune') end
    end

    -- Answers how many went.
    function erase(t, ids)
        if #ids == 0 then return 0 end
        local chunks, nodes, heads = {}, {}, call_many('HMGET', t.k.heads, ids)
        for i, id in ipairs(ids) do
            if is_node(t, id, heads[i]) then
                nodes[#nodes + 1] = id
                drop_with(t, id)
            end
            count_out(t, id, heads[i], chunks)
            forget(t, id)
        end
        call_many('HDEL', t.k.jobs, ids)
        call_many('HDEL', t.k.heads, ids)
        call_many('HDEL', t.k.links, nodes)
        if call('EXISTS', t.k.progress) == 1 then call_many('HDEL', t.k.progress, ids) end
        for k, gone in pairs(chunks) do count_left(t, k, call('HINCRBY', t.k.live, k, -gone)) end
        return #ids
    end
end

local prune
do
    local limits_seen = { size = 0 }
    local function limits_of(bucket)
        local found = limits_seen[bucket]
        if not found then
            local most, age = string.match(bucket, '^(%-?%d+)|(%-?%d+)|')
            found = { tonumber(most or -1), tonumber(age or -1), string.find(bucket, '^%-?%d+|%-?%d+|#') ~= nil }
            if limits_seen.size > 1000 then limits_seen = { size = 0 } end
            limits_seen[bucket], limits_seen.size = found, limits_seen.size + 1
        end
        return found[1], found[2], found[3]
    end

    -- Before when nothing in a bucket can be too old: what is filed later only ends later.
    local young_until = { size = 0 }

    -- Of a bucket of workflows: the oldest while all of them together weigh more than they may, and another is left: who waits for
    -- the last has yet to read its value.
    local function over_weight(t, bucket, key, most)
        local weight, size, popped = tonumber(call('HGET', t.k.weights, bucket) or 0), call('ZCARD', key), {}
        while weight > most and size > (most > 0 and 1 or 0) and #popped < PRUNE_STEP do
            local id = call('ZPOPMIN', key)[1]
            local g = graphs.row(t, id)
            popped[#popped + 1] = id
            weight, size = weight - (g and g[G.NODES] or 1), size - 1
        end
        if #popped > 0 then call('HSET', t.k.weights, bucket, format('%d', max(0, weight))) end
        return popped
    end

    -- Ids that are past their age, up to a bound. The oldest are first.
    local function too_old(t, key, age, bound)
        local old = {}
        while #old < bound do
            local id = call('ZRANGE', key, #old, #old)[1]
            local h = id and row(t, id)
            if not id then break end
            if h and h[FINISHED] + age > t.now then
                if young_until.size > 1000 then young_until = { size = 0 } end
                young_until.size = young_until.size + (young_until[key] and 0 or 1)
                young_until[key] = h[FINISHED] + age
                break
            end
            old[#old + 1] = id
        end
        if #old > 0 then call('ZREMRANGEBYRANK', key, 0, #old - 1) end
        return old
    end

    local function beyond_count(t, key, most)
        local size, ids = call('ZCARD', key), {}
        if most < 0 or size <= most then return ids, size end
        local popped = call('ZPOPMIN', key, min(size - most, CHUNK))
        for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
        return ids, size
    end

    -- Drops what is beyond a bucket's count (all of it) and past its age (up to a bound); how many.
    function prune(t, bucket, bound)
        local key = t.p .. 'bucket:' .. bucket
        local most, age, weighs = limits_of(bucket)
        local ids, size
        if weighs then
            ids, size = most >= 0 and over_weight(t, bucket, key, most) or {}, 0
        else
            ids, size = beyond_count(t, key, most)
        end
        if size <= 4 * CHUNK then call('SADD', t.k.buckets, bucket) end  -- one that was empty is not in the set
        local dropped = erase(t, ids)
        if age >= 0 and t.now >= (young_until[key] or 0) then
            local old = too_old(t, key, age, bound - dropped)
            if weighs then
                for _, id in ipairs(old) do
                    local g = graphs.row(t, id)
                    call('HINCRBY', t.k.weights, bucket, format('%d', g and -g[G.NODES] or -1))
                end
            end
            dropped = dropped + erase(t, old)
        end
        if weighs and dropped > 0 and call('EXISTS', key) == 0 then call('HDEL', t.k.weights, bucket) end
        return dropped
    end
end

-- ---- telling who waits

local INLINE_MAX = 16384

local function finished_news(id, h)
    local result, problem, inline = h[RESULT], h[ERROR], true
    if h[LINKS] and h[STATE] == SUCCEEDED and not result and (is_join(h) or h[LINKS][L.REPLACED] == 1) then
        inline = false  -- its value is that of others
    end
    if #(result or '') + #(problem or '') > INLINE_MAX then result, problem, inline = false, false, false end
    return '\150' .. text(id) .. text(STATES[h[STATE]]) .. binary_or_nil(result) .. binary_or_nil(problem) .. text(h[REASON])
        .. (inline and '\195' or '\194')
end

local tell, tell_ended
do
    local function success_news(t, id)
        return finished_news(id, { [STATE] = SUCCEEDED, [RESULT] = t.brief[id] ~= '' and t.brief[id], [ERROR] = false, [REASON] = '' })
    end

    local function post(t, boxes)
        for client, items in pairs(boxes) do
            t.told[client] = true
            call('PUBLISH', t.p .. 'to:' .. client, '\221' .. struct.pack('>I4', #items) .. concat(items))
        end
    end

    -- One message per client with all that ended in this step and it waits for.
    function tell(t, ids, say)
        if #ids == 0 or (#ids > 5 and call('EXISTS', t.k.watched) == 0) then return end
        local names, boxes, heard = call_many('HMGET', t.k.watched, ids), {}, {}
        for i, id in ipairs(ids) do
            if names[i] then
                heard[#heard + 1] = id
                for client in string.gmatch(names[i], '[^\n]+') do
                    boxes[client] = boxes[client] or {}
                    boxes[client][#boxes[client] + 1] = say(id)
                    call('SREM', t.p .. 'watching:' .. client, id)
                end
            end
        end
        call_many('HDEL', t.k.watched, heard)
        post(t, boxes)
    end

    -- Tells of what ended so far; before its records can be pruned, since then nobody could say any more how they ended.
    function tell_ended(t)
        tell(t, t.ended, function(id) return t.rows[id] and finished_news(id, t.rows[id]) or success_news(t, id) end)
        t.ended = {}
    end
end

-- The end of every step that changes something.
local function commit(t)
    tell_ended(t)
    flush(t)
    for bucket, by in pairs(t.weights) do
        if call('HINCRBY', t.k.weights, bucket, format('%d', by)) <= 0 then call('HDEL', t.k.weights, bucket) end
    end
    local left = CHUNK
    for bucket in pairs(t.touched) do left = left - prune(t, bucket, max(0, min(PRUNE_STEP, left))) end
    if #t.todos > 0 then graphs.work(t) end  -- what was pruned with a workflow
    flow.open(t)
    flow.wake(t)
    graphs.wake(t)
    tell_ended(t)
    flush(t)
    graphs.write(t)
    flow.write(t)
    if next(t.faults) then faults.write(t) end
    write_rows(t)
    write_counts(t)
    record(t)
    write_numbers(t)
end
