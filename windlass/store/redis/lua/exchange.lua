-- exchange(settings, now, worker, seq, total, want, moves, result, error, result, error, …)
--   want     MessagePack: queue, cap, queue, cap, … in order of preference
--   moves    MessagePack: 14 values for each, see below; a result and an error follow for each, '' for none
-- Answers MessagePack: [claims, refused, cancels, next_due, gone, drain].
local MOVE = 14

-- One transition; answers the kind of event it was.
local function apply(t, id, h, m, at, result, problem)
    h[ATTEMPT], h[CRASHES], h[SNOOZES] = m[at + 7], m[at + 8], m[at + 9]
    if problem ~= '' then h[ERROR], h[FINGERPRINT] = problem, m[at + 12] end
    local to, event = m[at + 4], m[at + 5]
    if m[at + 10] == 1 and h[CANCEL] == 1 then
        finish(t, id, h, CANCELLED, h[REASON], '')
        return 'cancelled'
    elseif to == SCHEDULED then
        make_scheduled(t, id, h, t.now + m[at + 6])
    elseif to == READY then
        make_ready(t, id, h, event == 'released')
        wake(t, h[QUEUE], 1)
    else
        h[RESULT] = result ~= '' and result
        finish(t, id, h, to, m[at + 11], m[at + 13])
    end
    return event
end

local function event_data(event, h, delay)
    if event == 'retried' or event == 'snoozed' then return '{"delay":' .. string.format('%d', delay) .. '}' end
    if h[STATE] > RUNNING then return reason_data(h[REASON]) end
    return nil
end

-- id, run, epoch, seq, to, event, delay, attempt, crashes, snoozes, yields to cancel, reason, fingerprint, keep
local function is_plain_success(m, at, problem)
    return m[at + 5] == 'succeeded' and m[at + 1] == 1 and m[at + 2] == 1 and m[at + 7] == 0 and m[at + 8] == 0 and m[at + 9] == 0
        and m[at + 11] == '' and problem == ''
end

