-- What takes more than one step: todos are kept in the order they came, and every call works some of them off.
--
-- Those made in a step are worked off in it as far as WORK reaches, and only what is left is written: a small graph moves on in the
-- very step that settled, with no command for its todos.
do
    local WORK = 500
    local MANY = 100
    local OPEN, BROKEN = 48, 50  -- an edge's state as its digit
    local node, decide, decided, blame, ins_of = graphs.node, graphs.decide, graphs.decided, graphs.blame, graphs.ins_of
    local spread, reopen = graphs.spread, graphs.reopen
    local ops = {}

    -- ---- over all nodes of a graph

    -- The ids of a graph's nodes from one on, their rows being read.
    local function page(t, graph, from, size)
        local ids = call('LRANGE', t.p .. 'members:' .. graph, format('%d', from), format('%d', from + size - 1))
        load(t, ids)
        return ids
    end

    -- Walks over a graph's nodes, as many as there is room for; goes on behind the others while there are more.
    local function walk(t, todo, left, each)
        local ids = page(t, todo[2], todo[3], left)
        for _, id in ipairs(ids) do
            local h = node(t, id)
            if h then each(id, h) end
        end
        if #ids < left then return #ids, nil end
        todo[3] = todo[3] + #ids
        return #ids, todo
    end

    -- Nodes of a committed graph take their place among all jobs; one that waits for nothing is decided at once.
    local function open_nodes(t, ids)
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

    function ops.open(t, todo, left)
        local g = graphs.row(t, todo[2])
        if not g then return 0 end
        local ids = page(t, todo[2], g[G.OPENED], left)
        g[G.OPENED] = g[G.OPENED] + #ids
        graphs.touch(t, todo[2])
        open_nodes(t, ids)
        return #ids, #ids > 0 and g[G.OPENED] < g[G.NODES] and todo or nil
    end

    -- Cancels a job that does not run, and asks the worker of one that does.
    function graphs.cancel_job(t, id, h, reason)
        if h[STATE] ~= RUNNING then
            unplace(t, id, h)
            finish(t, id, h, CANCELLED, reason, '')
            return
        end
        h[CANCEL], h[REASON] = 1, reason
        touch(t, id)
        local skills = worker_skills(t, h[WORKER])
        if not skills then return end
        call('SADD', t.p .. 'cancels:' .. h[WORKER], id)
        if t.asked[h[WORKER]] then return end
        t.asked[h[WORKER]] = true  -- once is enough, however many of its jobs it is asked for
        call('HSET', t.p .. 'worker:' .. h[WORKER], 'asked', 1)
        no_longer_idle(t, h[WORKER], skills)
        call('PUBLISH', t.p .. 'to:' .. h[WORKER], '')
    end

    function ops.stop(t, todo, left)
        local g = graphs.row(t, todo[2])
        if not g or g[G.STOPPING] == '' then return 0 end
        return walk(t, todo, left, function(id, h)
            if is_join(h) or h[STATE] > RUNNING or h[LINKS][L.OPENED] == 0 or h[LINKS][L.AFTERMATH] == 1 or h[CANCEL] == 1 then return end
            graphs.cancel_job(t, id, h, g[G.REASON])
            if h[STATE] == CANCELLED then graphs.note_ended(t, id, h) end
        end)
    end

    -- All that failed or was cancelled waits again. What was skipped, and the joins, follow by their edges.
    function ops.retry(t, todo, left)
        if not graphs.row(t, todo[2]) then return 0 end
        local used, again = walk(t, todo, left, function(id, h)
            if is_join(h) or h[LINKS][L.AFTERMATH] == 1 then return end
            if h[STATE] == FAILED or h[STATE] == CANCELLED then graphs.retry_one(t, id, h) end
        end)
        if not again then graphs.todo(t, 'decide', todo[2]) end
        return used, again
    end

    -- Nodes that wait with no open edge are decided, be it that none leads to them or that none was opened again: behind all that a
    -- retry opens, so that nobody is released who has to wait for another.
    local BEFORE_DECIDING = { open = true, reopen = true, retry = true }
    function ops.decide(t, todo, left)
        if not graphs.is_under_way(t, todo[2]) then return 0 end
        if todo[3] == 0 and graphs.has_todo(t, todo[2], BEFORE_DECIDING) then return MANY, todo end
        return walk(t, todo, left, function(id, h)
            local place = h[LINKS]
            if h[STATE] == WAITING and place[L.OPENED] == 1 and place[L.AWAITS] == '' and place[L.OPEN] == 0 then decide(t, id, h) end
        end)
    end

    -- Records go, whatever index they are in; who waits for them is told, unless it is to be silent.
    function graphs.delete_jobs(t, ids, silent)
        tell(t, silent and {} or ids, function(id) return '\150' .. text(id) .. '\192\192\192' .. text('deleted') .. '\195' end)
        for _, id in ipairs(ids) do
            local h = row(t, id)
            graphs.stop_awaited(t, id, h, h[STATE], 'deleted')
            unplace(t, id, h)
            if h[TERMS] and h[STATE] <= RUNNING then flow.over(t, id, h) end
            unfile(t, id, h)
            if h[EXPIRES] > 0 then rem(t, 'expiring', id) end
        end
        flush(t)
        erase(t, ids)
    end

    function ops.drop(t, todo, left)
        local list = t.p .. 'dropped:' .. format('%d', todo[3])
        local ids, gone, callbacks = call('LPOP', list, format('%d', left)) or {}, {}, {}
        local silent = todo[4] == 'prune'
        load(t, ids)
        for _, id in ipairs(ids) do
            local h = row(t, id)
            local place = h and h[LINKS] and h[LINKS][L.GRAPH] == todo[2] and h[LINKS]
            if place and silent and place[L.AFTERMATH] == 1 then
                callbacks[#callbacks + 1] = id
            elseif place and (silent or h[STATE] ~= RUNNING) then
                if not silent and not is_join(h) and place[L.OPENED] == 1 then job_news(t, 'deleted', '', id, h) end
                if h[STATE] == RUNNING then
                    call('HDEL', t.p .. 'held:' .. h[WORKER], id)
                    gates.free(t, h[QUEUE], h[TASK], flow.terms(h))
                end
                gone[#gone + 1] = id
            end
        end
        open_nodes(t, callbacks)  -- they are jobs of their own, also those whose turn had not come
        graphs.delete_jobs(t, gone, silent)
        return #ids, #ids == left and todo or nil
    end

    -- ---- damage

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
            open_nodes(t, { id })
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
    function ops.recount(t, todo)
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
    function ops.repair(t, todo, left)
        if todo[4] == 1 then
            local h = node(t, todo[3])
            return 1 + (h and recount(t, todo[3], h) or 0)
        end
        if not graphs.is_under_way(t, todo[2]) then return 0 end
        local used, ids = 0, page(t, todo[2], todo[3], 50)
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

    -- ---- working todos off

    local BY_NODES = { spread = spread, reopen = reopen }

    -- Does one todo as far as there is room, and puts what is left of it behind the others; how many nodes that touched.
    local function run(t, todo, left)
        if BY_NODES[todo[1]] then
            local ids = { unpack(todo, 3) }
            local touched, taken = BY_NODES[todo[1]](t, ids, left)
            for i = taken + 1, #ids do graphs.todo(t, todo[1], todo[2], ids[i]) end
            return touched
        end
        local used, again = ops[todo[1]](t, todo, left)
        if again then t.todos[#t.todos + 1] = again end
        return max(1, used)
    end

    -- What earlier steps left, a turn for each.
    local function work_off_left(t, left)
        for _ = 1, call('LLEN', t.k.todos) do
            if left <= 0 then return left end
            local fine, todo = pcall(cmsgpack.unpack, call('LPOP', t.k.todos))
            if fine and type(todo) == 'table' and (ops[todo[1]] or BY_NODES[todo[1]]) then left = left - run(t, todo, left) end
        end
        if call('EXISTS', t.k.todos) == 0 then
            call('HDEL', t.meta, 'todos')
            t.left = nil
        end
        return left
    end

    -- Works todos off, in the order they came, up to a bound for the whole step; the rest waits for the next.
    function graphs.work(t)
        if not t.left and #t.todos == 0 then return end
        local left, at = t.room or WORK, 1
        if t.left and not t.room then left = work_off_left(t, left) end
        while at <= #t.todos and left > 0 do
            local op, ids = t.todos[at][1], {}
            if BY_NODES[op] then
                -- Neighbours are taken together, so that what they lead to is read at once.
                for i = at, min(#t.todos, at + left - 1) do
                    if t.todos[i][1] ~= op then break end
                    ids[#ids + 1] = t.todos[i][3]
                end
                local touched, taken = BY_NODES[op](t, ids, left)
                left, at = left - touched, at + taken
            else
                at = at + 1
                t.at = at
                left = left - run(t, t.todos[at - 1], left)
            end
        end
        local rest = {}
        for i = at, #t.todos do rest[#rest + 1] = t.todos[i] end
        t.todos, t.room, t.at = rest, left, nil
    end

    -- Workers for what was released, and for a due time that came nearer.
    function graphs.wake(t)
        for queue, jobs in pairs(t.released) do wake(t, queue, jobs) end
        t.released = {}
        if not t.due_before then return end
        flush(t)
        local due, id, opening = next_due(t)
        if due >= 0 and (t.due_before < 0 or due < t.due_before) then
            local h = id and row(t, id)
            local queue = h and h[QUEUE] or (opening and lanes.queue_of(t, opening))
            if queue then wake(t, queue, 1, nil, true) end
        end
        t.due_before = nil
    end

    -- Todos are left: anyone can work them off.
    function graphs.wake_any(t)
        if t.left then graphs.wake_one(t) end
    end

    -- Some idle worker, whatever it listens to.
    function graphs.wake_one(t)
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            local w = call('HMGET', t.p .. 'worker:' .. worker, 'idle', 'dead')
            if w[1] == '1' and w[2] ~= '1' and worker ~= t.me then
                no_longer_idle(t, worker, worker_skills(t, worker) or NO_SKILLS)
                if call('PUBLISH', t.p .. 'to:' .. worker, '') > 0 then return end
            end
        end
    end

    -- ---- graphs as a whole

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

    -- Whether something is still to be done about a graph; `of`: of these kinds.
    local function has_todo(t, graph, of)
        for i = t.at or 1, #t.todos do
            if t.todos[i][2] == graph and (not of or of[t.todos[i][1]]) then return true end
        end
        if not t.left then return false end
        for _, packed in ipairs(call('LRANGE', t.k.todos, 0, MANY - 1)) do
            local fine, todo = pcall(cmsgpack.unpack, packed)
            if fine and type(todo) == 'table' and todo[2] == graph and (not of or of[todo[1]]) then return true end
        end
        return call('LLEN', t.k.todos) > MANY  -- it may be among the others
    end

    local function is_alive(t, h)
        if h[LINKS][L.AFTERMATH] == 1 then return false end
        if h[STATE] >= SCHEDULED and h[STATE] <= RUNNING then return true end
        local awaited = h[STATE] == WAITING and h[LINKS][L.AWAITS] or ''
        return awaited ~= '' and (graphs.is_under_way(t, awaited) or has_todo(t, awaited))
    end

    -- Looks at a page of a graph's nodes, in a circle that begins where the last live one was. True: nothing in it is alive, and
    -- nothing will ever happen. False: it is well. Nil: there is more to look at.
    local function audit(t, id, g, size)
        if has_todo(t, id) then
            g[G.LOOKED] = 0  -- what was looked at may be released by that
            graphs.touch(t, id)
            return false
        end
        if g[G.LOOKED] == 0 or g[G.STAMP] ~= g[G.LOOKED_STAMP] then g[G.LOOKED], g[G.LOOKED_STAMP] = 0, g[G.STAMP] end
        local ids = page(t, id, g[G.LOOKED_FROM], min(size, g[G.NODES] - g[G.LOOKED]))
        graphs.touch(t, id)
        for place, one in ipairs(ids) do
            local h = row(t, one)
            if h and h[LINKS] and is_alive(t, h) then
                g[G.LOOKED], g[G.LOOKED_FROM] = 0, g[G.LOOKED_FROM] + place - 1
                return false
            end
        end
        g[G.LOOKED], g[G.LOOKED_FROM] = g[G.LOOKED] + #ids, g[G.LOOKED_FROM] + #ids
        if g[G.LOOKED_FROM] >= g[G.NODES] or #ids == 0 then g[G.LOOKED_FROM] = 0 end
        if g[G.LOOKED] < g[G.NODES] and #ids > 0 then return nil end
        g[G.LOOKED] = 0
        return true
    end

    -- Looks at workflows under way whose time for it has come; answers those that hung, which are put right.
    function graphs.audit_due(t)
        local repaired, left = {}, WORK
        local ids = call('ZRANGEBYSCORE', t.k.working, '-inf', t.now, 'LIMIT', 0, MANY)
        graphs.load(t, ids)
        for _, id in ipairs(ids) do
            local g = graphs.row(t, id)
            if left <= 0 then break end
            if not g or g[G.STATE] ~= WAITING then
                graphs.list(t, 'working', id, false)
            else
                local hangs = audit(t, id, g, left)
                left = left - min(left, g[G.NODES])
                if hangs ~= nil then graphs.list(t, 'working', id, t.now + t.settings.audit_every) end
                if hangs then
                    repaired[#repaired + 1] = id
                    news(t, 'workflow_repaired', '', id, g[G.NAME], '')
                    if g[G.OPENED] < g[G.NODES] then graphs.todo(t, 'open', id) end
                    graphs.todo(t, 'repair', id, 0, 0)
                end
            end
        end
        return repaired
    end

    -- What was staged and forgotten.
    function graphs.drop_stale(t)
        for _, id in ipairs(call('ZRANGEBYSCORE', t.k.staging, '-inf', t.now - t.settings.staged_for, 'LIMIT', 0, 20)) do
            graphs.drop(t, id, 'all')
        end
    end
    graphs.open_nodes, graphs.has_todo = open_nodes, has_todo
end
