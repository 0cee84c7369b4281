-- Listings: the jobs that fit a query, in the order of acceptance, from where the last call stopped. A call looks at a bounded number of
-- candidates, in slices: those of an index, where one has all that can fit, or of the list of all accepted jobs.

-- The candidates of the first slice and of the largest one, and the bytes of records that make the next one smaller. SORTABLE: so many
-- candidates of which no index knows the numbers are sorted. PASSED_OVER: what a name costs whose job is gone, or has no head where only
-- one with a head can fit: no record is read for it. One name for all, as Lua has few.
local BOUNDS = { FIRST_SLICE = 60, SLICE = 250, LARGE = 500000, SORTABLE = 2000, PASSED_OVER = 0.05 }

-- A search. `after`: the number behind which it goes on, 0 at its beginning. `last`: the number of the last job that was seen.
local function new_search(t, q, after, limit, most)
    return {
        t = t, q = q, newest = q[8], after = after, limit = limit, most = most, weight = 0, found = 0, list = {}, last = 0, slice = BOUNDS.FIRST_SLICE,
        -- A job without a head is ready, or runs for the first time.
        bare = q[4] == '' and (not q[2] or q[2][READY + 1] or q[2][RUNNING + 1]),
    }
end

local function beyond(f, n)
    if f.after == 0 then return true elseif f.newest then return n < f.after else return n > f.after end
end

-- A job that is there has its turn; `h`: its row if it fits. The search is over where all that is wanted was found and there is
-- another, or where none can fit any more: what was accepted later has a larger number.
local function see(f, id, n, at, h)
    local since, til = f.q[6], f.q[7]
    if (f.newest and at < since) or (not f.newest and til > 0 and at >= til) then
        f.done = true
    elseif f.found == f.limit then
        f.done, f.more = true, true
    else
        f.last = n
        if h then
            add_record(f.t, f.list, id, h)
            f.found = f.found + 1
            if f.found == f.total then f.done = true end
        end
    end
end

-- Whether a job may fit, as far as a glance tells.
local function may_fit(q, at, task, queue)
    return (q[1] == '' or queue == q[1]) and (q[3] == '' or task == q[3]) and (q[6] == 0 or at >= q[6]) and (q[7] == 0 or at < q[7])
end

-- What a head says at a glance: number, when it was accepted, and whether it may fit. Nil where it is damaged.
local function glance(q, fine, _, n, at, task, _, queue, _, state)
    if not fine or type(n) ~= 'number' or type(at) ~= 'number' or type(state) ~= 'number' then return nil end
    return n, at, (not q[2] or q[2][state + 1]) and may_fit(q, at, task, queue)
end

-- The same of the body of a job that has no head.
local function glance_at_body(q, raw)
    if not raw or #raw <= PREFIX or not is_numbered(raw) then return nil end
    local fine, _, task, _, queue = pcall(unpack_limit, raw, 3, PREFIX)
    if not fine then return nil end
    local n, at = struct.unpack('>I5I6', raw)
    return n, at, may_fit(q, at, task, queue)
end

