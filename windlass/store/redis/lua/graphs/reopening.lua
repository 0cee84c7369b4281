-- A node starts again: what was given up because of it waits once more, and so do those behind that.
do
    local OPEN, MET, BROKEN = 48, 49, 50
    local node, now_ready = graphs.node, graphs.now_ready

    local function make_waiting(t, id, h)
        watch_expiry(t, id, h)
        set_state(t, h, WAITING)
        h[WORKER], h[DUE] = '', 0
        touch(t, id)
    end

    -- A node leaves its end behind.
    local function begin_again(t, id, h)
        local place, g = h[LINKS], graphs.of(t, h)
        unfile(t, id, h)
        if g then
            g[G.STAMP] = g[G.STAMP] + 1
            if not is_join(h) and place[L.AFTERMATH] == 0 then g[G.ENDED + h[STATE]] = g[G.ENDED + h[STATE]] - 1 end
            graphs.touch(t, place[L.GRAPH])
        end
        h[RUN], h[FINISHED] = h[RUN] + 1, 0
        h[RESULT], h[REASON], h[FINGERPRINT] = false, '', ''
        if is_join(h) then h[ERROR] = false end  -- that of others, who start again; a job's own is told with those to come
        touch(t, id)
        if place[L.EDGES] ~= '' then graphs.todo(t, 'reopen', place[L.GRAPH], id) end
    end

    -- What was given up waits once more, in a new run; what it gave up in turn follows.
    local function wait_again(t, id, h)
        local place = h[LINKS]
        begin_again(t, id, h)
        h[EXPIRES] = 0
        if is_join(h) then h[STATE] = WAITING else make_waiting(t, id, h) end
        if place[L.AWAITS] ~= '' then place[L.CULPRIT] = '' end
        local g = graphs.of(t, h)
        if g and id == place[L.GRAPH] then
            g[G.STATE], g[G.FINISHED], g[G.LOOKED] = WAITING, 0, 0
            graphs.list(t, 'working', id, t.now + t.settings.audit_every)
        end
    end

    local function unmeet(t, id, h, target, edge)
        local to, place = node(t, target), nil
        if not to then return end
        place = to[LINKS]
        local gave_up = to[STATE] == FAILED or to[STATE] == CANCELLED
        if graphs.is_awaited(t, id, h, target) then
            if place[L.AWAITS] == id and place[L.REPLACED] == 1 and gave_up then wait_again(t, target, to) end
            return
        end
        if place[L.GRAPH] ~= h[LINKS][L.GRAPH] then return end
        place[L.OPEN] = place[L.OPEN] + 1
        touch(t, target)
        if edge ~= BROKEN then return end
        place[L.BROKEN] = place[L.BROKEN] - 1
        place[L.CULPRIT] = ''  -- it may be the very one that starts again; if another edge stays broken, that names it
        if to[STATE] == SKIPPED or (is_join(to) and gave_up) then wait_again(t, target, to) end
    end

    -- Whether a node was not released, or its run ended badly and may be retried.
    local function came_to_nothing(t, id)
        local h = node(t, id)
        return h and (h[STATE] == WAITING or h[STATE] > SUCCEEDED)
    end

    -- The edges that these nodes' ends had broken are open once more, and so is what was given up because of them.
    local function reopen(t, ids, left)
        local found, touched, taken = graphs.edges_of(t, ids, '[12]', left)
        for _, one in ipairs(found) do
            local id, h, outs = one[1], one[2], one[3]
            local before, states = h[LINKS][L.EDGES], {}
            for k = 1, #before do
                local edge = byte(before, k)
                -- So is an edge it had met, if nothing has come of it: whoever waits behind it, now or when retried, waits for it.
                local opens = edge == BROKEN or (edge == MET and came_to_nothing(t, outs[3 * k - 2]))
                states[k] = char(opens and OPEN or edge)
            end
            local after = concat(states)
            h[LINKS][L.EDGES] = after
            touch(t, id)
            for k = 1, #before do
                if byte(before, k) ~= byte(after, k) then unmeet(t, id, h, outs[3 * k - 2], byte(before, k)) end
            end
            -- It has ended once more meanwhile, and its edges were not open then.
            if h[STATE] > RUNNING then graphs.todo(t, 'spread', h[LINKS][L.GRAPH], id) end
        end
        return touched, taken
    end

    -- A job waits for its graph no more, nor is it replaced by it: from now on that is kept for itself.
    function graphs.let_go(t, h)
        local place = h[LINKS]
        local awaited = place[L.AWAITS]
        place[L.AWAITS], place[L.REPLACED], place[L.CULPRIT] = '', 0, ''
        if awaited ~= '' then graphs.file(t, awaited) end
    end

    -- A new run of a job, wherever it goes now: of the old one its error is left, to be told with those to come.
    local function restart(t, id, h)
        local place = h[LINKS]
        if place then graphs.let_go(t, h) end
        if place and place[L.GRAPH] ~= '' then
            begin_again(t, id, h)
        else
            unfile(t, id, h)
            h[RUN], h[FINISHED], h[LINKS] = h[RUN] + 1, 0, false
            h[RESULT], h[REASON], h[FINGERPRINT] = false, '', ''
        end
        call('HDEL', t.k.progress, id)
        h[ATTEMPT], h[CRASHES], h[SNOOZES], h[EXPIRES], h[RANK] = 0, 0, 0, 0, 0
    end

    function graphs.retry_all(t, id)
        local g = graphs.row(t, id)
        g[G.STOPPING], g[G.REASON], g[G.CULPRIT] = '', '', ''
        graphs.touch(t, id)
        graphs.todo(t, 'retry', id)
        -- The end waits from this step on: nobody may be told the old verdict any more.
        local h = node(t, id)
        if h and h[STATE] > RUNNING then wait_again(t, id, h) end
    end

    function graphs.retry_job(t, id, h)
        restart(t, id, h)
        if h[LINKS] and h[LINKS][L.OPEN] > 0 then make_waiting(t, id, h) else now_ready(t, id, h) end
    end

    -- A job that ended badly waits again, with all the others of its graph.
    local function retry_one(t, id, h)
        job_news(t, 'replayed', '', id, h)
        restart(t, id, h)
        make_waiting(t, id, h)
    end

    graphs.make_waiting, graphs.reopen, graphs.retry_one = make_waiting, reopen, retry_one
end
