-- Opening: a staged graph becomes real, and its jobs take their place among all others, node by node in order.
do
    local node, decide = graphs.node, graphs.decide
    graphs.ops = {}  -- what each kind of todo does, see todos.lua

    -- The ids of a graph's nodes from one on, their rows being read.
    function graphs.page(t, graph, from, size)
        local ids = call('LRANGE', t.p .. 'members:' .. graph, format('%d', from), format('%d', from + size - 1))
        load(t, ids)
        return ids
    end

    -- Nodes of a committed graph take their place among all jobs; one that waits for nothing is decided at once.
    function graphs.open_nodes(t, ids)
        local accepted, first = {}, t.n
        for _, id in ipairs(ids) do
            local h = node(t, id)
            if h and h[LINKS][L.OPENED] == 0 then
                h[LINKS][L.OPENED] = 1
                touch(t, id)
                if not is_join(h) then
                    t.n = t.n + 1
                    accepted[#accepted + 1] = id
                    h[N], h[AT] = t.n, t.now
                    count(t, h[QUEUE], WAITING, 1)
                    job_news(t, 'enqueued', '', id, h)
                    if h[EXPIRES] > 0 then add(t, 'expiring', h[EXPIRES], id) end
                end
                if h[LINKS][L.OPEN] == 0 then decide(t, id, h) end
            end
        end
        if #accepted > 0 then log_accepted(t, first, accepted) end
    end

    function graphs.ops.open(t, todo, left)
        local g = graphs.row(t, todo[2])
        if not g then return 0 end
        local ids = graphs.page(t, todo[2], g[G.OPENED], left)
        g[G.OPENED] = g[G.OPENED] + #ids
        graphs.touch(t, todo[2])
        graphs.open_nodes(t, ids)
        return #ids, #ids > 0 and g[G.OPENED] < g[G.NODES] and todo or nil
    end

    -- Whether all of a graph is there and nobody sees it yet.
    function graphs.is_staged(t, id)
        local g = graphs.row(t, id)
        if not g or g[G.REAL] == 1 or g[G.STAGED] < g[G.NODES] then return false end
        local end_of = row(t, id)
        return end_of and end_of[LINKS] and end_of[LINKS][L.GRAPH] == id
    end

    function graphs.may_adopt(t, id, graph) return graphs.is_staged(t, graph) and graphs.row(t, graph)[G.PARENT] == id end

    -- A staged graph becomes real.
    function graphs.commit(t, id)
        local g = graphs.row(t, id)
        t.rank = t.rank + 1
        g[G.REAL], g[G.N], g[G.CREATED] = 1, t.rank, t.now
        graphs.touch(t, id)
        graphs.list(t, 'staging', id, false)
        graphs.list(t, 'workflows', id, t.rank)
        graphs.list(t, 'working', id, t.now + t.settings.audit_every)
        news(t, 'workflow_started', '', id, g[G.NAME], '')
        graphs.todo(t, 'open', id)
    end
end
