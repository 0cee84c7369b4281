-- A step: what one call to the library reads, changes and tells. Rows are read once and written once, at the end;
-- everything else that changes is collected likewise, so that a batch costs a few commands and not a few per job.
local begin, write_numbers
do
    local CALM = 7500
    -- [done, failed, unknown_after, events_kept, logs_kept, cluster, staged_for, audit_every]: the first two are prefixes of the default buckets
    local settings_of
    do
        local seen, known = {}, 0

        function settings_of(packed)
            local found = seen[packed]
            if not found then
                local s = cmsgpack.unpack(packed)
                found = {
                    done = s[1], failed = s[2], unknown_after = s[3], events_kept = s[4], logs_kept = s[5], cluster = s[6],
                    staged_for = s[7], audit_every = s[8],
                }
                known = known + 1
                if known > 100 then seen, known = {}, 1 end
                seen[packed] = found
            end
            return found
        end
    end

    local function server_time()
        local time = call('TIME')
        return time[1] * 1000 + floor(time[2] / 1000)
    end

    -- Everyone was paused, or the clock was set: nobody may be judged dead for not beating meanwhile.
    local function extend_leases(p, last, gap)
        for _, id in ipairs(call('ZRANGE', p .. 'workers', 0, -1)) do
            local w = call('HMGET', p .. 'worker:' .. id, 'until', 'lease', 'dead')
            if w[1] and w[3] ~= '1' and tonumber(w[1]) > last and gap > tonumber(w[2]) / 2 then
                call('HINCRBY', p .. 'worker:' .. id, 'until', gap)
                call('ZINCRBY', p .. 'leases', gap, id)
            end
        end
    end

    -- The last instant, what is added to the server's clock, the shortest lease, and how many jobs, ranks and events there were.
    -- In one field: they are read and written by every step. Before them stands the format that all keys of the app are in.
    local FORMAT = 5
    LIBRARY.format = FORMAT

    local function read_numbers(p, reading)
        local found = call('HMGET', p .. 'meta', 'numbers', 'followed', 'todos', 'gates', 'lanes', 'heeded')
        local packed = found[1]
        if not packed then
            -- Nothing was ever written, or the key was lost, for instance to an eviction: then no number may be given a second time.
            -- There are fewer ranks than jobs and ten for each event.
            local chunk, event = call('ZRANGE', p .. 'chunks', '-1', '-1')[1], call('XREVRANGE', p .. 'events', '+', '-', 'COUNT', '1')[1]
            local n, seen = chunk and (tonumber(chunk) + 1) * 1000 or 0, event and tonumber(string.match(event[1], '^%d+')) or 0
            found[2], found[3] = true, true
            if not reading then
                if call('EXISTS', p .. 'laned') == 1 then call('HSET', p .. 'meta', 'lanes', '1') end
                if call('EXISTS', p .. 'gates') == 1 then call('HSET', p .. 'meta', 'gates', 'lost') end
                found[4], found[5] = unpack(call('HMGET', p .. 'meta', 'gates', 'lanes'))
            end
            return 0, 0, 0, n, n + 10 * seen, seen, found
        end
        local of, last, shift, short, n, rank, seen = struct.unpack('>BI6I6I6I6I6I6', packed)
        if of ~= FORMAT then
            local newer = of > FORMAT
            local hint = newer and 'restart this process with the newer version' or 'start this process again, which brings over what the version before wrote'
            error({ err = (newer and 'OUTDATED' or 'WINDLASS') .. ' the keys are in format ' .. of .. ', and this version of Windlass reads format ' .. FORMAT .. ': ' .. hint })
        end
        return last, shift, short, n, rank, seen, found
    end

    function write_numbers(t)
        call('HSET', t.meta, 'numbers', struct.pack('>BI6I6I6I6I6I6', FORMAT, t.now, t.shift, t.short, t.n, t.rank, t.seen))
    end

    -- The store's clock: never backwards, forgiving of jumps. Reading steps leave it as it was.
    local function tick(t, host, reading)
        local now = host + t.shift
        t.gap = 0
        if now < t.last then
            t.shift = t.shift + t.last - now
            now = t.last
        else
            local gap = now - t.last
            if gap > CALM or (t.short > 0 and gap > t.short / 2) then
                local eaten = min(t.shift, gap)
                t.shift, now, gap = t.shift - eaten, now - eaten, gap - eaten
                t.gap = gap
                if gap > 0 and not reading then
                    extend_leases(t.p, t.last, gap)
                    t.now = now
                    write_numbers(t)  -- once, also if this step goes no further
                end
            end
        end
        t.now = now
    end

    -- The names of the keys that there is one of, put together once for each app.
    local keys_of
    do
        local names = {
            'jobs', 'heads', 'due', 'expiring', 'watched', 'followers', 'events', 'counts', 'live', 'chunks', 'asides', 'workers',
            'leases', 'progress', 'corrupt', 'buckets', 'failed', 'sparse', 'links', 'graphs', 'metas', 'workflows', 'working', 'staging', 'todos',
            'weights', 'gates', 'tallies', 'openings', 'fading', 'laned', 'turns', 'strict', 'uniques',
            'totals', 'faults', 'marks', 'passing', 'cancelled', 'skipped', 'recorded', 'pruning', 'cells',
        }
        local seen, known = {}, 0

        function keys_of(p)
            local found = seen[p]
            if not found then
                found = {}
                for _, name in ipairs(names) do found[name] = p .. name end
                known = known + 1
                if known > 1000 then seen, known = {}, 1 end
                seen[p] = found
            end
            return found
        end
    end

    -- args[1]: settings. args[2]: the instant, or '' for the server's own clock.
    function begin(keys, args, reading)
        borrow()
        local p, settings = sub(keys[1], 1, -5), settings_of(args[1])
        local last, shift, short, n, rank, seen, found = read_numbers(p, reading)
        -- While a slot moves, a cluster refuses every key that is not there, in the midst of a step that has written already. Asking
        -- for one that never is there lets such a step fail before it begins.
        if settings.cluster and not reading then call('EXISTS', p .. 'never') end
        local host = args[2] ~= '' and tonumber(args[2]) or server_time()
        local t = {
            p = p, k = keys_of(p), meta = keys[1], settings = settings,
            last = last > 0 and last or host, shift = shift, short = short, n = n, rank = rank, seen = seen, followed = found[2],
            rows = {}, dirty = {}, adds = {}, rems = {}, counts = {}, touched = {}, ended = {}, blocks = {}, told = {},
            stamped = {}, brief = {}, unheard = {}, came = {},
            graphs = {}, changed = {}, listed = {}, todos = {}, left = found[3], released = {}, asked = {}, weights = {},
            lanes = found[5], heeded = tonumber(found[6] or 0), tallies = {}, strict = {}, uniques = {}, marks = {}, marked = {},
            freed = {}, opened = {}, wakes = {}, faults = {},
        }
        if found[4] then t.gates = gates.known(t, found[4]) end
        tick(t, host, reading)
        return t
    end

