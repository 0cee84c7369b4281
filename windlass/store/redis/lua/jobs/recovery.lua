-- Lives: how a worker ends, and what becomes of what it held and declared.

-- The last crash a job may have. Of a worker whose lease is over nobody knows more than that it did not beat.
function faults.crashed(t, id, h, worker)
    local beat = call('HMGET', t.p .. 'worker:' .. worker, 'until', 'beat')
    local silent = tonumber(beat[1] or 0) <= t.now and t.now - tonumber(beat[2] or t.now) or 0
    local errors, name = LIBRARY.errors, silent > 0 and 'silent' or 'crashed'
    local template = h[CRASHES] == 1 and errors[name .. '_once'] or errors[name]
    h[ERROR] = fill(template, { times = h[CRASHES], worker = worker, seconds = floor(silent / 1000) })
    h[FINGERPRINT] = silent > 0 and 'lease-lost' or 'worker-crashed'
    finish(t, id, h, FAILED, silent > 0 and 'lease lost' or 'worker crashed', '')
end

local give_back
do
    -- One claim goes back, or ends. `ready` counts, by queue, for which of them to wake others; what is in a lane is seen to with that.
    local function give_one_back(t, worker, skills, id, h, crashed, ready)
        if crashed then
            h[CRASHES], h[MAX_CRASHES] = h[CRASHES] + 1, lowered_crashes(skills, h)
        end
        if crashed and h[CRASHES] >= h[MAX_CRASHES] then
            faults.crashed(t, id, h, worker)
        elseif h[CANCEL] == 1 then
            finish(t, id, h, CANCELLED, h[REASON], '')
        elseif crashed and h[CRASH_DELAY] > 0 then
            make_scheduled(t, id, h, t.now + h[CRASH_DELAY])
        else
            make_ready(t, id, h, true)
            if h[HOLD] ~= LANE then ready[h[QUEUE]] = (ready[h[QUEUE]] or 0) + 1 end
        end
        job_news(t, crashed and 'lost' or 'released', worker, id, h)
    end

    -- In the order they were claimed, as far as that can be told.
    local function sort_by_claim(t, ids)
        load(t, ids)
        table.sort(ids, function(a, b)
            local x, y = row(t, a), row(t, b)
            if not x or not y then return not x and (y ~= nil or a < b) end
            if x[SEQ] ~= y[SEQ] then return x[SEQ] < y[SEQ] end
            return x[RANK] < y[RANK] or (x[RANK] == y[RANK] and a < b)
        end)
    end

    -- Claims that leave their worker without being settled. Answers how many of them ended as dead letters.
    function give_back(t, worker, skills, ids, crashed)
        local ended, failed, ready = {}, 0, {}
        sort_by_claim(t, ids)
        for _, id in ipairs(ids) do
            local h = row(t, id)
            if h and h[STATE] == RUNNING then
                give_one_back(t, worker, skills, id, h, crashed, ready)
                if h[STATE] > RUNNING then ended[#ended + 1] = id end
                if h[STATE] == FAILED then failed = failed + 1 end
            elseif is_lost(h) then
                mend(t, id, nil, RUNNING)
                failed = failed + 1
            end
        end
        for _, kind in ipairs({ FAILED, CANCELLED }) do
            for _, id in ipairs(ended) do
                local h = t.rows[id]
                if h[STATE] == kind then job_news(t, STATES[kind], worker, id, h, reason_data(h[REASON])) end
            end
        end
        call_many('HDEL', t.p .. 'held:' .. worker, ids)
        for queue, jobs in pairs(ready) do wake(t, queue, jobs) end
        return failed
    end
end

-- A worker goes: what it declared counts as unknown from now on, not from when it was set aside.
local function undeclare(t, skills)
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue, task, version = string.match(group, '^(.-)\n(.-)\n(.*)$')
        if listens(skills, queue) and takes(skills, queue, task, tonumber(version)) then call('HSET', t.k.asides, group, t.now) end
    end
end

-- The shortest lease tells how long a silence of the whole store may be before it is taken for a jump of time.
local function shortest_lease(t)
    local short = 0
    for _, id in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
        local lease = tonumber(call('HGET', t.p .. 'worker:' .. id, 'lease') or 0)
        if lease > 0 and (short == 0 or lease < short) then short = lease end
    end
    t.short = short
end

local function judge_dead(t, worker, skills)
    if skills == NO_SKILLS then return end
    call('HSET', t.p .. 'worker:' .. worker, 'dead', 1)
    call('ZADD', t.k.leases, 0, worker)
    no_longer_idle(t, worker, skills)
end

-- Gives a dead worker's jobs back, up to a limit; its row goes with the last of them. Answers how many, how many failed. Whoever
-- buries sees to `shortest_lease` behind the last.
local function bury(t, worker, crashed, limit)
    local skills = worker_skills(t, worker) or NO_SKILLS
    undeclare(t, skills)
    local ids = load_held(t, worker, limit)
    local failed = give_back(t, worker, skills, ids, crashed)
    if call('EXISTS', t.p .. 'held:' .. worker) == 0 then
        call('DEL', t.p .. 'worker:' .. worker, t.p .. 'cancels:' .. worker)
        call('ZREM', t.k.workers, worker)
        call('ZREM', t.k.leases, worker)
        news(t, 'worker_down', worker, '', '', '')
    end
    return #ids, failed
end

-- Whether a live worker of the queue declares this.
local function is_declared(t, queue, task, version)
    for _, id in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
        local w = call('HMGET', t.p .. 'worker:' .. id, 'dead', 'until', 'mark')
        if w[2] and w[1] ~= '1' and tonumber(w[2]) > t.now then
            local skills = skills_of(t, id, w[3])
            if listens(skills, queue) and takes(skills, queue, task, version) then return true end
        end
    end
    return false
end

-- When a sweep may next have something to do, in milliseconds from now; -1 for never.
local function next_check(t)
    local soonest
    local function consider(at)
        if at and (not soonest or at < soonest) then soonest = at end
    end
    consider(tonumber(call('ZRANGE', t.k.leases, 0, 0, 'WITHSCORES')[2]))
    consider(tonumber(call('ZRANGE', t.k.expiring, 0, 0, 'WITHSCORES')[2]))
    if t.left then return 0 end
    consider(tonumber(call('ZRANGE', t.k.working, 0, 0, 'WITHSCORES')[2]))
    local staged = tonumber(call('ZRANGE', t.k.staging, 0, 0, 'WITHSCORES')[2])
    consider(staged and staged + t.settings.staged_for)
    if call('EXISTS', t.k.passing) == 1 then consider(t.now + 60000) end  -- something on a shelf ends by time
    consider(tonumber(call('ZRANGE', t.k.pruning, 0, 0, 'WITHSCORES')[2]))
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue, task, version = string.match(group, '^(.-)\n(.-)\n(.*)$')
        local id = call('ZRANGE', t.p .. 'aside:' .. group, 0, 0)[1]
        if id and not is_declared(t, queue, task, tonumber(version)) then
            local h, declared = row(t, id), tonumber(call('HGET', t.k.asides, group)) or 0
            consider(h and max(h[ASIDE_AT], declared) + t.settings.unknown_after or t.now)
        end
    end
    return soonest and max(0, soonest - t.now) or -1
end
