-- insert_graph(settings, now, graph, meta, first, commit, specs, id, body, links, outs, …)
--   graph   MessagePack: [id, nodes, size, digest, name, fail fast, parent, keep_done, keep_failed]
--   specs   MessagePack: SPEC values for each node, see `new_node`
--   body    as for insert; links: see links.lua; outs: the third part of them
-- Answers MessagePack: [status, reason, staged, more].
local SPEC = 16
local WIDTH = 250

-- The head of a node: it waits, and is nothing yet that anyone counts.
local function new_node(graph, parts, s, at, outs)
    local _, task, version, queue, priority = unpack_limit(parts, 4, 0)
    return {
        0, 0, task, version, queue, priority, WAITING, 1, 0, 0, 0, 0, 0,
        '', 0, 0, 0, 0, s[at + 4], s[at + 5], s[at + 6], s[at + 7],
        NOT_HELD, 0, 0, 0, s[at + 8], s[at + 9], '', '', false, false,
        graphs.new_place(graph, s[at + 10], s[at + 13], s[at + 14], s[at + 15], s[at + 1], s[at + 2], s[at + 3],
            s[at + 11], s[at + 12], outs, s[at + 16]),
    }
end

-- Why these nodes cannot be taken: a status and a reason.
local function objection(t, g, id, ids, specs, skip)
    if g[G.STAGED] + #ids > g[G.NODES] then
        return 'refused', "workflow '" .. id .. "' has more nodes than the " .. g[G.NODES] .. ' it announced'
    end
    local seen = {}
    for i, body in ipairs(call_many('HMGET', t.k.jobs, ids)) do
        local at = (skip + i - 1) * SPEC
        if specs[at + 10] > WIDTH or specs[at + 16] > WIDTH then
            return 'refused', "node '" .. ids[i] .. "' has more than " .. WIDTH .. ' edges'
        end
        if body or seen[ids[i]] then return 'conflict', "the id '" .. ids[i] .. "' is taken" end
        seen[ids[i]] = true
    end
    return nil
end

local function stage(t, g, id, ids, specs, skip, args)
    local bodies, links = {}, {}
    for i, one in ipairs(ids) do
        local at = 8 + 4 * (skip + i - 1)
        bodies[2 * i - 1], bodies[2 * i] = one, string.rep('\0', PREFIX) .. args[at + 1]
        links[2 * i - 1], links[2 * i] = one, args[at + 2]
        t.rows[one] = new_node(id, args[at + 1], specs, (skip + i - 1) * SPEC, args[at + 3])
        touch(t, one)
    end
    call_many('HSET', t.k.jobs, bodies)
    call_many('HSET', t.k.links, links)
    call_many('RPUSH', t.p .. 'members:' .. id, ids)
    g[G.STAGED] = g[G.STAGED] + #ids
    graphs.touch(t, id)
    graphs.list(t, 'staging', id, t.now)
end

local function new_graph(s, meta)
    return {
        s[5], s[3], s[2], s[4], s[6], s[7], s[8], s[9], meta, 0, 0, 0, 0, WAITING, '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    }
end

-- Takes what is new of a part; answers a status and, if it is not accepted, why.
local function take(t, said, args)
    local id, first, commits = said[1], tonumber(args[5]), args[6] == '1'
    local known = graphs.row(t, id)
    if known and known[G.DIGEST] ~= said[4] then return 'conflict', "workflow '" .. id .. "' exists with other contents" end
    if known and known[G.REAL] == 1 then return 'duplicate', '' end
    local g = known or new_graph(said, args[4])
    if first > g[G.STAGED] then
        return 'refused', "of workflow '" .. id .. "' only " .. g[G.STAGED] .. ' nodes are here, and these begin with number ' .. first
    end
    local ids, skip, specs = {}, g[G.STAGED] - first, cmsgpack.unpack(args[7])
    for at = 8 + 4 * skip, #args, 4 do ids[#ids + 1] = args[at] end
    local status, reason = objection(t, g, id, ids, specs, skip)
    if status then
        if known then graphs.drop(t, id, 'all') end
        return status, reason
    end
    t.graphs[id] = g
    stage(t, g, id, ids, specs, skip, args)
    if commits and not graphs.is_staged(t, id) then
        return 'refused', "of workflow '" .. id .. "' only " .. g[G.STAGED] .. ' of ' .. g[G.NODES] .. ' nodes are here'
    end
    if commits then graphs.commit(t, id) end
    return 'accepted', ''
end

local function insert_graph(keys, args)
    local t, said = begin(keys, args), cmsgpack.unpack(args[3])
    local status, reason = take(t, said, args)
    graphs.work(t)
    graphs.wake(t)
    commit(t)
    graphs.wake_any(t)
    local g = graphs.row(t, said[1])
    local more = g and g[G.REAL] == 1 and g[G.OPENED] < g[G.NODES] or false
    return pack({ status, reason, g and g[G.STAGED] or 0, more })
end

register('insert_graph', insert_graph)
