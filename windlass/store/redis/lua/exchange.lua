-- exchange(settings, now, worker, seq, total, want, plain, others, result, …, result, error, …)
--   want     MessagePack: how many could start at once (-1: all), then queue, cap, queue, cap, … in order of preference
--   plain    MessagePack: id, exchange of the claim, bucket, … of jobs that succeeded at their first claim
--   others   MessagePack: 17 values for each other move, see `settle_row`
-- A result follows for each plain one, then a result and an error for each other; '' for none.
-- Answers MessagePack in pieces: [claims, refused, cancels, next_due, gone, drain, schedules].
local PLAIN, OTHER = 3, 17

-- One transition; answers the kind of event it was.
local function apply(t, id, h, m, at, result, problem)
    h[ATTEMPT], h[CRASHES], h[SNOOZES] = m[at + 7], m[at + 8], m[at + 9]
    if problem ~= '' then h[ERROR], h[FINGERPRINT] = problem, m[at + 12] end
    local to, event = m[at + 4], m[at + 5]
    if m[at + 10] == 1 and h[CANCEL] == 1 then
        finish(t, id, h, CANCELLED, h[REASON], '')
        return 'cancelled'
    elseif to == WAITING then
        h[LINKS] = h[LINKS] or graphs.new_place()
        graphs.let_go(t, h)
        h[LINKS][L.AWAITS], h[LINKS][L.REPLACED] = m[at + 14], m[at + 15]
        graphs.make_waiting(t, id, h)
        graphs.commit(t, m[at + 14])
    elseif to == SCHEDULED then
        make_scheduled(t, id, h, t.now + m[at + 6])
    elseif to == READY then
        make_ready(t, id, h, event == 'released')
        wake_for(t, h)
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

-- Where a fresh success is filed: what is the same for all of a bucket is made once.
local function bucket_for(t, s, keep, queue)
    local known = keep == '' and s.default or s.named
    local name = keep == '' and queue or keep
    local found = known[name]
    if not found then
        local bucket = keep == '' and t.settings.done .. queue or keep
        found = { key = 'bucket:' .. bucket, text = text(bucket) }
        known[name] = found
        t.touched[bucket] = true
    end
    return found
end

