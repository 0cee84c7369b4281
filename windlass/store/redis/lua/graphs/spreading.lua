-- What one node's end means for those behind it: edges are decided, nodes released or given up. The rules are core/graph.py's.
do
    local OPEN, MET, BROKEN = 48, 49, 50  -- an edge's state as its digit
    local CALL, ONE = 0, 1
    local on_success, on_done = 0, 2

    -- ---- the rules

    local function decided(on, state, expired)
        if on == on_done then return MET end
        if on == on_success then return state == SUCCEEDED and MET or BROKEN end
        return (state == FAILED or (state == CANCELLED and expired)) and MET or BROKEN
    end

    local function verdict(shape, broken, spare, stopped, is_end)
        if broken <= spare and not (is_end and stopped ~= '') then return READY end
        if stopped == 'cancel' or (stopped == 'fail' and shape == CALL) then return CANCELLED end
        return shape == CALL and SKIPPED or FAILED
    end

    local function because(task, id, state, expired)
        local what = STATES[state]
        if state == CANCELLED then what = expired and 'expired' or 'was cancelled' end
        return (task ~= '' and task or 'workflow') .. ' ' .. id .. ' ' .. what
    end

    -- ---- nodes

    -- A node that can be read. One that cannot is put right, or stands as a dead letter from now on; then those it concerns are
    -- told by other todos, and the answer is nil.
    local function node(t, id)
        local h = row(t, id)
        if h and h[LINKS] then return h end
        if call('HEXISTS', t.k.links, id) == 1 then mend(t, id) end
        return nil
    end

    local function stopping_of(t, h)
        if h[LINKS][L.AFTERMATH] == 1 then return '' end
        local g = graphs.of(t, h)
        return g and g[G.STOPPING] or ''
    end

    local function result_at_hand(h)
        local result = h and h[STATE] == SUCCEEDED and h[RESULT]
        return result and #result <= INLINE_MAX and result
    end

    local function note_ended(t, id, h) job_news(t, STATES[h[STATE]], '', id, h, reason_data(h[REASON])) end

    local function end_workflow(t, id, h)
        local g = graphs.row(t, id)
        if not g then return end
        g[G.STATE], g[G.FINISHED] = h[STATE], t.now
        graphs.list(t, 'working', id, false)
        news(t, 'workflow_' .. STATES[h[STATE]], '', id, g[G.NAME], '', reason_data(h[REASON]))
        graphs.file(t, id)
    end

    -- A join ends: it is in no queue and has no event. The end of a graph ends the workflow.
    local function end_join(t, id, h, state, reason)
        local place = h[LINKS]
        h[STATE], h[FINISHED], h[REASON] = state, t.now, reason
        t.ended[#t.ended + 1] = id
        touch(t, id)
        local g = graphs.of(t, h)
        if g then
            g[G.STAMP] = g[G.STAMP] + 1
            graphs.touch(t, place[L.GRAPH])
        end
        if place[L.EDGES] ~= '' then graphs.todo(t, 'spread', place[L.GRAPH], id) end
        if id == place[L.GRAPH] then end_workflow(t, id, h) end
    end

    -- Whom an end is blamed on: the node itself, unless it was given up because of another. For the end of a workflow that failed fast
    -- that is who stopped it, whoever of those it stopped came to the end first.
    local function blame(t, id, h)
        local place = h[LINKS]
        local g = place and place[L.GRAPH] == id and graphs.row(t, id)
        if g and g[G.CULPRIT] ~= '' then return g[G.CULPRIT] end
        return place and place[L.CULPRIT] ~= '' and place[L.CULPRIT] or id
    end

    -- Whether a source broke an edge to a target.
    local function breaks(h, target)
        local outs = h[LINKS][L.OUTS]
        for k = 1, #outs / 3 do
            if outs[3 * k - 2] == target and byte(h[LINKS][L.EDGES], k) == BROKEN then return true end
        end
        return false
    end

    -- What leads to a node: source, on, inject, …; the sources' rows are read.
    local function ins_of(t, id)
        local came_with, sources = graphs.came_with(call('HGET', t.k.links, id)), {}
        local ins = came_with and came_with[2] or {}
        for k = 1, #ins / 3 do sources[k] = ins[3 * k - 2] end
        load(t, sources)
        return ins, sources
    end

    -- Whom the first of a node's broken edges blames. A source that is gone counts as failed.
    local function first_blame(t, id)
        local _, sources = ins_of(t, id)
        for _, source in ipairs(sources) do
            local h = row(t, source)
            if not h or not h[LINKS] then return source end
            if breaks(h, id) then return blame(t, source, h) end
        end
        return ''
    end

    -- Ends a node that can never be met, and says whose fault it was.
    local function give_up(t, id, h, state)
        local place, g = h[LINKS], graphs.refuses(t, h) and graphs.of(t, h)
        if place[L.CULPRIT] == '' then place[L.CULPRIT] = first_blame(t, id) end
        local culprit = g and g[G.CULPRIT] ~= '' and g[G.CULPRIT] or place[L.CULPRIT]
        local blamed, reason = culprit ~= '' and row(t, culprit), nil
        if g then
            reason = g[G.REASON]
        elseif blamed then
            -- In another graph it may have started again meanwhile.
            local how = blamed[STATE] > RUNNING and blamed[STATE] or FAILED
            reason = because(blamed[TASK], culprit, how, blamed[REASON] == 'expired')
        else
            reason = because('job', culprit, FAILED)
        end
        if state == FAILED and blamed then h[ERROR], h[FINGERPRINT] = blamed[ERROR], blamed[FINGERPRINT] end
        if is_join(h) then return end_join(t, id, h, state, reason) end
        local blames = place[L.CULPRIT]
        finish(t, id, h, state, reason, '')
        place[L.CULPRIT] = blames
        note_ended(t, id, h)
    end

    local function now_ready(t, id, h)
        make_ready(t, id, h)
        if h[HOLD] ~= LANE then t.released[h[QUEUE]] = (t.released[h[QUEUE]] or 0) + 1 end
    end

    local function refuse(t, id, h)
        finish(t, id, h, CANCELLED, graphs.of(t, h)[G.REASON], '')
        note_ended(t, id, h)
    end

    local function release(t, id, h)
        if graphs.refuses(t, h) then return refuse(t, id, h) end  -- nobody may ever come to claim it
        local place = h[LINKS]
        if place[L.EXPIRES_IN] > 0 then h[EXPIRES] = t.now + place[L.EXPIRES_IN] end
        local due = max(place[L.AT], place[L.DELAY] > 0 and t.now + place[L.DELAY] or 0)
        if due > t.now then
            t.due_before = t.due_before or next_due(t)
            make_scheduled(t, id, h, due)
        else
            now_ready(t, id, h)
        end
    end

    -- A waiting node has no open edge left: it is released, a join ends, or it is given up.
    local function decide(t, id, h)
        local place, is_end = h[LINKS], id == h[LINKS][L.GRAPH]
        local stopped = (is_end or place[L.BROKEN] > 0) and stopping_of(t, h) or ''
        local state = verdict(place[L.SHAPE], place[L.BROKEN], place[L.SPARE], stopped, is_end)
        if state ~= READY then return give_up(t, id, h, state) end
        place[L.CULPRIT] = ''  -- whoever it was, he was spared
        if not is_join(h) then return release(t, id, h) end
        if place[L.SHAPE] == ONE and place[L.SOURCE] ~= '' then h[RESULT] = result_at_hand(row(t, place[L.SOURCE])) or false end
        end_join(t, id, h, SUCCEEDED, '')
    end

    -- The graph that a job waited for is over: the job runs again, or that end becomes its own.
    local function come_back(t, id, h, end_id, end_of, edge)
        local place = h[LINKS]
        if edge == BROKEN then
            place[L.CULPRIT] = end_of and blame(t, end_id, end_of) or end_id
            give_up(t, id, h, verdict(ONE, 1, 0, stopping_of(t, h)))
        elseif place[L.REPLACED] == 1 then
            h[RESULT] = result_at_hand(end_of) or false
            finish(t, id, h, SUCCEEDED, '', '')
            note_ended(t, id, h)
        elseif graphs.refuses(t, h) then
            refuse(t, id, h)
        else
            now_ready(t, id, h)
        end
    end

    -- Whether an edge leads from the end of a graph to the job that started it, which is not of that graph.
    local function is_awaited(t, id, h, target)
        if id ~= h[LINKS][L.GRAPH] then return false end
        local g = graphs.row(t, id)
        return g and target == g[G.PARENT]
    end

    -- ---- forwards: an end spreads

    -- One edge was decided: it is counted at its target, which is decided if that was the last one.
    local function meet(t, id, h, target, edge, hasty)
        local to, place = node(t, target), nil
        if not to then return end
        place = to[LINKS]
        if is_awaited(t, id, h, target) then
            if to[STATE] == WAITING and place[L.AWAITS] == id then come_back(t, target, to, id, h, edge) end
            return
        end
        if place[L.GRAPH] ~= h[LINKS][L.GRAPH] then return end
        place[L.OPEN] = place[L.OPEN] - 1
        if edge == BROKEN then
            place[L.BROKEN] = place[L.BROKEN] + 1
            if place[L.CULPRIT] == '' and to[STATE] == WAITING then place[L.CULPRIT] = blame(t, id, h) end
        end
        touch(t, target)
        local hurry = hasty and h[STATE] ~= SUCCEEDED
        -- At its turn nobody would know any more that it need not wait.
        if hurry and place[L.OPENED] == 0 then graphs.open_nodes(t, { target }) end
        if to[STATE] == WAITING and place[L.OPENED] == 1 and place[L.AWAITS] == '' and (place[L.OPEN] == 0 or hurry) then
            decide(t, target, to)
        end
    end

    local function spread_one(t, id, h)
        local place, before, states = h[LINKS], h[LINKS][L.EDGES], {}
        local outs, expired = place[L.OUTS], h[REASON] == 'expired'
        for k = 1, #before do
            local edge = byte(before, k)
            states[k] = char(edge == OPEN and decided(outs[3 * k - 1], h[STATE], expired) or edge)
        end
        local after, broke = concat(states), false
        place[L.EDGES] = after  -- all of them, before anyone behind it looks
        touch(t, id)
        for k = 1, #before do broke = broke or (byte(before, k) == OPEN and byte(after, k) == BROKEN) end
        if broke and h[STATE] == FAILED and not is_join(h) and place[L.AFTERMATH] == 0 then
            -- Before anyone behind it is decided: else it would depend on what came first whether the workflow still succeeds.
            local g = graphs.of(t, h)
            if g and g[G.FAIL_FAST] == 1 then graphs.stop(t, place[L.GRAPH], 'fail', because(h[TASK], id, FAILED), id) end
        end
        for k = 1, #before do
            if byte(before, k) == OPEN then meet(t, id, h, outs[3 * k - 2], byte(after, k), outs[3 * k]) end
        end
    end

    -- The edges of many nodes: what they lead to is read at once. `want`: a pattern for those that matter; `left`: how many may be
    -- touched, of which one node's may be more. Answers the nodes, how many are touched, and how many ids that was.
    local function edges_of(t, ids, want, left)
        local found, targets, owners, seen, taken, touched = {}, {}, {}, {}, 0, 0
        load(t, ids)
        for _, id in ipairs(ids) do
            if touched >= left then break end
            taken, touched = taken + 1, touched + 1
            local h = row(t, id)
            if h and h[LINKS] and string.find(h[LINKS][L.EDGES], want) then
                local outs = h[LINKS][L.OUTS]
                found[#found + 1] = { id, h, outs }
                owners[#owners + 1] = h[LINKS][L.GRAPH]
                for k = 1, #outs, 3 do
                    -- Many of them lead to the same join, which is read once.
                    if not seen[outs[k]] then seen[outs[k]], targets[#targets + 1] = true, outs[k] end
                end
                touched = touched + #outs / 3
            end
        end
        graphs.load(t, owners)
        load(t, targets)
        return found, touched, taken
    end

    local function spread(t, ids, left)
        local found, touched, taken = edges_of(t, ids, '0', left)
        for _, one in ipairs(found) do
            if one[2][STATE] > RUNNING then spread_one(t, one[1], one[2]) end
        end
        return touched, taken
    end

    graphs.decided, graphs.node, graphs.decide, graphs.give_up, graphs.come_back = decided, node, decide, give_up, come_back
    graphs.blame, graphs.breaks, graphs.ins_of, graphs.edges_of, graphs.spread = blame, breaks, ins_of, edges_of, spread
    graphs.is_awaited, graphs.now_ready, graphs.refuse, graphs.note_ended = is_awaited, now_ready, refuse, note_ended
    graphs.result_at_hand, graphs.first_blame = result_at_hand, first_blame
end
