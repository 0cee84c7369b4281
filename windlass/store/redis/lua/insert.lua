-- insert(settings, now, extras, id, body, id, body, …)
--   extras   MessagePack: per job 0, or what is not as usual about it:
--            [delay, at, expires_in, expires_at, expire_to, max_crashes, crash_delay, keep_done, keep_failed]
--   body     MessagePack: task, version, queue, priority, payload, meta
-- Answers one string per job: '' accepted, '=' the same job was there, else why its id is taken.

local function same_job(raw, parts)
    local new = string.rep('\0', PREFIX) .. parts
    local from, task = read_body(raw)
    local new_from, new_task = read_body(new)
    if task ~= new_task then return 'another task', task end
    return payload_of(raw, from) ~= payload_of(new, new_from) and 'other arguments' or nil, task
end

-- `known`: it was there before this batch.
local function answer_known(t, id, raw, parts, known, again)
    local differs, task = same_job(raw, parts)
    local h = t.rows[id] or fresh_head(raw, 0)
    if known then h = row(t, id) end
    if h and graphs.is_hidden(t, h) then return "the id '" .. id .. "' is taken by a workflow that is being submitted" end
    local state = h and STATES[h[STATE]] or 'damaged'
    if differs then return "job '" .. id .. "' exists with " .. differs .. ' (' .. (task or '?') .. ', ' .. state .. ')' end
    if h then again[#again + 1] = { id, h } end
    return '='
end

-- A job that is not as usual gets its head at once.
local function insert_special(t, id, raw, extra)
    local delay, at, expires_in, expires_at, expire_to, max_crashes, crash_delay, keep_done, keep_failed = unpack(extra)
    local h = fresh_head(raw, 0)
    local due = max(at, delay > 0 and t.now + delay or 0)
    h[EXPIRES] = expires_at > 0 and expires_at or (expires_in > 0 and t.now + expires_in or 0)
    h[EXPIRE_TO], h[MAX_CRASHES], h[CRASH_DELAY], h[KEEP_DONE], h[KEEP_FAILED] = expire_to, max_crashes, crash_delay, keep_done, keep_failed
    h[STATE] = WAITING
    count(t, h[QUEUE], WAITING, 1)
    t.rows[id] = h
    if due > t.now then
        t.due_before = t.due_before or next_due(t)
        make_scheduled(t, id, h, due)
    else
        make_ready(t, id, h)
        wake(t, h[QUEUE], 1)
    end
end

local function insert(keys, args)
    local t = begin(keys, args)
    local extras = cmsgpack.unpack(args[3])
    local ids, answers, bodies, fresh, ready, again = {}, {}, {}, {}, {}, {}
    for i = 4, #args, 2 do ids[#ids + 1] = args[i] end
    local known = call_many('HMGET', t.k.jobs, ids)
    local first = t.n
    local prefix_at = struct.pack('>I6', t.now)
    for i, id in ipairs(ids) do
        local parts = args[2 * i + 3]
        local raw = known[i] or bodies[id]
        if raw then
            answers[i] = answer_known(t, id, raw, parts, known[i], again)
        else
            local _, task, _, queue, priority = unpack_limit(parts, 4, 0)
            t.n = t.n + 1
            raw = struct.pack('>I5', t.n) .. prefix_at .. parts
            bodies[id], fresh[#fresh + 1], answers[i] = raw, id, ''
            if extras[i] == 0 then
                local list = ready[queue] or {}
                ready[queue] = list
                t.rank = t.rank + 1
                local size = #list
                list[size + 1], list[size + 2] = format('%d', (9 - priority) * BAND + t.rank), id
            else
                insert_special(t, id, raw, extras[i])
            end
            news(t, 'enqueued', '', id, task, queue)
        end
    end
    for queue, list in pairs(ready) do
        call_many('ZADD', t.p .. 'ready:' .. queue, list)
        count(t, queue, READY, #list / 2)
        wake(t, queue, #list / 2)
    end
    for _, one in ipairs(again) do job_news(t, 'duplicate', '', one[1], one[2]) end
    if #fresh > 0 then
        local stored = {}
        for i, id in ipairs(fresh) do stored[2 * i - 1], stored[2 * i] = id, bodies[id] end
        call_many('HSET', t.k.jobs, stored)
        log_accepted(t, first, fresh)
    end
    graphs.wake(t)
    commit(t)
    return answers
end

register('insert', insert)
