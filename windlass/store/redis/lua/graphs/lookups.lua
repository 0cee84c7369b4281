-- Graphs as they are read: workflows, their members, and the values that lead to a node.

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

-- graph(settings, now, id): answers a graph, see `add_graph`, or nothing where there is none.
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

register('inputs', inputs, 'no-writes')
register('graph', graph, 'no-writes')
register('workflows', workflows, 'no-writes')
register('members', members, 'no-writes')