-- A job that came in with nothing unusual and succeeds at its first try: its only head is written here, put together
-- from what its stamp and the exchange say.
local function settle_fresh(t, s, id, stamp, result, keep)
    local from, task, _, queue = unpack_limit(stamp, 4, PREFIX)
    if keep == '' then keep = t.settings.done .. queue end
    t.rank = t.rank + 1
    add(t, 'bucket:' .. keep, t.rank, id)
    t.touched[keep] = true
    count(t, queue, RUNNING, -1)
    count(t, queue, SUCCEEDED, 1)
    local size = #s.heads
    s.heads[size + 1] = id
    s.heads[size + 2] = concat({
        '\220\0\32\207\0\0\0', sub(stamp, 1, 5), '\207\0\0', sub(stamp, 6, from),
        '\4\1\1\207\0\0', sub(stamp, -6), '\0\0\0\160\207\0\0', sub(stamp, -12, -7), '\203', sub(stamp, -20, -13), s.finished,
        '\0\0\6\3\0\0\0\0\0', text(keep), '\160\160\160', result ~= '' and pack(result) or '\194', '\194',
    })
    t.ended[#t.ended + 1] = id
    t.brief[id] = result
    news(t, 'succeeded', s.worker, id, task, queue)
end

local function ids_of(m)
    local ids = {}
    for at = 1, #m, MOVE do ids[#ids + 1] = m[at] end
    return ids
end

local function settle(t, w, m, args)
    local ids, done, refused, headed = ids_of(m), {}, {}, {}
    local s = { worker = w.id, heads = {}, finished = '\207\0\0' .. struct.pack('>I6', t.now) }
    local stamps = call_many('HMGET', t.p .. 'held:' .. w.id, ids)
    for i, id in ipairs(ids) do
        if stamps[i] == '' then headed[#headed + 1] = id end
    end
    load(t, headed)
    for i, id in ipairs(ids) do
        local at, stamp, result, problem = (i - 1) * MOVE + 1, stamps[i], args[6 + 2 * i], args[7 + 2 * i]
        local fresh = stamp and stamp ~= '' and t.rows[id] == nil and t.brief[id] == nil
        if fresh and is_plain_success(m, at, problem) and sub(stamp, -6) == struct.pack('>I6', m[at + 3]) then
            settle_fresh(t, s, id, stamp, result, m[at + 13])
            done[#done + 1] = id
        else
            if fresh then t.rows[id] = head_of_stamp(stamp, w.id) end
            local h = stamp and t.rows[id]
            if h and h[STATE] == RUNNING and h[RUN] == m[at + 1] and h[EPOCH] == m[at + 2] and h[SEQ] == m[at + 3] then
                local event = apply(t, id, h, m, at, result, problem)
                done[#done + 1] = id
                job_news(t, event, w.id, id, h, event_data(event, h, m[at + 6]))
            else
                refused[#refused + 1] = id
            end
        end
    end
    call_many('HSET', t.p .. 'heads', s.heads)
    call_many('HDEL', t.p .. 'held:' .. w.id, done)
    return refused
end

local function exchange_reply(parts, refused, asked, due, gone, drain)
    return '\150\221' .. struct.pack('>I4', #parts) .. concat(parts) .. list_of(refused) .. list_of(asked)
        .. pack(due, gone, drain)
end

local function read_worker(t, id)
    local v = call('HMGET', t.p .. 'worker:' .. id, 'n', 'seq', 'dead', 'idle', 'reserved', 'alone', 'mark', 'refused', 'asked')
    if not v[1] then return nil end
    return {
        id = id, n = tonumber(v[1]), seq = tonumber(v[2]), dead = v[3] == '1', idle = v[4] == '1', reserved = v[5],
        alone = v[6], refused = v[8], asked = v[9], skills = skills_of(t, id, v[7]),
    }
end

-- The same seq again: the same claims, as far as they still run; nothing is applied twice.
local function regrant(t, w, seq)
    local found, parts = {}, {}
    for _, id in ipairs(load_held(t, w.id)) do
        local h = t.rows[id]
        if h and h[STATE] == RUNNING and h[SEQ] == seq then found[#found + 1] = { h[RANK], id, h } end
    end
    table.sort(found, function(a, b) return a[1] < b[1] end)
    for i, one in ipairs(found) do
        local raw = call('HGET', t.p .. 'jobs', one[2])
        parts[i] = claim_part(one[2], one[3], raw, (read_body(raw)))
    end
    local due = next_due(t)
    local refused = w.refused ~= '' and cmsgpack.unpack(w.refused) or {}
    return exchange_reply(parts, refused, cancels(t, w.id, w.asked), due, false, false)
end

local function write_claims(c)
    local t = c.t
    call_many('HSET', t.p .. 'held:' .. c.w.id, c.held)
    for i = 1, 2 * c.granted, 2 do news(t, 'started', c.w.id, c.held[i], c.started[i], c.started[i + 1]) end
end

-- Only what is not as it was: most exchanges change nothing but the number.
local function write_worker(t, w, before, seq, refused, idle)
    local values = { 'seq', seq }
    local function put(name, value, was)
        if value ~= was then
            values[#values + 1] = name
            values[#values + 1] = value
        end
    end
    put('refused', #refused > 0 and pack(refused) or '', w.refused)
    put('reserved', w.reserved, before.reserved)
    put('alone', w.alone, before.alone)
    if idle ~= w.idle then
        put('idle', idle and 1 or 0)
        if idle then now_idle(t, w.id, w.n, w.skills) else no_longer_idle(t, w.id, w.skills) end
    end
    call('HSET', t.p .. 'worker:' .. w.id, unpack(values))
end

-- Other idle workers for what just became due and this worker did not take.
local function wake_for_promoted(t, promoted)
    for queue, jobs in pairs(promoted) do
        if call('EXISTS', t.p .. 'ready:' .. queue) == 1 then wake(t, queue, jobs) end
    end
end

local function exchange(keys, args)
    local t, seq, moves = begin(keys, args), tonumber(args[4]), cmsgpack.unpack(args[7])
    local w = read_worker(t, args[3])
    if not w or w.dead then return exchange_reply({}, ids_of(moves), {}, -1, true, false) end
    if seq < w.seq then
        return redis.error_reply('WINDLASS worker ' .. w.id .. ' sent exchange ' .. seq .. ' after ' .. w.seq)
    end
    if seq == w.seq then return regrant(t, w, seq) end
    if w.idle then
        no_longer_idle(t, w.id, w.skills)  -- not to be woken by what it does itself
        w.idle = false
    end
    local before = { reserved = w.reserved, alone = w.alone }
    local refused = #moves > 0 and settle(t, w, moves, args) or {}
    flush(t)
    local due, promoted = next_due(t), {}
    if due == 0 then
        promoted = promote(t, CHUNK)
        flush(t)
    end
    local c = new_claiming(t, w, seq, min(tonumber(args[5]), CHUNK))
    local drain = claim(c, cmsgpack.unpack(args[6]))
    write_claims(c)
    wake_for_promoted(t, promoted)
    write_worker(t, w, before, seq, refused, c.granted < c.total and not c.more)
    if c.more then call('PUBLISH', t.p .. 'to:' .. w.id, '') end
    commit(t)
    if due == 0 then due = next_due(t) end
    return exchange_reply(c.parts, refused, cancels(t, w.id, w.asked), due, false, drain)
end

register('exchange', exchange, 'allow-oom')
