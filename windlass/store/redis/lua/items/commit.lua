-- commit(settings, now, commits, extras, …): items, records, jobs and workflows changed in one step, if all that it expects is there.
--   commits  MessagePack: for each [items, appends, how many jobs, how many of the arguments are its workflow's, event]
--     items    [shelf, key, what, ttl, expect, …]: `what` is 1 to write, 2 to take off, 0 to look only
--     appends  [log, stream, how many records, expect, …]
--     event    [kind, worker, id, task, queue, data, …], or false
--   extras   as for insert, of all jobs
-- Behind them come, commit after commit, the bodies of the items it writes, its records, and its workflow as insert_graph has it; then
-- id and body of all jobs.
-- Answers for each: whether it was done; version, what is left, and body (see items.show) for each item; length and position for each
-- append; the answers to its jobs; and id, status, reason, how many are staged, and whether there is more, of its workflow.

local WRITES = 1

local function read_puts(said, args, at)
    local puts = {}
    for i = 1, #said, 5 do
        local put = { shelf = said[i], key = said[i + 1], what = said[i + 2], ttl = said[i + 3], expect = said[i + 4] }
        if put.what == WRITES then put.body, at = args[at], at + 1 end
        puts[#puts + 1] = put
    end
    return puts, at
end

local function read_appends(said, args, at)
    local appends = {}
    for i = 1, #said, 4 do
        local new = { log = said[i], stream = said[i + 1], bodies = {}, expect = said[i + 3] }
        for k = 1, said[i + 2] do new.bodies[k], at = args[at], at + 1 end
        appends[#appends + 1] = new
    end
    return appends, at
end

-- What is asked for: for each commit what it is about, and from which argument on its workflow and its jobs are.
local function read_commits(args)
    local at, steps = 5, {}
    for i, said in ipairs(cmsgpack.unpack(args[3])) do
        local step = { jobs = said[3], nodes = said[4], event = said[5] }
        step.puts, at = read_puts(said[1], args, at)
        step.appends, at = read_appends(said[2], args, at)
        step.graph_from, at = at, at + step.nodes
        steps[i] = step
    end
    for _, step in ipairs(steps) do step.jobs_from, at = at, at + 2 * step.jobs end
    return steps
end

-- Reads all that any of them looks at.
local function load_commits(t, steps)
    local shelves, streams, seen = {}, {}, {}
    local function want(kind, names, name, one)
        local mark = kind .. struct.pack('>I4', #name) .. name .. one
        names[name] = names[name] or {}
        if not seen[mark] then table.insert(names[name], one) end
        seen[mark] = true
    end
    for _, step in ipairs(steps) do
        for _, put in ipairs(step.puts) do want('i', shelves, put.shelf, put.key) end
        for _, new in ipairs(step.appends) do want('s', streams, new.log, new.stream) end
    end
    items.load(t, shelves)
    logs.load(t, streams)
    for _, step in ipairs(steps) do
        for _, put in ipairs(step.puts) do put.item = t.shelves[put.shelf][put.key] end
    end
end

local function is_as_expected(t, step)
    for _, put in ipairs(step.puts) do
        if put.expect >= 0 and put.expect ~= put.item.version then return false end
    end
    local added = {}
    for _, new in ipairs(step.appends) do
        added[new.log] = added[new.log] or {}
        local more = added[new.log][new.stream] or 0
        if new.expect >= 0 and new.expect ~= logs.length(t, new.log, new.stream) + more then return false end
        added[new.log][new.stream] = more + #new.bodies
    end
    return true
end

-- A workflow is taken as by insert_graph, which wants its arguments in their places.
local function take_graph(t, b, step, args)
    write_batch(t, b)  -- so that an id that just came in is found to be taken
    local part = { args[1], args[2] }
    for i = 0, step.nodes - 1 do part[3 + i] = args[step.graph_from + i] end
    local said = cmsgpack.unpack(part[3])
    local status, reason = graphs.take(t, said, part)
    b.first = t.n
    return { said[1], status, reason }
end

local function tell_event(t, event)
    for i = 3, #event, 4 do
        news(t, event[1], event[2], event[i], event[i + 1], event[i + 2], event[i + 3] or nil)
    end
end

local HEEDED = 'schedules'

-- Workers are told of changed schedules: by jobs that come with the change, else one of them by itself.
local function heed(t, step)
    for _, put in ipairs(step.puts) do
        if put.shelf == HEEDED and put.what ~= 0 then
            t.rank = t.rank + 1
            t.heeded = t.rank
            call('HSET', t.meta, 'heeded', format('%d', t.rank))
            return step.jobs == 0
        end
    end
    return false
end

-- Answers what became of it, and how many jobs' extras are passed.
local function commit_one(t, b, step, args, extras, at)
    local done, shown, ends, answers, graph = is_as_expected(t, step), {}, {}, {}, {}
    for _, put in ipairs(done and step.puts or {}) do items.write(t, put) end
    if done and heed(t, step) then t.tells = true end
    for _, new in ipairs(step.appends) do
        local position = done and logs.append(t, new.log, new.stream, new.bodies) or 0
        ends[#ends + 1], ends[#ends + 2] = logs.length(t, new.log, new.stream), position
    end
    for _, put in ipairs(step.puts) do
        local size = #shown
        shown[size + 1], shown[size + 2], shown[size + 3] = items.show(t, put)
    end
    if done then
        answers = take_in(t, b, args, step.jobs_from, step.jobs_from + 2 * step.jobs - 1, extras, at)
        if step.event then tell_event(t, step.event) end
        if step.nodes > 0 then graph = take_graph(t, b, step, args) end
    end
    return { done and 1 or 0, shown, ends, answers, graph }
end

local function commit(keys, args)
    local t, steps, extras = begin(keys, args), read_commits(args), cmsgpack.unpack(args[4])
    local b, replies, at, any = new_batch(t, true), {}, 0, false
    load_commits(t, steps)
    for i, step in ipairs(steps) do
        replies[i] = commit_one(t, b, step, args, extras, at)
        at, any = at + step.jobs, any or replies[i][1] == 1
    end
    if not any then return replies end
    flow.flush_items(t)
    logs.flush(t)
    end_batch(t, b)
    graphs.wake_any(t)
    if t.tells then graphs.wake_one(t) end
    for _, reply in ipairs(replies) do
        local graph = reply[5]
        if graph[1] then
            local g = graphs.row(t, graph[1])
            graph[4], graph[5] = g and g[G.STAGED] or 0, g and g[G.REAL] == 1 and g[G.OPENED] < g[G.NODES] and 1 or 0
        end
    end
    return replies
end

-- moment(settings, now): answers the store's now, and the number that changes with what workers heed.
local function moment(keys, args)
    local t = begin(keys, args, true)
    return { format('%d', t.now), format('%d', t.heeded) }
end

register('commit', commit)
register('moment', moment, 'no-writes')
