-- Graphs as they are kept: their rows, the places of their nodes, and what is still to be done about them.
--
-- links            hash id -> what a node came with: MessagePack [graph, ins, outs, spare, shape, aftermath]; ins are source, on,
--                  inject, …; outs are target, on, hasty, …. What changes of it is in the node's head, for there it costs no command
-- graphs           hash id -> row: a MessagePack array, the fields below; it is written whenever a job of the graph ends
-- metas            hash id -> what else was said of it: long, and written once
-- members:<graph>  list of the ids of its nodes, in order; dropped:<n> is one of a graph that is no more
-- staging          sorted set of graphs that are not committed, by when their last part came
-- workflows        sorted set of those that are, by number
-- working          sorted set of those under way, by when they are audited next
-- todos            list of MessagePack arrays: op, graph, arguments. The field `todos` of `meta` says that there are any
local G = {
    NAME = 1, SIZE = 2, NODES = 3, DIGEST = 4, FAIL_FAST = 5, PARENT = 6, KEEP_DONE = 7, KEEP_FAILED = 8,
    N = 9, STAGED = 10, OPENED = 11, REAL = 12, STATE = 13, STOPPING = 14, REASON = 15, CULPRIT = 16, CREATED = 17, FINISHED = 18,
    -- How many of its jobs ended in which state: at ENDED plus the state's code.
    ENDED = 15, LOOKED = 23, LOOKED_FROM = 24, STAMP = 25, LOOKED_STAMP = 26,
}

local graphs = {}

do
    local function read_graph(packed)
        local fine, g = pcall(cmsgpack.unpack, packed)
        return fine and type(g) == 'table' and #g == G.LOOKED_STAMP and g
    end

    -- A graph's row, nil where there is none.
    function graphs.row(t, id)
        local g = t.graphs[id]
        if g == nil then
            local packed = call('HGET', t.k.graphs, id)
            g = packed and read_graph(packed) or false
            t.graphs[id] = g
        end
        return g or nil
    end

    -- Reads the rows of many graphs at once.
    function graphs.load(t, ids)
        local missing = {}
        for _, id in ipairs(ids) do
            if id ~= '' and t.graphs[id] == nil then
                missing[#missing + 1], t.graphs[id] = id, false
            end
        end
        for i, packed in ipairs(call_many('HMGET', t.k.graphs, missing)) do
            t.graphs[missing[i]] = packed and read_graph(packed) or false
        end
    end

    function graphs.touch(t, id) t.changed[id] = true end

    function graphs.forget(t, id)
        t.graphs[id], t.changed[id] = false, nil
        call('HDEL', t.k.graphs, id)
        call('HDEL', t.k.metas, id)
        for _, key in ipairs({ 'staging', 'workflows', 'working' }) do graphs.list(t, key, id, false) end
    end

    -- Puts a graph into one of the sorted sets of graphs, or with false takes it out; what is said last in a step counts.
    function graphs.list(t, key, id, score)
        t.listed[key] = t.listed[key] or {}
        t.listed[key][id] = score
    end

    local function write_lists(t)
        for key, said in pairs(t.listed) do
            local there, gone = {}, {}
            for id, score in pairs(said) do
                if score then
                    local size = #there
                    there[size + 1], there[size + 2] = format('%d', score), id
                else
                    gone[#gone + 1] = id
                end
            end
            call_many('ZADD', t.p .. key, there)
            call_many('ZREM', t.p .. key, gone)
        end
    end

    function graphs.is_under_way(t, id)
        local g = graphs.row(t, id)
        return g and g[G.REAL] == 1 and g[G.STATE] == WAITING
    end

    -- The graph that a node belongs to, nil where it is in none or that is gone.
    function graphs.of(t, h) return h[LINKS] and h[LINKS][L.GRAPH] ~= '' and graphs.row(t, h[LINKS][L.GRAPH]) or nil end

    -- Whether there is a node that nobody may see yet.
    function graphs.is_hidden(t, h)
        if not h[LINKS] or h[LINKS][L.OPENED] == 1 then return false end
        local g = graphs.of(t, h)
        return not g or g[G.REAL] == 0
    end

    -- Whether a job must not start because its graph was stopped.
    function graphs.refuses(t, h)
        if not h[LINKS] or h[LINKS][L.AFTERMATH] == 1 then return false end
        local g = graphs.of(t, h)
        return g and g[G.STOPPING] ~= ''
    end

    -- The place of a job that is in no graph itself and waits for one it has started.
    function graphs.new_place() return { '', 1, 0, 0, 0, 0, '', '', 0, 0, 0, 0, '', 0, {}, '', 0 } end

    -- What a node came with: graph, ins, outs, spare, shape, aftermath. Nil where that is not known or damaged.
    function graphs.came_with(packed)
        local fine, said = pcall(cmsgpack.unpack, packed or '')
        if not fine or type(said) ~= 'table' or #said ~= 6 or type(said[2]) ~= 'table' or type(said[3]) ~= 'table' then return nil end
        return said
    end

    function graphs.todo(t, op, graph, arg, more) t.todos[#t.todos + 1] = { op, graph, arg or 0, more or 0 } end

    -- Neighbours that say the same of several nodes of one graph share an entry.
    local function put_todos(t)
        local entries, last = {}, nil
        for _, todo in ipairs(t.todos) do
            if last and (todo[1] == 'spread' or todo[1] == 'reopen') and last[1] == todo[1] and last[2] == todo[2] and #last < 250 then
                last[#last + 1] = todo[3]
            else
                last = todo[1] ~= 'spread' and todo[1] ~= 'reopen' and todo or { todo[1], todo[2], todo[3] }
                entries[#entries + 1] = last
            end
        end
        for i, entry in ipairs(entries) do entries[i] = pack(entry) end
        call_many('RPUSH', t.k.todos, entries)
        if #entries > 0 and not t.left then
            call('HSET', t.meta, 'todos', '1')
            t.left = true
        end
        t.todos = {}
    end

    -- At the end of a step.
    function graphs.write(t)
        if #t.todos > 0 then put_todos(t) end
        write_lists(t)
        if not next(t.changed) then return end
        local rows = {}
        for id in pairs(t.changed) do
            rows[#rows + 1] = id
            rows[#rows + 1] = pack(t.graphs[id])
        end
        call_many('HSET', t.k.graphs, rows)
    end
end
