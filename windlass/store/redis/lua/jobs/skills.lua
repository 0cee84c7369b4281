-- Workers: what they can do, and waking those that have nothing to do.
--
-- worker:<id>   hash: n, seq, lease, until, beat, idle, dead, reserved, alone, asked, mark, refused, skills,
--               presence
-- workers       sorted set of all of them, by the order in which they came
-- leases        sorted set of all of them, by the end of their lease; 0 for one judged dead
-- idle:<queue>  sorted set of those that got less than they wanted from this queue
-- Of a worker whose row was lost, for instance to an eviction, or cannot be read: until its next beat it serves nothing.
local NO_SKILLS = { queues = {}, tasks = {}, open = {} }

local skills_of
do
    local skills_seen, skills_known = {}, 0

    -- What a worker listens to and declares, decoded once for all workers that say the same. `mark` names the content.
    --   packed   [[queue, …], {task: [max_crashes, version, …]}, {queue: max_crashes}]
    function skills_of(t, worker, mark)
        local found = skills_seen[mark]
        if not found then
            local fine, s = pcall(cmsgpack.unpack, call('HGET', t.p .. 'worker:' .. worker, 'skills'))
            if not fine or type(s) ~= 'table' or #s ~= 3 then return NO_SKILLS end
            found = { queues = s[1], tasks = {}, open = s[3] }
            for task, said in pairs(s[2]) do
                local versions = { max_crashes = said[1] }
                for i = 2, #said do versions[said[i]] = true end
                found.tasks[task] = versions
            end
            skills_known = skills_known + 1
            if skills_known > 1000 then skills_seen, skills_known = {}, 1 end
            skills_seen[mark] = found
        end
        return found
    end
end

local function takes(skills, queue, task, version)
    local said = skills.tasks[task]
    return (said and said[version]) or skills.open[queue] ~= nil
end

local function listens(skills, queue)
    for _, name in ipairs(skills.queues) do
        if name == queue then return true end
    end
    return false
end

-- The limit of a record, lowered by what the worker that lost it declared.
local function lowered_crashes(skills, h)
    local said = skills.tasks[h[TASK]]
    local most = (said and said.max_crashes) or skills.open[h[QUEUE]] or 0
    return most > 0 and min(h[MAX_CRASHES], most) or h[MAX_CRASHES]
end

local function worker_skills(t, worker)
    local mark = call('HGET', t.p .. 'worker:' .. worker, 'mark')
    return mark and skills_of(t, worker, mark)
end

local function no_longer_idle(t, worker, skills)
    call('HSET', t.p .. 'worker:' .. worker, 'idle', '0')
    for _, queue in ipairs(skills.queues) do call('ZREM', t.p .. 'idle:' .. queue, worker) end
end

local function now_idle(t, worker, n, skills)
    for _, queue in ipairs(skills.queues) do call('ZADD', t.p .. 'idle:' .. queue, n, worker) end
end

-- Wakes as many idle workers of a queue as there are jobs, but not the one that makes this call (`t.me`). One that nobody hears for
-- (its connection is broken) does not count: it asks for itself when it is back. `who` narrows it down to workers whose skills fit;
-- answers whether there was any. For no more than the queue's gate lets through; `alarm`: it is about the time, not about jobs.
local function wake(t, queue, jobs, who, alarm)
    local key = t.p .. 'idle:' .. queue
    if t.gates and not alarm then
        jobs = min(jobs, gates.room(t, 'queue:' .. queue), 1000)
        if jobs <= 0 then
            gates.note_queue(t, queue)
            return false
        end
    end
    while jobs > 0 do
        local idle = call('ZRANGE', key, 0, who and -1 or min(jobs, 100) - (t.me and 0 or 1))
        local woken = 0
        for _, worker in ipairs(idle) do
            local here = worker == t.me
            local skills = not here and worker_skills(t, worker)
            if not here and not skills then
                call('ZREM', key, worker)
                woken = woken + 1
            elseif skills and jobs > 0 and (not who or who(skills)) then
                no_longer_idle(t, worker, skills)
                if not listens(skills, queue) then call('ZREM', key, worker) end
                woken = woken + 1
                if call('PUBLISH', t.p .. 'to:' .. worker, '') > 0 then jobs = jobs - 1 end
            end
        end
        if woken == 0 or who then return woken > 0 end
    end
end

-- When time makes a job ready or opens a gate, in milliseconds from now, -1 for never; and the job or the opening.
local function next_due(t)
    local head = call('ZRANGE', t.k.due, '0', '0', 'WITHSCORES')
    local at, id, opening = tonumber(head[2]), head[1], nil
    if t.gates or t.lanes then
        head = call('ZRANGE', t.k.openings, '0', '0', 'WITHSCORES')
        if head[1] and (not at or tonumber(head[2]) < at) then at, id, opening = tonumber(head[2]), nil, head[1] end
    end
    if not at then return -1, nil end
    return max(0, at - t.now), id, opening
end

-- What a worker runs and is asked to cancel. The set exists only while someone has asked, and `asked` says so.
local function cancels(t, worker, asked)
    local still = {}
    if asked ~= '1' then return still end
    for _, id in ipairs(call('SMEMBERS', t.p .. 'cancels:' .. worker)) do
        if call('HEXISTS', t.p .. 'held:' .. worker, id) == 1 then
            still[#still + 1] = id
        else
            call('SREM', t.p .. 'cancels:' .. worker, id)
        end
    end
    if #still == 0 then call('HSET', t.p .. 'worker:' .. worker, 'asked', 0) end
    return still
end

-- The aside groups of a queue that this worker declares.
local function my_asides(t, skills, queue)
    local groups = {}
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local of, task, version = string.match(group, '^(.-)\n(.-)\n(.*)$')
        if of == queue and takes(skills, queue, task, tonumber(version)) and call('EXISTS', t.p .. 'aside:' .. group) == 1 then
            groups[#groups + 1] = 'aside:' .. group
        end
    end
    return groups
end
