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

-- ---- queues

-- For queues with ready jobs, the job at the head of each order it has: ids, and of which queue each is.
local function heads_of_queues(t, ready, laned)
    local ids, owners, groups, solos = {}, {}, {}, {}
    local function note(key, queue)
        local id = call('ZRANGE', t.p .. key, '0', '0')[1]
        if id then ids[#ids + 1], owners[#owners + 1] = id, queue end
    end
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue = string.match(group, '^(.-)\n')
        groups[queue] = groups[queue] or {}
        table.insert(groups[queue], 'aside:' .. group)
    end
    for i, queue in ipairs(ready) do solos[i] = t.p .. 'solo:' .. queue end
    local alone = #solos > 0 and (#solos > CHUNK or call('EXISTS', unpack(solos)) > 0)
    for _, queue in ipairs(ready) do
        note('ready:' .. queue, queue)
        if alone then note('solo:' .. queue, queue) end
        for _, key in ipairs(groups[queue] or {}) do note(key, queue) end
        if laned[queue] then
            for _, key in ipairs(lanes.keys(t, queue, 100)) do note(key, queue) end
        end
    end
    return ids, owners
end

-- When jobs were accepted, false where a record cannot be read.
local function accepted_at(t, ids)
    local times, bare, places = {}, {}, {}
    for i, packed in ipairs(call_many('HMGET', t.k.heads, ids)) do
        local fine, _, _, at = pcall(unpack_limit, packed or '', 2, 3)
        times[i] = fine and type(at) == 'number' and at
        if not packed then bare[#bare + 1], places[#places + 1] = ids[i], i end
    end
    for k, raw in ipairs(call_many('HMGET', t.k.jobs, bare)) do
        times[places[k]] = raw and #raw >= PREFIX and select(2, struct.unpack('>I5I6', raw))
    end
    return times
end

local function pairs_of(list)
    local found = {}
    for i = 1, #list, 2 do found[list[i]] = list[i + 1] end
    return found
end

-- queues(settings, now): answers the counts (state code and queue, number, …), per queue with ready jobs how long the oldest of those at
-- the head has waited, how many lanes have ready jobs (queue, number, …), and what is said of their gates (queue, declared, tuned, …).
local function queues(keys, args)
    local t, ages, ready, oldest = begin(keys, args, true), {}, {}, {}
    local counts, laned = call('HGETALL', t.k.counts), call('HGETALL', t.k.laned)
    for i = 1, #counts, 2 do
        if byte(counts[i], 1) == 48 + READY and tonumber(counts[i + 1]) > 0 then ready[#ready + 1] = sub(counts[i], 2) end
    end
    local ids, owners = heads_of_queues(t, ready, pairs_of(laned))
    for i, at in ipairs(accepted_at(t, ids)) do
        local queue = owners[i]
        if at and (not oldest[queue] or at < oldest[queue]) then oldest[queue] = at end
    end
    for queue, at in pairs(oldest) do
        ages[#ages + 1] = queue
        ages[#ages + 1] = format('%d', t.now - at)
    end
    local said = {}
    for name, gate in pairs(gates.all(t)) do
        local queue = string.match(name, '^queue:(.*)$')
        if queue then
            for _, part in ipairs({ queue, gate.declared, gate.tuned }) do said[#said + 1] = part end
        end
    end
    return { counts, ages, laned, said }
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

-- lines(settings, now, id, after, limit): answers packed lines: [n, at, level, text].
local function lines(keys, args)
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
register('queues', queues, 'no-writes')
register('workers', workers, 'no-writes')
register('lines', lines, 'no-writes')
