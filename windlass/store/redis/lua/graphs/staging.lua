-- insert_graph(settings, now, graph, meta, first, commit, wide, id, body, links, head, …)
--   graph   MessagePack: [id, nodes, size, digest, name, fail fast, parent, keep_done, keep_failed]
--   wide    the first of these nodes that has more edges than a node may have, or ''
--   body    as for insert; links: see nodes.lua; head: as it is kept. All are written as they come, and not looked into
-- Answers MessagePack: [status, reason, staged, more].
local WIDTH = 250
local NODE = 4

-- Why these nodes cannot be taken: a status and a reason.
local function objection(t, g, id, ids, wide)
    if g[G.STAGED] + #ids > g[G.NODES] then
        return 'refused', "workflow '" .. id .. "' has more nodes than the " .. g[G.NODES] .. ' it announced'
    end
    if wide ~= '' then return 'refused', "node '" .. wide .. "' has more than " .. WIDTH .. ' edges' end
    local seen = {}
    for i, body in ipairs(call_many('HMGET', t.k.jobs, ids)) do
        if body or seen[ids[i]] then return 'conflict', "the id '" .. ids[i] .. "' is taken" end
        seen[ids[i]] = true
    end
    return nil
end

local function stage(t, g, id, ids, skip, args)
    local bodies, links, heads, prefix = {}, {}, {}, string.rep('\0', PREFIX)
    for i, one in ipairs(ids) do
        local at, place = 8 + NODE * (skip + i - 1), 2 * i
        bodies[place - 1], links[place - 1], heads[place - 1] = one, one, one
        bodies[place], links[place], heads[place] = prefix .. args[at + 1], args[at + 2], args[at + 3]
    end
    call_many('HSET', t.k.jobs, bodies)
    call_many('HSET', t.k.links, links)
    call_many('HSET', t.k.heads, heads)
    call_many('RPUSH', t.p .. 'members:' .. id, ids)
    g[G.STAGED] = g[G.STAGED] + #ids
    graphs.touch(t, id)
    graphs.list(t, 'staging', id, t.now)
end

local function new_graph(s)
    return {
        s[5], s[3], s[2], s[4], s[6], s[7], s[8], s[9], 0, 0, 0, 0, WAITING, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    }
end

-- Takes what is new of a part; answers a status and, if it is not accepted, why.
function graphs.take(t, said, args)
    local id, first, commits = said[1], tonumber(args[5]), args[6] == '1'
    local known = graphs.row(t, id)
    if known and known[G.DIGEST] ~= said[4] then return 'conflict', "workflow '" .. id .. "' exists with other contents" end
    if known and known[G.REAL] == 1 then return 'duplicate', '' end
    local g = known or new_graph(said)
    if first > g[G.STAGED] then
        return 'refused', "of workflow '" .. id .. "' only " .. g[G.STAGED] .. ' nodes are here, and these begin with number ' .. first
    end
    local ids, skip = {}, g[G.STAGED] - first
    for at = 8 + NODE * skip, #args, NODE do ids[#ids + 1] = args[at] end
    local status, reason = objection(t, g, id, ids, args[7])
    if status then
        if known then graphs.drop(t, id, 'all') end
        return status, reason
    end
    t.graphs[id] = g
    if not known then call('HSET', t.k.metas, id, args[4]) end
    stage(t, g, id, ids, skip, args)
    if commits and not graphs.is_staged(t, id) then
        return 'refused', "of workflow '" .. id .. "' only " .. g[G.STAGED] .. ' of ' .. g[G.NODES] .. ' nodes are here'
    end
    if commits then graphs.commit(t, id) end
    return 'accepted', ''
end

local function insert_graph(keys, args)
    local t, said = begin(keys, args), cmsgpack.unpack(args[3])
    local status, reason = graphs.take(t, said, args)
    graphs.work(t)
    graphs.wake(t)
    close_step(t)
    graphs.wake_any(t)
    local g = graphs.row(t, said[1])
    local more = g and g[G.REAL] == 1 and g[G.OPENED] < g[G.NODES] or false
    return pack({ status, reason, g and g[G.STAGED] or 0, more })
end

register('insert_graph', insert_graph)
