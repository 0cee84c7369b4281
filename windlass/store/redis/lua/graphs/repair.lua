-- Graphs of which something was lost are put right: their nodes are made anew, and edges counted from their sources.
do
    local OPEN, BROKEN = 48, 50  -- an edge's state as its digit
    local node, decide, decided, blame, ins_of = graphs.node, graphs.decide, graphs.decided, graphs.blame, graphs.ins_of

    function graphs.place_anew(came_with)
        local ins, outs = came_with[2], came_with[3]
        local source, inject = '', 0
        for k = #ins / 3, 1, -1 do
            if ins[3 * k] ~= 0 then source, inject = ins[3 * k - 2], ins[3 * k] end
        end
        local place = graphs.new_place()
        place[L.GRAPH], place[L.OPEN], place[L.SPARE], place[L.SHAPE] = came_with[1], #ins / 3, came_with[4], came_with[5]
        place[L.SOURCE], place[L.INJECT], place[L.OUTS], place[L.AFTERMATH] = source, inject, outs, came_with[6] and 1 or 0
        return place
    end

    -- The state of one edge as its source says it. `seen` counts those between the same two: a pair may have several.
    local function edge_from(t, source, target, on, seen)
        local h = row(t, source)
        if not h or not h[LINKS] then return decided(on, FAILED, false), nil end
        local outs, nth = h[LINKS][L.OUTS], 0
        for k = 1, #outs / 3 do
            if outs[3 * k - 2] == target then
                nth = nth + 1
                if nth == seen then
                    local edge = byte(h[LINKS][L.EDGES], k)
                    if edge == OPEN and h[STATE] > RUNNING then
                        edge = decided(on, h[STATE], h[REASON] == 'expired')
                        h[LINKS][L.EDGES] = sub(h[LINKS][L.EDGES], 1, k - 1) .. char(edge) .. sub(h[LINKS][L.EDGES], k + 1)
                        touch(t, source)
                    end
                    return edge, h
                end
            end
        end
        return decided(on, FAILED, false), h
    end

    -- A job whose awaited graph is over, or gone.
    local function recount_awaiting(t, id, h)
        local awaited = h[LINKS][L.AWAITS]
        if graphs.is_under_way(t, awaited) then return end
        local end_of, outs = node(t, awaited), {}
        if end_of then outs = end_of[LINKS][L.OUTS] end
        for k = 1, #outs / 3 do
            if outs[3 * k - 2] == id then
                return graphs.come_back(t, id, h, awaited, end_of, decided(outs[3 * k - 1], end_of[STATE], false))
            end
        end
        h[LINKS][L.CULPRIT] = awaited
        graphs.give_up(t, id, h, FAILED)
    end

    -- Counts the edges that lead to a node anew from its sources. How many there are.
    local function count_edges(t, id, h)
        local place, seen, ins, sources = h[LINKS], {}, ins_of(t, id)
        place[L.OPEN], place[L.BROKEN], place[L.CULPRIT] = 0, 0, ''
        for k, source in ipairs(sources) do
            seen[source] = (seen[source] or 0) + 1
            local edge, of = edge_from(t, source, id, ins[3 * k - 1], seen[source])
            if edge == OPEN then place[L.OPEN] = place[L.OPEN] + 1 end
            if edge == BROKEN then
                place[L.BROKEN] = place[L.BROKEN] + 1
                if place[L.CULPRIT] == '' then place[L.CULPRIT] = of and blame(t, source, of) or source end
            end
        end
        touch(t, id)
        return #sources
    end

    -- The same for one that waits, which is decided if none is open.
    local function recount(t, id, h)
        local place = h[LINKS]
        if h[STATE] ~= WAITING then return 0 end
        if place[L.OPENED] == 0 then
            graphs.open_nodes(t, { id })
            return 1
        end
        if place[L.AWAITS] ~= '' then
            recount_awaiting(t, id, h)
            return 1
        end
        local edges = count_edges(t, id, h)
        if place[L.OPEN] == 0 then decide(t, id, h) end
        return edges
    end

    -- A join whose record cannot be read is made anew from what it came with: all else of it follows from its sources.
    function graphs.mend_join(t, id, came_with)
        came_with = came_with or graphs.came_with(call('HGET', t.k.links, id))
        if not came_with then return forget(t, id) end
        local raw = new_body(0, 0, pack('', 1, '', 5) .. binary('') .. binary('{}'))
        call('HSET', t.k.jobs, id, raw)
        local h, place = fresh_head(raw, 0), graphs.place_anew(came_with)
        place[L.EDGES] = string.rep('0', #came_with[3] / 3)
        h[STATE], h[LINKS] = WAITING, place
        t.rows[id] = h
        touch(t, id)
        graphs.todo(t, 'repair', came_with[1], id, 1)
    end

    -- A node was made anew, and those behind it count their edges anew, for nobody knows any more which of its own were decided.
    function graphs.ops.recount(t, todo)
        local h = node(t, todo[3])
        if not h then return 1 end
        local used, outs = 1 + count_edges(t, todo[3], h), h[LINKS][L.OUTS]
        for k = 1, #outs / 3 do
            local to = node(t, outs[3 * k - 2])
            if to then used = used + 1 + recount(t, outs[3 * k - 2], to) end
        end
        return used
    end

    -- Puts one node right, or with 0 all of a graph: some at a time, for each may have many edges.
    function graphs.ops.repair(t, todo, left)
        if todo[4] == 1 then
            local h = node(t, todo[3])
            return 1 + (h and recount(t, todo[3], h) or 0)
        end
        if not graphs.is_under_way(t, todo[2]) then return 0 end
        local used, ids = 0, graphs.page(t, todo[2], todo[3], 50)
        for place, id in ipairs(ids) do
            local h = node(t, id)
            used = used + 1 + (h and recount(t, id, h) or 0)
            if used >= left then
                todo[3] = todo[3] + place
                return used, todo
            end
        end
        todo[3] = todo[3] + #ids
        return used, #ids == 50 and todo or nil
    end
end
