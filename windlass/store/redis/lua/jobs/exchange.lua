-- Exchange: a worker settles what finished and claims what it has room for.

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

-- exchange(settings, now, worker, seq, total, want, plain, others, result, …, result, error, …)
--   want     MessagePack: how many could start at once (-1: all), then queue, cap, queue, cap, … in order of preference
--   plain    MessagePack: id, exchange of the claim, bucket, … of jobs that succeeded at their first claim
--   others   MessagePack: 17 values for each other move, see `settle_row`
-- A result follows for each plain one, then a result and an error for each other; '' for none.
-- Answers MessagePack in pieces: [claims, refused, cancels, next_due, gone, drain, schedules].
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
    close_step(t)
    if c.more or t.left then call('PUBLISH', t.p .. 'to:' .. w.id, '') end
    if due == 0 or t.gates or t.lanes then due = next_due(t) end
    return exchange_reply(t, c.granted, c.parts, refused, cancels(t, w.id, w.asked), due, false, drain)
end

register('exchange', exchange, 'allow-oom')