-- A job that came in with nothing unusual and succeeds at its first try: its only head is written here, put together
-- from what its stamp and the exchange say.
local function settle_fresh(t, s, id, stamp, result, keep)
    local from, task, _, queue, _, terms = read_stamp(stamp)
    if not from then return false end
    local bucket, size = bucket_for(t, s, keep, queue), #s.heads
    t.rank = t.rank + 1
    add(t, bucket.key, t.rank, id)
    s.done[queue] = (s.done[queue] or 0) + 1
    if t.gates or terms then gates.free(t, queue, task, terms and flow.read(terms)) end
    s.heads[size + 1] = id
    s.heads[size + 2] = '\220\0\34\207\0\0\0' .. sub(stamp, 1, 5) .. '\207\0\0' .. sub(stamp, 6, from)
        .. '\4\1\1\207\0\0' .. sub(stamp, -6) .. '\0\0\0\160\207\0\0' .. sub(stamp, -12, -7) .. '\203' .. sub(stamp, -20, -13)
        .. s.finished .. bucket.text .. '\160\160\160' .. (result ~= '' and text_head(#result) .. result or '\194') .. '\194'
        .. (terms and text(terms) or '\194') .. '\194'
    t.ended[#t.ended + 1] = id
    t.brief[id] = result
    news(t, 'succeeded', s.worker, id, task, queue)
    return true
end

-- Any other move, in the general way: place, id, run, epoch, seq, to, event, delay, attempt, crashes, snoozes, yields to cancel,
-- reason, fingerprint, keep, adopt, replaced. False where the fence no longer holds.
local function settle_row(t, w, id, stamp, m, at, result, problem)
    if stamp and stamp ~= '' and t.rows[id] == nil and t.brief[id] == nil then
        t.rows[id] = head_of_stamp(stamp, w.id) or false
    end
    local h = stamp and t.rows[id]
    if stamp and not h and t.brief[id] == nil then
        -- Held, but there is nothing left to compare the fence with. What the worker says is not believed.
        call('HDEL', t.p .. 'held:' .. w.id, id)
        quarantine(t, id, nil, RUNNING)
    end
    if not h or h[STATE] ~= RUNNING or h[RUN] ~= m[at + 1] or h[EPOCH] ~= m[at + 2] or h[SEQ] ~= m[at + 3] then return false end
    local yields = m[at + 10] == 1 and h[CANCEL] == 1
    if m[at + 4] == WAITING and not yields and not graphs.may_adopt(t, id, m[at + 14]) then return false end
    local event = apply(t, id, h, m, at, result, problem)
    job_news(t, event, w.id, id, h, event_data(event, h, m[at + 6]))
    return true
end

local function settle_plain(t, w, s, id, stamp, seq, keep, result)
    local fresh = stamp and stamp ~= '' and t.rows[id] == nil and t.brief[id] == nil
    if fresh and sub(stamp, -6) == struct.pack('>I6', seq) and settle_fresh(t, s, id, stamp, result, keep) then return true end
    return settle_row(t, w, id, stamp, { id, 1, 1, seq, SUCCEEDED, 'succeeded', 0, 0, 0, 0, 0, '', '', keep, '', 0 }, 1, result, '')
end

-- The stamps of some of what a worker may hold; the rows of those that have heads are loaded.
local function stamps_of(t, w, m, first, stride)
    local ids, headed = {}, {}
    for at = first, #m, stride do ids[#ids + 1] = m[at] end
    local stamps = call_many('HMGET', t.p .. 'held:' .. w.id, ids)
    for i, id in ipairs(ids) do
        if stamps[i] == '' then headed[#headed + 1] = id end
    end
    load(t, headed)
    local keys = {}
    for _, id in ipairs(headed) do
        local h = t.rows[id]
        local terms = h and flow.terms(h)
        if terms and terms.key ~= '' then keys[#keys + 1] = gates.of_terms(h[QUEUE], terms) end
    end
    if #keys > 0 then gates.load(t, keys) end
    return stamps
end

-- All moves in the order they were given: `others` know their place among them. Answers the refused ids.
local function settle(t, w, plain, others, args)
    local count_plain, count_others, done, refused = #plain / PLAIN, #others / OTHER, {}, {}
    local s = {
        worker = w.id, heads = {}, done = {}, default = {}, named = {},
        finished = '\207\0\0' .. struct.pack('>I6', t.now) .. '\0\0\6\3\0\0\0\0\0',
    }
    local plain_stamps, other_stamps = stamps_of(t, w, plain, 1, PLAIN), stamps_of(t, w, others, 2, OTHER)
    local p, o = 0, 0
    for place = 1, count_plain + count_others do
        local id, held
        if others[o * OTHER + 1] == place then
            local at, result = o * OTHER + 2, 9 + count_plain + 2 * o
            id = others[at]
            held = settle_row(t, w, id, other_stamps[o + 1], others, at, args[result], args[result + 1])
            o = o + 1
        else
            local at = p * PLAIN
            id = plain[at + 1]
            held = settle_plain(t, w, s, id, plain_stamps[p + 1], plain[at + 2], plain[at + 3], args[9 + p])
            p = p + 1
        end
        if held then done[#done + 1] = id else refused[#refused + 1] = id end
    end
    for queue, jobs in pairs(s.done) do
        count(t, queue, RUNNING, -jobs)
        count(t, queue, SUCCEEDED, jobs)
    end
    call_many('HSET', t.k.heads, s.heads)
    call_many('HDEL', t.p .. 'held:' .. w.id, done)
    return refused
end

local function exchange_reply(t, claims, parts, refused, asked, due, gone, drain)
    table.insert(parts, 1, '\151\221' .. struct.pack('>I4', claims))
    parts[#parts + 1] = list_of(refused) .. list_of(asked) .. '\211' .. struct.pack('>i8', due)
        .. (gone and '\195' or '\194') .. (drain and '\195' or '\194')
        .. '\207' .. struct.pack('>I8', t.heeded)
    return parts
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
    for _, one in ipairs(found) do
        local raw = call('HGET', t.k.jobs, one[2])
        local from = read_body(raw)
        -- A damaged one is left out; the worker's next beat gives it back, and the next claim puts it aside.
        if from then parts[#parts + 1] = claim_part(t, one[2], one[3], raw, from) end
    end
    local due = next_due(t)
    local refused = w.refused ~= '' and cmsgpack.unpack(w.refused) or {}
    return exchange_reply(t, #parts, parts, refused, cancels(t, w.id, w.asked), due, false, false)
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
        put('idle', idle and '1' or '0')
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

-- Other idle workers for what was released and this worker did not take.
local function wake_for_released(t, c)
    if not next(t.released) and not t.due_before then return end
    flush(t)
    for queue, jobs in pairs(t.released) do
        t.released[queue] = not c.emptied[queue] and min(jobs, call('ZCARD', t.p .. 'ready:' .. queue)) or 0
    end
    graphs.wake(t)
end

-- Every move of a worker that is gone is refused, in the order they were given.
local function refuse_all(plain, others)
    local refused, p, o = {}, 0, 0
    for place = 1, #plain / PLAIN + #others / OTHER do
        if others[o * OTHER + 1] == place then
            refused[place], o = others[o * OTHER + 2], o + 1
        else
            refused[place], p = plain[p * PLAIN + 1], p + 1
        end
    end
    return refused
end

local function exchange(keys, args)
    local t, seq = begin(keys, args), tonumber(args[4])
    local plain, others = cmsgpack.unpack(args[7]), cmsgpack.unpack(args[8])
    local w = read_worker(t, args[3])
    if not w or w.dead then return exchange_reply(t, 0, {}, refuse_all(plain, others), {}, -1, true, false) end
    if seq < w.seq then
        return redis.error_reply('WINDLASS worker ' .. w.id .. ' sent exchange ' .. seq .. ' after ' .. w.seq)
    end
    if seq == w.seq then return regrant(t, w, seq) end
    t.me = w.idle and w.id  -- not to be woken by what it does itself
    local before = { reserved = w.reserved, alone = w.alone }
    local refused = #plain + #others > 0 and settle(t, w, plain, others, args) or {}
    graphs.work(t)
    flush(t)
    local due, promoted = next_due(t), {}
    if due == 0 then
        promoted = promote(t, CHUNK)
        if t.gates or t.lanes then gates.open_due(t) end
        flush(t)
    end
    flow.open(t)
    local want = cmsgpack.unpack(args[6])
    t.claiming = true
    local c = new_claiming(t, w, seq, min(tonumber(args[5]), CHUNK), table.remove(want, 1))
    local drain = claim(c, want)
    write_claims(c)
    graphs.work(t)  -- what ended instead of being claimed
    if flow.open(t) and c.granted < c.total and c.now > 0 then c.more = true end  -- opened behind its back
    flow.wake(t)
    wake_for_promoted(t, promoted)
    wake_for_released(t, c)
    write_worker(t, w, before, args[4], refused, c.granted < c.wanted and not c.more and not t.left and #t.todos == 0)
    commit(t)
    if c.more or t.left then call('PUBLISH', t.p .. 'to:' .. w.id, '') end
    if due == 0 or t.gates or t.lanes then due = next_due(t) end
    return exchange_reply(t, c.granted, c.parts, refused, cancels(t, w.id, w.asked), due, false, drain)
end

register('exchange', exchange, 'allow-oom')
