-- Reading: nothing here changes anything.

-- A record as it is answered: id, body, head, progress, result, error, links; '' for what there is not.
local function add_record(t, list, id, h)
    local size = #list
    list[size + 1] = id
    for i = 2, 7 do list[size + i] = '' end
    if not h then
        -- Something is there that cannot be read: said to be damaged, until someone who may write takes it out.
        if call('HEXISTS', t.k.jobs, id) + call('HEXISTS', t.k.heads, id) > 0 then list[size + 2] = '?' end
        return
    end
    local result, problem = h[RESULT], h[ERROR]
    h[RESULT], h[ERROR] = false, false  -- they are bytes, which would not survive among the text of the others
    list[size + 2], list[size + 3] = call('HGET', t.k.jobs, id) or '', pack(h)
    list[size + 4], list[size + 5], list[size + 6] = call('HGET', t.k.progress, id) or '', result or '', problem or ''
    if h[LINKS] then list[size + 7] = call('HGET', t.k.links, id) or '' end
    h[RESULT], h[ERROR] = result, problem
end

-- get(settings, now, id, …)
local function get(keys, args)
    local t, list, ids = begin(keys, args, true), {}, {}
    for i = 3, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if h and graphs.is_hidden(t, h) then
            for _, part in ipairs({ id, '', '', '', '', '', '' }) do list[#list + 1] = part end
        else
            add_record(t, list, id, h)
        end
    end
    return list
end

-- ---- listings: a bounded number of candidates in the order of acceptance, from where the last call stopped

local function beyond(n, after, newest) return after == 0 or (newest and n < after) or (not newest and n > after) end

-- Candidates from an index of dead letters, which is ordered by number.
local function from_failed(t, q, after, most)
    local key = t.k.failed
    if q[3] ~= '' then key = key .. ':task:' .. q[3] elseif q[4] ~= '' then key = key .. ':mark:' .. q[4] end
    local listed, ids
    if q[8] then
        listed = call('ZREVRANGEBYSCORE', key, after == 0 and '+inf' or '(' .. after, '-inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
    else
        listed = call('ZRANGEBYSCORE', key, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
    end
    local more, last = #listed > 2 * most, 0
    ids = {}
    for i = 1, min(#listed, 2 * most), 2 do ids[#ids + 1], last = listed[i], tonumber(listed[i + 1]) end
    load(t, ids)
    -- What cannot be read is passed over, and must not be where the next call goes on from.
    local sound = {}
    for _, id in ipairs(ids) do
        if row(t, id) then sound[#sound + 1] = id end
    end
    return sound, more, more and last or 0
end

-- The ids of all jobs in one of the working states, or nil where they are too many to be sorted.
local function in_state(t, state)
    local ids, total, queues = {}, 0, {}
    local counts = call('HGETALL', t.k.counts)
    for i = 1, #counts, 2 do
        if byte(counts[i], 1) == 48 + state and tonumber(counts[i + 1]) > 0 then
            total, queues[#queues + 1] = total + tonumber(counts[i + 1]), sub(counts[i], 2)
        end
    end
    if total > CHUNK then return nil end
    local function all_of(command, key, ...)
        for _, id in ipairs(call(command, t.p .. key, ...)) do ids[#ids + 1] = id end
    end
    if state == SCHEDULED then
        all_of('ZRANGE', 'due', 0, -1)
    elseif state == RUNNING then
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do all_of('HKEYS', 'held:' .. worker) end
    else
        for _, queue in ipairs(queues) do
            all_of('ZRANGE', 'ready:' .. queue, 0, -1)
            all_of('ZRANGE', 'solo:' .. queue, 0, -1)
            for _, key in ipairs(lanes.keys(t, queue, CHUNK)) do all_of('ZRANGE', key, 0, -1) end
        end
        for _, group in ipairs(call('HKEYS', t.k.asides)) do all_of('ZRANGE', 'aside:' .. group, 0, -1) end
    end
    return ids
end

local function sorted(t, ids, after, newest, keep)
    local found, seen = {}, {}
    load_all(t, ids)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if h and not seen[id] and beyond(h[N], after, newest) and (not keep or keep(h)) then
            seen[id], found[#found + 1] = true, id
        end
    end
    table.sort(found, function(a, b)
        if newest then return t.rows[a][N] > t.rows[b][N] end
        return t.rows[a][N] < t.rows[b][N]
    end)
    return found
end

-- When the first job of a list of accepted ones that is still there was accepted.
local function first_at(t, k)
    for _, id in ipairs(call('LRANGE', t.p .. 'log:' .. k, 0, -1)) do
        local h = row(t, id)
        -- Not one whose name was given again to a later job.
        if h and floor((h[N] - 1) / CHUNK) == tonumber(k) then return h[AT] end
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

-- The next list to look at, and whether there are others behind it.
local function next_chunk(t, q, after)
    local newest, from = q[8]
    if newest then
        from = after > 0 and floor((after - 2) / CHUNK) or 1 / 0
        if q[7] > 0 then from = min(from, chunk_at(t, q[7])) end
    else
        from = after > 0 and floor(after / CHUNK) or 0
        if q[6] > 0 then from = max(from, chunk_at(t, q[6])) end
    end
    local command, far = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE', newest and '-inf' or '+inf'
    local found = call(command, t.k.chunks, from == 1 / 0 and '+inf' or from, far, 'LIMIT', 0, 2)
    return tonumber(found[1]), found[2] ~= nil
end

-- Candidates from the list of all accepted jobs. Answers also the number to go on from, if there is more.
local function from_log(t, q, after, most)
    local k, others = next_chunk(t, q, after)
    if not k then return {}, false, 0 end
    local ids = sorted(t, call('LRANGE', t.p .. 'log:' .. k, 0, -1), after, q[8], function(h) return floor((h[N] - 1) / CHUNK) == k end)
    if #ids > most then
        for i = #ids, most + 1, -1 do ids[i] = nil end
        return ids, true, t.rows[ids[most]][N]
    end
    return ids, others, q[8] and k * CHUNK + 1 or (k + 1) * CHUNK
end

local function candidates(t, q, only, after, most)
    if only == FAILED then return from_failed(t, q, after, most) end
    local ids = q[5] ~= '' and call('HKEYS', t.p .. 'held:' .. q[5])
    if not ids and only >= SCHEDULED and only <= RUNNING then ids = in_state(t, only) end
    if not ids then return from_log(t, q, after, most) end
    ids = sorted(t, ids, after, q[8])
    local more = #ids > most
    for i = #ids, most + 1, -1 do ids[i] = nil end
    return ids, more, 0
end

-- find(settings, now, query, only, after, limit, most)
--   only    the one state that is asked for, or -1; after: the number to go on from, or 0
--   limit   how many records to answer; most: how many to look at
-- Answers: the number to go on from (0: there is no more), how many were looked at, then records as above.
local function find(keys, args)
    local t, q = begin(keys, args, true), cmsgpack.unpack(args[3])
    local limit, list, looked, found = tonumber(args[6]), {}, 0, 0
    local ids, more, cursor = candidates(t, q, tonumber(args[4]), tonumber(args[5]), min(tonumber(args[7]), CHUNK))
    for i, id in ipairs(ids) do
        local h = row(t, id)
        looked = i
        if h and fits(h, q) then
            add_record(t, list, id, h)
            found = found + 1
        end
        if found == limit then break end
    end
    if looked < #ids or (more and cursor == 0) then
        local h = row(t, ids[looked])
        more, cursor = true, h and h[N] or 0
    end
    return { more and string.format('%d', cursor) or '0', looked, unpack(list) }
end

-- queues(settings, now): answers the counts (state code and queue, number, …), per queue with ready jobs how long the oldest of those at
-- the head has waited, how many lanes have ready jobs (queue, number, …), and what is said of their gates (queue, declared, tuned, …).
local function queues(keys, args)
    local t, ages, groups = begin(keys, args, true), {}, {}
    local counts = call('HGETALL', t.k.counts)
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue = string.match(group, '^(.-)\n')
        groups[queue] = groups[queue] or {}
        table.insert(groups[queue], 'aside:' .. group)
    end
    for i = 1, #counts, 2 do
        local queue, oldest = sub(counts[i], 2), nil
        if byte(counts[i], 1) == 48 + READY and tonumber(counts[i + 1]) > 0 then
            local places = groups[queue] or {}
            places[#places + 1], places[#places + 2] = 'ready:' .. queue, 'solo:' .. queue
            for _, key in ipairs(lanes.keys(t, queue, 100)) do places[#places + 1] = key end
            for _, key in ipairs(places) do
                local id = call('ZRANGE', t.p .. key, 0, 0)[1]
                local h = id and row(t, id)
                if h and (not oldest or h[AT] < oldest) then oldest = h[AT] end
            end
        end
        if oldest then
            ages[#ages + 1] = queue
            ages[#ages + 1] = string.format('%d', t.now - oldest)
        end
    end
    local said = {}
    for name, gate in pairs(gates.all(t)) do
        local queue = string.match(name, '^queue:(.*)$')
        if queue then
            for _, part in ipairs({ queue, gate.declared, gate.tuned }) do said[#said + 1] = part end
        end
    end
    return { counts, ages, call('HGETALL', t.k.laned), said }
end

-- holds(settings, now, id, …): answers for each MessagePack [kind, lane, gate, holder, missing, opens_in, ahead], '' where nothing keeps it.
local function hold_in_lane(t, id, h)
    local lane, queue = lanes.name(h), h[QUEUE]
    local stay, gate, holder, missing, opens_in = lanes.stay(t, queue, lane), '', '', 0, -1
    local s = (byte(lane, 1) == 111 or byte(lane, 1) == 115) and lanes.strict(t, queue, lane)
    if s and s[1] ~= id then holder = s[1] end
    if not stay or stay[1] == 'g' then
        local head = stay and stay[3] or call('ZRANGE', t.p .. 'lane:' .. queue .. '\n' .. lane, '0', '0')[1]
        local shut, opens = lanes.shut_for(t, queue, lane, head or id)
        gate = shut or ''
        if shut and opens then opens_in = max(0, opens - t.now) end
    elseif stay[1] == 'n' and s then
        missing = s[2]
        local at = call('ZSCORE', t.k.openings, 'l' .. queue .. '\n' .. lane)
        if at then opens_in = max(0, tonumber(at) - t.now) end
    end
    local ahead = call('ZRANK', t.p .. 'lane:' .. queue .. '\n' .. lane, id) or 0
    if s and s[1] == id then ahead = 0 end
    return { 'lane', lane, (string.gsub(gate, '\n', ':', 1)), holder, missing, opens_in, ahead }
end

local function holds(keys, args)
    local t, list, ids = begin(keys, args, true), {}, {}
    for i = 3, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    for i, id in ipairs(ids) do
        local h = row(t, id)
        local terms, found = h and flow.terms(h), nil
        if h and h[STATE] == READY and h[HOLD] == LANE then
            found = hold_in_lane(t, id, h)
        elseif h and h[STATE] == READY and h[HOLD] ~= NOT_HELD then
            found = { h[HOLD] == SOLO and 'solo' or 'aside', '', '', '', 0, -1, 0 }
        elseif h and h[STATE] == WAITING and terms and terms.unique ~= '' then
            local held = unique.held(t, terms.unique)
            if held and held[2] == id then found = { 'successor', '', '', held[1], 0, -1, 0 } end
        end
        list[i] = found and pack(found) or ''
    end
    return list
end

-- uniques(settings, now, key, …): answers for each: holder, or '' where nobody has it, successor, and how long its window lasts.
local function uniques(keys, args)
    local t, list = begin(keys, args, true), {}
    for i = 3, #args do
        local held, size = unique.held(t, args[i]), #list
        list[size + 1], list[size + 2] = held and held[1] or '', held and held[2] or ''
        list[size + 3] = held and max(0, held[3] - t.now) or 0
    end
    return list
end

-- workers(settings, now): answers for each: presence, beat age, alive, running, idle.
local function workers(keys, args)
    local t, list = begin(keys, args, true), {}
    for _, id in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
        local w = call('HMGET', t.p .. 'worker:' .. id, 'presence', 'beat', 'dead', 'until', 'lease', 'idle')
        if w[1] then
            local ends, lease = tonumber(w[4]), tonumber(w[5])
            -- With the extension that the next step which writes would give it.
            if ends > t.last and t.gap > lease / 2 then ends = ends + t.gap end
            local size = #list
            list[size + 1], list[size + 2] = w[1], t.now - tonumber(w[2])
            list[size + 3] = (w[3] ~= '1' and ends > t.now) and 1 or 0
            list[size + 4], list[size + 5] = call('HLEN', t.p .. 'held:' .. id), tonumber(w[6])
        end
    end
    return list
end

-- logs(settings, now, id, after, limit): answers packed lines: [n, at, level, text].
local function logs(keys, args)
    local t, after, limit = begin(keys, args, true), tonumber(args[4]), tonumber(args[5])
    local h, key = row(t, args[3]), t.p .. 'logs:' .. args[3]
    if not h or h[LOGGED] == 0 then return {} end
    local from = max(0, after + 1 - (h[LOGGED] - call('LLEN', key)))
    return call('LRANGE', key, from, from + limit - 1)
end

-- ---- graphs

-- inputs(settings, now, id, …): answers for each what it came with and a list: its sources that bring a value, and their heads.
local function inputs(keys, args)
    local t, list = begin(keys, args, true), {}
    for i = 3, #args do
        local packed = call('HGET', t.k.links, args[i])
        local came_with = graphs.came_with(packed)
        local h, ids = row(t, args[i]), {}
        if h and h[LINKS] and h[LINKS][L.REPLACED] == 1 then
            -- It has one: the graph that took its place.
            packed = pack({ h[LINKS][L.GRAPH], { h[LINKS][L.AWAITS], 0, 1 }, {}, 0, 0, false })
            ids[1] = h[LINKS][L.AWAITS]
        elseif came_with and h and not graphs.is_hidden(t, h) then
            local ins = came_with[2]
            for k = 1, #ins / 3 do
                if ins[3 * k] ~= 0 then ids[#ids + 1] = ins[3 * k - 2] end
            end
        end
        local size = #list
        list[size + 1], list[size + 2] = #ids > 0 and packed or '', call_many('HMGET', t.k.heads, ids)
    end
    return list
end

-- A graph as it is answered: id, row, meta.
local function add_graph(t, list, id, g)
    local size, meta, end_of = #list, call('HGET', t.k.metas, id), row(t, id)
    if end_of and end_of[LINKS] then
        if end_of[REASON] ~= '' then g[G.REASON] = end_of[REASON] end
        local blamed = graphs.blame(t, '', end_of)
        if g[G.STOPPING] == '' then g[G.CULPRIT] = blamed end
    end
    list[size + 1], list[size + 2], list[size + 3] = id, pack(g), meta or '{}'
end

-- graph(settings, now, id)
local function graph(keys, args)
    local t, list = begin(keys, args, true), {}
    local g = graphs.row(t, args[3])
    if g and g[G.REAL] == 1 then add_graph(t, list, args[3], g) end
    return list
end

-- workflows(settings, now, after, limit, states): the newest ones below a number. `states`: for each state '1' if it is wanted.
-- Answers the number to go on from, 0 at the end, then graphs as above; it looks at a bounded number.
local function workflows(keys, args)
    local t, list, limit, states = begin(keys, args, true), { 0 }, tonumber(args[4]), args[5]
    local highest = args[3] == '0' and '+inf' or '(' .. args[3]
    local ids = call('ZREVRANGEBYSCORE', t.k.workflows, highest, '-inf', 'LIMIT', 0, CHUNK)
    graphs.load(t, ids)
    load(t, ids)
    for i, id in ipairs(ids) do
        local g = graphs.row(t, id)
        if g and byte(states, g[G.STATE] + 1) == 49 then
            add_graph(t, list, id, g)
            limit = limit - 1
        end
        if (limit == 0 and (i < #ids or #ids == CHUNK)) or i == CHUNK then
            list[1] = call('ZSCORE', t.k.workflows, id)
            return list
        end
    end
    return list
end

-- members(settings, now, graph, after, limit): answers records. There may be many, and they go as they are kept.
local function members(keys, args)
    local t, list = begin(keys, args, true), {}
    local g, from = graphs.row(t, args[3]), tonumber(args[4]) + 1
    if not g or g[G.REAL] == 0 then return list end
    local ids = call('LRANGE', t.p .. 'members:' .. args[3], from, from + tonumber(args[5]) - 1)
    local bodies, heads = call_many('HMGET', t.k.jobs, ids), call_many('HMGET', t.k.heads, ids)
    local progress, links = call_many('HMGET', t.k.progress, ids), call_many('HMGET', t.k.links, ids)
    for i, id in ipairs(ids) do
        -- Not one that is gone and whose id was given to another job since.
        if not heads[i] or byte(heads[i], -1) ~= 194 then
            for _, part in ipairs({ id, bodies[i] or '', heads[i] or '', progress[i] or '', '', '', links[i] or '' }) do
                list[#list + 1] = part
            end
        end
    end
    return list
end

register('holds', holds, 'no-writes')
register('uniques', uniques, 'no-writes')
register('inputs', inputs, 'no-writes')
register('graph', graph, 'no-writes')
register('workflows', workflows, 'no-writes')
register('members', members, 'no-writes')
register('get', get, 'no-writes')
register('find', find, 'no-writes')
register('queues', queues, 'no-writes')
register('workers', workers, 'no-writes')
register('logs', logs, 'no-writes')
