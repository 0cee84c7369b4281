-- What takes more than one step: todos are kept in the order they came, and every call works some of them off.
--
-- Those made in a step are worked off in it as far as WORK reaches, and only what is left is written: a small graph moves on in the
-- very step that settled, with no command for its todos.
do
    local WORK = 500
    local MANY = 100
    local ops, node, decide = graphs.ops, graphs.node, graphs.decide

    -- ---- over all nodes of a graph

    -- Walks over a graph's nodes, as many as there is room for; goes on behind the others while there are more.
    local function walk(t, todo, left, each)
        local ids = graphs.page(t, todo[2], todo[3], left)
        for _, id in ipairs(ids) do
            local h = node(t, id)
            if h then each(id, h) end
        end
        if #ids < left then return #ids, nil end
        todo[3] = todo[3] + #ids
        return #ids, todo
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
            if h[TERMS] and h[STATE] <= RUNNING then flow.leave(t, id, h) end
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
                    gates.discharge(t, h[QUEUE], h[TASK], flow.terms(h))
                end
                gone[#gone + 1] = id
            end
        end
        graphs.open_nodes(t, callbacks)  -- they are jobs of their own, also those whose turn had not come
        graphs.delete_jobs(t, gone, silent)
        return #ids, #ids == left and todo or nil
    end

    -- ---- working todos off

    local BY_NODES = { spread = graphs.spread, reopen = graphs.reopen }

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

    -- Whether something is still to be done about a graph; `of`: of these kinds.
    function graphs.has_todo(t, graph, of)
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
end