end

-- LIBRARY.errors are those that the store itself gives, with @places@ to fill in; the client puts them above this library.
local function fill(template, values) return (string.gsub(template, '@(%w+)@', function(name)
    return (sub(cjson.encode(tostring(values[name])), 2, -2))  -- it goes between the quotes of a JSON text
end)) end

-- ---- rows

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
    if h[STATE] == RUNNING and state ~= RUNNING and (t.gates or h[TERMS]) then gates.free(t, h[QUEUE], h[TASK], flow.terms(h)) end
    count(t, h[QUEUE], h[STATE], -1)
    count(t, h[QUEUE], state, 1)
    h[STATE] = state
end

local function next_rank(t, priority)
    t.rank = t.rank + 1
    return (9 - priority) * BAND + t.rank
end

-- ---- news: one entry of the event stream for one step

local news
do
    -- Where the block of what was there already goes.
    local function behind_enqueued(t) return t.blocks[1] and t.blocks[1][1][1] == 'enqueued' and 2 or 1 end

    -- Blocks are ordered by the first event of their kind; within one, neighbours of the same task and queue share a group:
    -- [kind, worker, task, queue, ids, data or false], where data is JSON per job.
    local function open_group(t, kind, worker, task, queue, data)
        local name = kind .. '\n' .. worker
        local block = t.blocks[name]
        if not block then
            block = {}
            t.blocks[name] = block
            -- What came in goes first: in a graph it may have ended in the same step.
            table.insert(t.blocks, kind == 'enqueued' and 1 or kind == 'duplicate' and behind_enqueued(t) or #t.blocks + 1, block)
        end
        local group = block[#block]
        if not group or group[3] ~= task or group[4] ~= queue or not data ~= not group[6] then
            group = { kind, worker, task, queue, {}, data and {} or false }
            block[#block + 1] = group
        end
        t.group = group
        return group
    end

    function news(t, kind, worker, id, task, queue, data)
        local group = t.group
        if data or not group or group[6] or group[3] ~= task or group[4] ~= queue or group[1] ~= kind or group[2] ~= worker then
            group = open_group(t, kind, worker, task, queue, data)
        end
        local ids = group[5]
        ids[#ids + 1] = id
        if data then group[6][#ids] = data end
        t.seen = t.seen + 1
    end
end

local function job_news(t, kind, worker, id, h, data) news(t, kind, worker, id, h[TASK], h[QUEUE], data) end

local function reason_data(reason) return reason ~= '' and cjson.encode({ reason = reason }) or nil end

local record
do
    -- What a job says while it runs is not counted, nor are workflows: what theirs have in the place of a task is their name.
    local NOT_COUNTED = {
        progress = true, log = true, workflow_started = true, workflow_succeeded = true, workflow_failed = true,
        workflow_cancelled = true, workflow_repaired = true,
    }

    -- Adds up for ever the events of one block, which are of one kind: by kind, queue and task in one name.
    local function count_events(t, block)
        local kind, queues = block[1][1], {}
        if NOT_COUNTED[kind] then return end
        for i = 1, #block do
            local group = block[i]
            local task, tasks = group[3], queues[group[4]]
            if not tasks then
                tasks = {}
                queues[group[4]] = tasks
            end
            tasks[task] = (tasks[task] or 0) + #group[5]
        end
        for queue, tasks in pairs(queues) do
            for task, sum in pairs(tasks) do
                if task ~= '' then call('HINCRBY', t.k.totals, kind .. '\n' .. queue .. '\n' .. task, format('%d', sum)) end
            end
        end
    end

    function record(t)
        if not t.group then return end
        local groups = {}
        for _, block in ipairs(t.blocks) do
            for _, group in ipairs(block) do groups[#groups + 1] = group end
            count_events(t, block)
        end
        -- An entry is numbered by how many events there were in all, so that trimming by number bounds the memory too.
        local key, kept = t.k.events, t.settings.events_kept
        call('XADD', key, 'MAXLEN', kept, format('%d-0', t.seen), 'e', pack({ t.now, groups }))
        if t.seen > kept * 10 then call('XTRIM', key, 'MINID', format('%d-0', t.seen - kept * 10)) end
        if not t.followed then return end
        local followers = call('SMEMBERS', t.k.followers)
        if #followers == 0 then call('HDEL', t.meta, 'followed') end
        for _, client in ipairs(followers) do
            if not t.told[client] and call('PUBLISH', t.p .. 'to:' .. client, '') == 0 then
                call('SREM', t.k.followers, client)
            end
        end
    end
end

-- ---- the end of a step

local function write_rows(t)
    local heads = {}
    for id in pairs(t.dirty) do
        local size = #heads
        heads[size + 1], heads[size + 2] = id, pack(t.rows[id])
    end
    call_many('HSET', t.k.heads, heads)
    for id, worker in pairs(t.stamped) do
        -- It has a head now, which counts alone.
        if t.dirty[id] and t.rows[id][STATE] == RUNNING then call('HSET', t.p .. 'held:' .. worker, id, '') end
    end
end

local function write_counts(t)
    local key = t.k.counts
    for queue, states in pairs(t.counts) do
        for state, by in pairs(states) do
            if by ~= 0 then call('HINCRBY', key, state .. queue, format('%d', by)) end
        end
    end
end

-- Gives a function its name on the server. `allow-oom`: what gives memory back, or only moves a job on, may run when the
-- server's memory is full; what takes a new job may not.
local function register(name, callback, ...)
    redis.register_function({ function_name = LIBRARY.name .. '_' .. name, callback = callback, flags = { ... } })
end
