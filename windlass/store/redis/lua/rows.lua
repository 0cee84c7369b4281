-- Rows: the heads of jobs as one step reads and changes them, and the indexes they are in.

local row
do
    -- A job without a head either waits or runs for the first time.
    local function row_without_head(t, id)
        local raw = call('HGET', t.k.jobs, id)
        local h = fresh_head(raw, 0)
        if not h or not is_numbered(raw) then return nil end
        local rank = call('ZSCORE', t.p .. 'ready:' .. h[QUEUE], id)
        if not rank and t.lanes then
            rank = call('ZSCORE', t.p .. 'lane:' .. h[QUEUE] .. '\n' .. lanes.name(h), id)
            if rank then h[HOLD] = LANE end
        end
        if rank then
            h[RANK] = tonumber(rank)
            return h
        end
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            local stamp = call('HGET', t.p .. 'held:' .. worker, id)
            if stamp and stamp ~= '' then
                t.stamped[id] = worker
                return head_of_stamp(stamp, worker)
            end
        end
        return h
    end

    -- The row of one job, nil where there is none or it is damaged.
    function row(t, id)
        local h = t.rows[id]
        if h == nil then
            local packed = call('HGET', t.k.heads, id)
            if packed then h = read_head(packed) else h = row_without_head(t, id) end
            t.rows[id] = h or false
        end
        return h or nil
    end
end

-- Reads the heads of many jobs at once; those that have none are left to `row`.
local function load(t, ids)
    local missing = {}
    for i = 1, #ids do
        if t.rows[ids[i]] == nil then missing[#missing + 1] = ids[i] end
    end
    local heads = call_many('HMGET', t.k.heads, missing)
    for i = 1, #missing do
        if heads[i] then t.rows[missing[i]] = read_head(heads[i]) or false end
    end
end

-- Reads the rows of many jobs that may have no heads. One at a time, each of those that run would be looked for with every worker.
local function load_all(t, ids)
    load(t, ids)
    local bare, waiting, running = {}, {}, {}
    for _, id in ipairs(ids) do
        if t.rows[id] == nil then bare[#bare + 1] = id end
    end
    for i, raw in ipairs(call_many('HMGET', t.k.jobs, bare)) do
        local h = raw and is_numbered(raw) and fresh_head(raw, 0)
        t.rows[bare[i]] = h or false
        if h then
            waiting[h[QUEUE]] = waiting[h[QUEUE]] or {}
            table.insert(waiting[h[QUEUE]], bare[i])
        end
    end
    for queue, members in pairs(waiting) do
        for i, rank in ipairs(call_many('ZMSCORE', t.p .. 'ready:' .. queue, members)) do
            local h = t.rows[members[i]]
            if not rank and t.lanes then
                rank = call('ZSCORE', t.p .. 'lane:' .. queue .. '\n' .. lanes.name(h), members[i])
                if rank then h[HOLD] = LANE end
            end
            if rank then h[RANK] = tonumber(rank) else running[#running + 1] = members[i] end
        end
    end
    for _, worker in ipairs(#running > 0 and call('ZRANGE', t.k.workers, 0, -1) or running) do
        for i, stamp in ipairs(call_many('HMGET', t.p .. 'held:' .. worker, running)) do
            if stamp and stamp ~= '' then t.rows[running[i]], t.stamped[running[i]] = head_of_stamp(stamp, worker) or false, worker end
        end
    end
end

-- The rows of what a worker holds, from their stamps or their heads; answers the ids. `limit`: no more than these.
local load_held
do
    -- What a worker holds, ids and stamps; with a limit only about as many as that.
    local function held_by(t, worker, limit)
        local key = t.p .. 'held:' .. worker
        if not limit or call('HLEN', key) <= limit then return call('HGETALL', key) end
        local some = call('HSCAN', key, '0', 'COUNT', format('%d', limit))[2]
        return #some > 0 and some or call('HGETALL', key)
    end

    function load_held(t, worker, limit)
        local held, ids, headed = held_by(t, worker, limit), {}, {}
        for i = 1, min(#held, 2 * (limit or #held)), 2 do
            local id, stamp = held[i], held[i + 1]
            ids[#ids + 1] = id
            if stamp == '' then
                headed[#headed + 1] = id
            elseif t.rows[id] == nil then
                t.rows[id], t.stamped[id] = head_of_stamp(stamp, worker) or false, worker
            end
        end
        load(t, headed)
        return ids
    end
end

local function touch(t, id) t.dirty[id] = true end

local function forget(t, id)
    t.rows[id], t.dirty[id] = false, nil
end

-- ---- indexes, written in batches

local function add(t, key, score, id)
    local list = t.adds[key]
    if not list then
        list = {}
        t.adds[key] = list
    end
    local size = #list
    list[size + 1], list[size + 2] = format('%d', score), id  -- left to the call, it would be written as a fraction is
    if list.has then list.has[id] = true end
end

-- Removals first: a job that leaves an index and comes back to it in one step stays. Whoever reads an index that this
-- step may have changed flushes before.
local function flush(t)
    if next(t.rems) then
        for key, ids in pairs(t.rems) do call_many('ZREM', t.p .. key, ids) end
        t.rems = {}
    end
    if next(t.adds) then
        for key, pairs_ in pairs(t.adds) do call_many('ZADD', t.p .. key, pairs_) end
        t.adds = {}
    end
end

local function rem(t, key, id)
    local added = t.adds[key]
    if added then
        -- One that came in this very step and leaves again must not stay.
        if not added.has then
            added.has = {}
            for i = 2, #added, 2 do added.has[added[i]] = true end
        end
        if added.has[id] then flush(t) end
    end
    local list = t.rems[key]
    if not list then
        list = {}
        t.rems[key] = list
    end
    list[#list + 1] = id
end

local function count(t, queue, state, by)
    local states = t.counts[queue]
    if not states then
        states = {}
        t.counts[queue] = states
    end
    states[state] = (states[state] or 0) + by
end

local function set_state(t, h, state)
    if h[STATE] == RUNNING and state ~= RUNNING and (t.gates or h[TERMS]) then gates.discharge(t, h[QUEUE], h[TASK], flow.terms(h)) end
    count(t, h[QUEUE], h[STATE], -1)
    count(t, h[QUEUE], state, 1)
    h[STATE] = state
end

local function next_rank(t, priority)
    t.rank = t.rank + 1
    return (9 - priority) * BAND + t.rank
end
