-- Workers come, beat, take notes and go.

-- Of a store with gates: whether this worker would be given something of a queue. Who stands at the head of the plain order and is to
-- have a lane goes there, as a claim would do it.
local function has_work(t, skills, queue)
    if gates.room(t, 'queue:' .. queue) <= 0 then return false end
    if lanes.solo_head(t, queue) then return true end
    flow.open(t)
    for _ = 1, 100 do
        local lane, plain, rank = call('ZRANGE', t.p .. 'lanes:' .. queue, '0', '0', 'WITHSCORES'), nil, nil
        local keys = my_asides(t, skills, queue)
        keys[#keys + 1] = 'ready:' .. queue
        for _, key in ipairs(keys) do
            local head = call('ZRANGE', t.p .. key, '0', '0', 'WITHSCORES')
            if head[1] and (not rank or tonumber(head[2]) < rank) then plain, rank = { head[1], key }, tonumber(head[2]) end
        end
        local turn = plain and floor(rank / BAND) * BAND + tonumber(call('HGET', t.k.turns, queue) or 0)
        if not plain and not lane[1] then return false end
        if lane[1] and (not plain or tonumber(lane[2]) < turn) then
            local head = call('ZRANGE', t.p .. 'lane:' .. queue .. '\n' .. lane[1], '0', '0')[1]
            if not head or not lanes.closed_for(t, queue, lane[1], head) then return true end
            lanes.look_again(t, queue, lane[1], 0)
        else
            local h = row(t, plain[1])
            local terms = h and flow.terms(h)
            local own = h and lanes.of(t, h[TASK], terms) or ''
            if own == '' or (h[HOLD] == ASIDE and not gates.first_closed(t, queue, h[TASK], terms)) then return true end
            rem(t, plain[2], plain[1])
            place_ready(t, plain[1], h, true)
        end
        flow.open(t)
    end
    return true
end

local function any_ready(t, skills)
    for _, queue in ipairs(skills.queues) do
        if t.gates then
            if has_work(t, skills, queue) then return true end
        elseif call('EXISTS', t.p .. 'ready:' .. queue, t.p .. 'solo:' .. queue, t.p .. 'lanes:' .. queue) > 0 then
            return true
        elseif #my_asides(t, skills, queue) > 0 then
            return true
        end
    end
    return false
end

-- What a worker says of itself is written down; `known`: its row as it was, see `beat`.
local function renew(t, worker, lease, mark, skills, presence, known)
    local key = t.p .. 'worker:' .. worker
    if known[1] and known[3] ~= mark then
        local before = skills_of(t, worker, known[3])
        undeclare(t, before)
        if call('HGET', key, 'idle') == '1' then no_longer_idle(t, worker, before) end
    end
    call('HSET', key, 'lease', lease, 'until', t.now + lease, 'beat', t.now, 'mark', mark, 'skills', skills, 'presence', presence)
    call('ZADD', t.k.leases, t.now + lease, worker)
    if not known[1] then
        local n = call('HINCRBY', t.meta, 'workers', 1)
        call('HSET', key, 'n', n, 'seq', 0, 'dead', 0, 'idle', 0, 'reserved', '', 'alone', '', 'asked', 0, 'refused', '')
        call('ZADD', t.k.workers, n, worker)
        news(t, 'worker_up', worker, '', '', '')
    end
    if tonumber(known[4] or 0) ~= lease then shortest_lease(t) end
end

-- Gives back what was granted to a worker and never came to it. Answers which of those that it holds are not its own.
local function compare(t, worker, skills, acked, held)
    local mine, dropped, runs, lost = {}, {}, {}, {}
    for _, id in ipairs(held) do mine[id] = true end
    for _, id in ipairs(load_held(t, worker)) do
        local h = row(t, id)
        runs[id] = true
        -- Bounded like every call: the next beat goes on.
        if (not h or h[SEQ] <= acked) and not mine[id] and #dropped < CHUNK then dropped[#dropped + 1] = id end
    end
    if #dropped > 0 then give_back(t, worker, skills, dropped, false) end
    for _, id in ipairs(held) do
        if not runs[id] then lost[#lost + 1] = id end
    end
    return lost
end

-- beat(settings, now, worker, acked, lease, mark, skills, presence, held)
--   skills     see `skills_of`; held: MessagePack list of ids; presence: as the worker shows itself, not looked into
-- Answers MessagePack: [gone, lost, cancels, ready, next_due, next_check, schedules].
local function beat(keys, args)
    local t, worker, acked, lease, mark = begin(keys, args), args[3], tonumber(args[4]), tonumber(args[5]), args[6]
    local key, held = t.p .. 'worker:' .. worker, cmsgpack.unpack(args[9])
    local known = call('HMGET', key, 'dead', 'until', 'mark', 'lease')
    local gone = { true, held, {}, false, -1, -1, t.heeded }
    if not known[1] and acked > 0 then return pack(gone) end  -- buried, with the number of its last exchange
    if known[1] and (known[1] == '1' or tonumber(known[2]) <= t.now) then
        -- Judged lost: its jobs may be elsewhere by now, so it must not go on under this name.
        judge_dead(t, worker, skills_of(t, worker, known[3]))
        return pack(gone)
    end
    renew(t, worker, lease, mark, args[7], args[8], known)
    local skills = skills_of(t, worker, mark)
    local lost = compare(t, worker, skills, acked, held)
    graphs.work(t)
    graphs.wake(t)
    flow.open(t)
    flush(t)
    local ready = any_ready(t, skills)
    close_step(t)
    graphs.wake_any(t)
    return pack({ false, lost, cancels(t, worker, call('HGET', key, 'asked')), ready, (next_due(t)), next_check(t), t.heeded })
end

-- leave(settings, now, worker, crashed): answers 1 while there is more to give back. A sweep goes on if the caller does not.
local function leave(keys, args)
    local t = begin(keys, args)
    local key = t.p .. 'worker:' .. args[3]
    if call('EXISTS', key) == 0 then return 0 end
    judge_dead(t, args[3], worker_skills(t, args[3]) or NO_SKILLS)
    if args[4] ~= '1' then call('HSET', key, 'left', 1) end
    bury(t, args[3], args[4] == '1', CHUNK)
    local more = call('EXISTS', key)
    if more == 0 then shortest_lease(t) end
    graphs.work(t)
    graphs.wake(t)
    close_step(t)
    graphs.wake_any(t)
    return more
end

-- note(settings, now, worker, notes)
--   notes   MessagePack: [[id, run, epoch, seq, progress or false, [level, text, …]], …]
-- Answers the ids whose fence no longer held.
local function note(keys, args)
    local t, worker, refused = begin(keys, args), args[3], {}
    local dead = call('HGET', t.p .. 'worker:' .. worker, 'dead') ~= '0'
    for _, said in ipairs(cmsgpack.unpack(args[4])) do
        local id, run, epoch, seq, progress, lines = unpack(said)
        local h = not dead and row(t, id)
        if not h or h[STATE] ~= RUNNING or h[WORKER] ~= worker or h[RUN] ~= run or h[EPOCH] ~= epoch or h[SEQ] ~= seq then
            refused[#refused + 1] = id
        else
            if progress then
                call('HSET', t.k.progress, id, progress)
                job_news(t, 'progress', worker, id, h, progress)
            end
            for i = 1, #lines, 2 do
                call('RPUSH', t.p .. 'logs:' .. id, pack({ h[LOGGED], t.now, lines[i], lines[i + 1] }))
                h[LOGGED] = h[LOGGED] + 1
                job_news(t, 'log', worker, id, h, cjson.encode({ lines[i], lines[i + 1] }))
                touch(t, id)
            end
            if #lines > 0 then call('LTRIM', t.p .. 'logs:' .. id, -t.settings.logs_kept, -1) end
        end
    end
    close_step(t)
    return refused
end

register('beat', beat, 'allow-oom')
register('leave', leave, 'allow-oom')
register('note', note)
