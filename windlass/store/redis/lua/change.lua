-- change(settings, now, action, allowed, argument, reason, filter, id, id, …)
--   allowed    for each state '1' or '0': whether the action applies to it; others are skipped with its name as the reason
--   argument   queue for move, priority for reprioritise, payload for edit
--   filter     '' or the query that found these jobs, see read.lua: one that no longer fits is passed over
-- Answers MessagePack: [changed ids, skipped ids, why each was skipped].

local EVENTS = { cancel = 'cancelled', retry = 'replayed', delete = 'deleted' }
local ACTIONS = {}

function ACTIONS.cancel(t, id, h, _, reason)
    reason = reason ~= '' and reason or 'cancelled'
    if h[STATE] == RUNNING then
        h[CANCEL], h[REASON] = 1, reason
        touch(t, id)
        local skills = worker_skills(t, h[WORKER])
        if not skills then return end
        call('SADD', t.p .. 'cancels:' .. h[WORKER], id)
        call('HSET', t.p .. 'worker:' .. h[WORKER], 'asked', 1)
        no_longer_idle(t, h[WORKER], skills)
        call('PUBLISH', t.p .. 'to:' .. h[WORKER], '')
    else
        unplace(t, id, h)
        finish(t, id, h, CANCELLED, reason, '')
    end
end

function ACTIONS.retry(t, id, h)
    unfile(t, id, h)
    call('HDEL', t.k.progress, id)
    h[RUN], h[ATTEMPT], h[CRASHES], h[SNOOZES], h[FINISHED], h[EXPIRES] = h[RUN] + 1, 0, 0, 0, 0, 0
    h[RESULT], h[ERROR], h[REASON], h[FINGERPRINT] = false, false, '', ''
    make_ready(t, id, h)
    wake(t, h[QUEUE], 1)
end

function ACTIONS.promote(t, id, h)
    unplace(t, id, h)
    make_ready(t, id, h)
    wake(t, h[QUEUE], 1)
end

function ACTIONS.move(t, id, h, queue)
    unplace(t, id, h)
    count(t, h[QUEUE], h[STATE], -1)
    h[QUEUE] = queue
    count(t, queue, h[STATE], 1)
    if h[STATE] == READY then
        make_ready(t, id, h)
        wake(t, queue, 1)
    elseif h[STATE] == SCHEDULED then
        add(t, 'due', h[DUE], id)
    end
    touch(t, id)
end

function ACTIONS.reprioritise(t, id, h, priority)
    h[PRIORITY] = tonumber(priority)
    if h[STATE] == READY then
        unplace(t, id, h)
        flush(t)
        make_ready(t, id, h)
    end
    touch(t, id)
end

function ACTIONS.edit(t, id, _, payload)
    local raw = call('HGET', t.k.jobs, id)
    local from = read_body(raw)
    local _, meta = payload_of(raw, from)
    call('HSET', t.k.jobs, id, sub(raw, 1, from) .. binary(payload) .. meta)
end

function ACTIONS.delete(t, id, h)
    tell(t, { id }, function() return '\150' .. text(id) .. '\192\192\192' .. text('deleted') .. '\195' end)
    unplace(t, id, h)
    unfile(t, id, h)
    if h[EXPIRES] > 0 then rem(t, 'expiring', id) end
    flush(t)
    erase(t, { id })
end

local function exists(t, id) return call('HEXISTS', t.k.jobs, id) + call('HEXISTS', t.k.heads, id) > 0 end

-- For an edit, the one action that needs a body: a head alone is not enough.
local function put_aside_damaged(t, ids)
    local bodies = call_many('HMGET', t.k.jobs, ids)
    for i, id in ipairs(ids) do
        if row(t, id) and not read_body(bodies[i]) then quarantine(t, id) end
    end
end

local function change(keys, args)
    local t, action, allowed, argument, reason = begin(keys, args), args[3], args[4], args[5], args[6]
    local filter = args[7] ~= '' and cmsgpack.unpack(args[7])
    local changed, skipped, why, ids = {}, {}, {}, {}
    for i = 8, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    if action == 'edit' then put_aside_damaged(t, ids) end
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if not h and exists(t, id) then
            quarantine(t, id)
            h = row(t, id)
        end
        if h and filter and not fits(h, filter) then
            h = nil  -- it was found, and changed since: not what was asked for any more
        elseif not h then
            skipped[#skipped + 1], why[#why + 1] = id, 'no such job'
        elseif byte(allowed, h[STATE] + 1) == 48 then
            skipped[#skipped + 1], why[#why + 1] = id, STATES[h[STATE]]
        else
            if EVENTS[action] and h[STATE] ~= RUNNING then job_news(t, EVENTS[action], '', id, h, reason_data(reason)) end
            ACTIONS[action](t, id, h, argument, reason)
            changed[#changed + 1] = id
        end
    end
    commit(t)
    return pack({ changed, skipped, why })
end

register('change', change, 'allow-oom')