-- The heads of candidates, and the bodies of those that have none, where such a one can fit.
local function records_of(f, ids)
    local t, bare, places, bodies, bytes, passed = f.t, {}, {}, {}, 0, 0
    local heads = call_many('HMGET', t.k.heads, ids)
    for i = 1, #ids do
        if heads[i] then
            bytes = bytes + #heads[i]
        elseif f.bare then
            bare[#bare + 1], places[#places + 1] = ids[i], i
        else
            passed = passed + 1
        end
    end
    for k, raw in ipairs(call_many('HMGET', t.k.jobs, bare)) do
        if raw then bodies[places[k]], bytes = raw, bytes + #raw end
    end
    f.weight = f.weight + #ids - passed * (1 - BOUNDS.PASSED_OVER)
    f.slice = bytes > BOUNDS.LARGE and max(10, floor(f.slice / 4)) or min(2 * f.slice, f.bare and BOUNDS.SLICE or CHUNK)
    return heads, bodies
end

-- Looks at some candidates. `is_it`: whether a job's number fits the place where its name was found.
local function look(f, ids, is_it)
    local t, q, found, close, seen, ordered = f.t, f.q, {}, {}, {}, true
    local heads, bodies = records_of(f, ids)
    for i = 1, #ids do
        if heads[i] or bodies[i] then
            local id, n, at, fit = ids[i], nil, nil, nil
            if heads[i] then
                n, at, fit = glance(q, pcall(unpack_limit, heads[i], STATE, 3))
            else
                n, at, fit = glance_at_body(q, bodies[i])
            end
            if n and not seen[id] and beyond(f, n) and (not is_it or is_it(id, i, n)) then
                seen[id] = true
                ordered = ordered and (#found == 0 or found[#found][2] < n)
                found[#found + 1] = { id, n, at, fit }
                if fit then close[#close + 1] = id end
            end
        end
    end
    if not ordered then table.sort(found, function(a, b) return a[2] < b[2] end) end
    load_all(t, close)
    for i = 1, #found do
        local id, n, at, fit = unpack(found[f.newest and #found + 1 - i or i])
        local h = fit and row(t, id)
        -- What is damaged is passed over, until someone who may write comes upon it.
        if not fit or h then see(f, id, n, at, h and fits(h, q) and h) end
        if f.done then return end
    end
end

-- ---- from the list of all accepted jobs

local from_log, begin_in_time
do
    -- When the first job of a list of accepted ones that is still there was accepted.
    local function first_at(t, k)
        local key = t.p .. 'log:' .. k
        for from = 0, CHUNK, 20 do
            local ids = call('LRANGE', key, from, from + 19)
            for _, id in ipairs(ids) do
                local h = row(t, id)
                -- Not one whose name was given again to a later job.
                if h and floor((h[N] - 1) / CHUNK) == tonumber(k) then return h[AT] end
            end
            if #ids < 20 then break end
        end
        return 0
    end

    -- The list in which jobs accepted at an instant are, by halving.
    local function chunk_at(t, instant)
        local low, high = 0, call('ZCARD', t.k.chunks) - 1
        while low < high do
            local middle = floor((low + high + 1) / 2)
            local k = call('ZRANGE', t.k.chunks, middle, middle)[1]
            if first_at(t, k) < instant then low = middle else high = middle - 1 end
        end
        return tonumber(call('ZRANGE', t.k.chunks, low, low)[1] or 0)
    end

    -- Where a search begins that is limited in time.
    function begin_in_time(f)
        if f.after > 0 then return end
        if f.newest and f.q[7] > 0 then
            f.after = (chunk_at(f.t, f.q[7]) + 1) * CHUNK + 1
        elseif not f.newest and f.q[6] > 0 then
            f.after = chunk_at(f.t, f.q[6]) * CHUNK
        end
    end

    local function next_chunk(f)
        local key = f.t.k.chunks
        if not f.newest then
            return tonumber(call('ZRANGEBYSCORE', key, floor(f.after / CHUNK), '+inf', 'LIMIT', 0, 1)[1])
        end
        local from = f.after > 0 and floor((f.after - 2) / CHUNK) or '+inf'
        return tonumber(call('ZREVRANGEBYSCORE', key, from, '-inf', 'LIMIT', 0, 1)[1])
    end

    -- A list that was written anew without what is gone, or is not what it should be: all of it is looked at.
    local function look_at_rest(f, k, key)
        look(f, call('LRANGE', key, 0, -1), function(_, _, n) return floor((n - 1) / CHUNK) == k end)
    end

    -- A list in which everyone is in the place of his number.
    local function look_at_slices(f, k, key, low, high)
        local base = k * CHUNK
        if f.after > 0 and f.newest then high = min(high, f.after - base - 2) end
        if f.after > 0 and not f.newest then low = max(low, f.after - base) end
        while low <= high and not f.done and f.weight < f.most do
            local from, to = low, min(high, low + f.slice - 1)
            if f.newest then from, to = max(low, high - f.slice + 1), high end
            look(f, call('LRANGE', key, from, to), function(id, i, n)
                if n == base + from + i then return true end
                -- A name that was given again stands twice, or in two lists.
                return floor((n - 1) / CHUNK) == k and call('LINDEX', key, n - 1 - base) ~= id
            end)
            if f.newest then high, f.after = from - 1, base + from + 1 else low, f.after = to + 1, base + to + 1 end
        end
        return low > high
    end

    function from_log(f)
        local t = f.t
        begin_in_time(f)
        while not f.done do
            local k = next_chunk(f)
            if not k then return end
            if f.weight >= f.most then
                f.more, f.last = true, f.after
                return
            end
            local key, base, done = t.p .. 'log:' .. k, k * CHUNK, true
            local size = call('LLEN', key)
            if size == min(CHUNK, t.n - base) then
                done = look_at_slices(f, k, key, 0, size - 1)
            else
                look_at_rest(f, k, key)
            end
            if done then f.after = f.newest and base + 1 or base + CHUNK end
        end
    end
end

-- ---- from indexes

local search
do
    -- How many jobs there are in each state of those that are wanted; nil where anything is, or where nobody knows.
    local function present(t, q)
        if not q[2] and q[1] == '' then return nil end
        local counts, sums = nil, {}
        if q[1] ~= '' then
            local fields = {}
            for state = WAITING, SKIPPED do fields[state + 1] = state .. q[1] end
            for i, number in ipairs(call('HMGET', t.k.counts, unpack(fields))) do sums[i - 1] = tonumber(number or 0) end
        else
            counts = call('HGETALL', t.k.counts)
            for i = 1, #counts, 2 do
                local state = byte(counts[i], 1) - 48
                sums[state] = (sums[state] or 0) + tonumber(counts[i + 1])
            end
        end
        if not next(sums) or call('EXISTS', t.k.counts) == 0 then return nil end
        local found = {}
        for state, number in pairs(sums) do
            if number > 0 and (not q[2] or q[2][state + 1]) then found[state] = number end
        end
        return found
    end

    -- The queues with ready jobs that are of interest.
    local function ready_queues(t, q)
        if q[1] ~= '' then return { q[1] } end
        local queues, counts = {}, call('HGETALL', t.k.counts)
        for i = 1, #counts, 2 do
            if byte(counts[i], 1) == 48 + READY and tonumber(counts[i + 1]) > 0 then queues[#queues + 1] = sub(counts[i], 2) end
        end
        return queues
    end

    -- A number that no ready job is above; nil where a glance does not tell. Ranks of one band are given in the order of time: what stands
    -- before a job that is ready since it came in, came in before it. So the ends of the bands are enough.
    local function newest_ready(t, q)
        local queues, newest = ready_queues(t, q), 0
        if #queues > 20 or call('EXISTS', t.k.asides) == 1 then return nil end
        for _, queue in ipairs(queues) do
            if call('EXISTS', t.p .. 'solo:' .. queue) == 1 or #lanes.keys(t, queue, 1) > 0 then return nil end
            for band = 0, 9 do
                local from, to = format('%d', band * BAND), '(' .. format('%d', (band + 1) * BAND)
                local ids = call('ZREVRANGEBYSCORE', t.p .. 'ready:' .. queue, to, from, 'LIMIT', 0, 20)
                local sure = #ids < 20
                load_all(t, ids)
                for _, id in ipairs(ids) do
                    local h = row(t, id)
                    if not h then return nil end
                    newest, sure = max(newest, h[N]), sure or call('HEXISTS', t.k.heads, id) == 0
                end
                if not sure then return nil end
            end
        end
        return newest
    end

    -- The ids of all jobs in those of the working states that are wanted, or nil where they are too many to be sorted.
    local function working(t, q, states)
        local ids, total, workers = {}, states[READY] or 0, states[RUNNING] and call('ZRANGE', t.k.workers, 0, -1) or {}
        if states[SCHEDULED] then total = total + call('ZCARD', t.k.due) end
        for _, worker in ipairs(workers) do total = total + call('HLEN', t.p .. 'held:' .. worker) end
        if total > BOUNDS.SORTABLE then return nil end
        local function all_of(command, key, ...)
            for _, id in ipairs(call(command, t.p .. key, ...)) do ids[#ids + 1] = id end
        end
        if states[SCHEDULED] then all_of('ZRANGE', 'due', 0, -1) end
        for _, worker in ipairs(workers) do all_of('HKEYS', 'held:' .. worker) end
        if not states[READY] then return ids end
        for _, queue in ipairs(ready_queues(t, q)) do
            all_of('ZRANGE', 'ready:' .. queue, 0, -1)
            all_of('ZRANGE', 'solo:' .. queue, 0, -1)
            for _, key in ipairs(lanes.keys(t, queue, BOUNDS.SORTABLE)) do all_of('ZRANGE', key, 0, -1) end
        end
        for _, group in ipairs(call('HKEYS', t.k.asides)) do
            if q[1] == '' or string.match(group, '^(.-)\n') == q[1] then all_of('ZRANGE', 'aside:' .. group, 0, -1) end
        end
        return ids
    end

    -- The index of those that ended so, and were not successful.
    local function index_of(t, q, state)
        local key = t.k[STATES[state]]
        if state ~= FAILED then return key end
        local by_task, by_mark = q[3] ~= '' and key .. ':task:' .. q[3], q[4] ~= '' and key .. ':mark:' .. q[4]
        if by_task and by_mark then return call('ZCARD', by_task) < call('ZCARD', by_mark) and by_task or by_mark end
        return by_task or by_mark or key
    end

    -- Adds what an index has next, with its numbers. Answers the last of these if there are more behind it.
    local function add_ended(f, key, list)
        local found, from = nil, f.after > 0 and '(' .. format('%d', f.after) or nil
        if f.newest then
            found = call('ZREVRANGEBYSCORE', key, from or '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, f.most + 1)
        else
            found = call('ZRANGEBYSCORE', key, from or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, f.most + 1)
        end
        for i = 1, min(#found, 2 * f.most), 2 do list[#list + 1] = { found[i], tonumber(found[i + 1]) } end
        return #found > 2 * f.most and list[#list][2] or nil
    end

    -- Looks at candidates of which the numbers are known, in their order, up to the one behind which an index has more.
    local function look_at(f, list, edge)
        local at = 1
        table.sort(list, function(a, b)
            if f.newest then return a[2] > b[2] end
            return a[2] < b[2]
        end)
        while at <= #list and not f.done and f.weight < f.most do
            local ids = {}
            for i = at, min(#list, at + f.slice - 1) do
                if edge and (list[i][2] - edge) * (f.newest and -1 or 1) > 0 then break end
                ids[#ids + 1] = list[i][1]
            end
            if #ids == 0 then break end
            at = at + #ids
            look(f, ids)
            if not f.done then f.last = list[at - 1][2] end
        end
        if not f.done and (edge or at <= #list) then f.more = true end
    end

    local function from_indexes(f, states, ids)
        local t, list, edge, seen, bare = f.t, {}, nil, {}, {}
        for i, packed in ipairs(call_many('HMGET', t.k.heads, ids)) do
            local n
            if packed then n = glance(f.q, pcall(unpack_limit, packed, STATE, 3)) else bare[#bare + 1] = ids[i] end
            if n and not seen[ids[i]] and beyond(f, n) then seen[ids[i]], list[#list + 1] = true, { ids[i], n } end
        end
        load_all(t, bare)
        for _, id in ipairs(bare) do
            local h = row(t, id)
            if h and not seen[id] and beyond(f, h[N]) then seen[id], list[#list + 1] = true, { id, h[N] } end
        end
        begin_in_time(f)
        for state = FAILED, SKIPPED do
            local last = states[state] and add_ended(f, index_of(t, f.q, state), list)
            if last and (not edge or (f.newest and last > edge) or (not f.newest and last < edge)) then edge = last end
        end
        look_at(f, list, edge)
    end

    function search(f)
        local t, q = f.t, f.q
        if q[5] ~= '' then return from_indexes(f, {}, call('HKEYS', t.p .. 'held:' .. q[5])) end
        local states = present(t, q)
        if not states then return from_log(f) end
        local plain, total = f.after == 0 and q[3] == '' and q[4] == '' and q[6] == 0 and q[7] == 0, 0
        for _, number in pairs(states) do total = total + number end
        if total == 0 then return end
        if plain then f.total = total end
        local ids = not states[WAITING] and not states[SUCCEEDED] and working(t, q, states)
        if ids then return from_indexes(f, states, ids) end
        local newest = f.newest and q[7] == 0 and next(states) == READY and not next(states, READY) and newest_ready(t, q)
        if newest and (f.after == 0 or f.after > newest + 1) then f.after = newest + 1 end
        from_log(f)
    end
end

-- find(settings, now, query, after, limit, most)
--   after   the number to go on from, or 0; limit: how many records to answer; most: how many to look at
-- Answers the number to go on from (0: there is no more), how many were looked at, then records as in `get`.
local function find(keys, args)
    local t = begin(keys, args, true)
    local f = new_search(t, cmsgpack.unpack(args[3]), tonumber(args[4]), tonumber(args[5]), tonumber(args[6]))
    search(f)
    return { f.more and format('%d', f.last) or '0', math.ceil(f.weight), unpack(f.list) }
end

register('find', find, 'no-writes')
