-- insert(settings, now, extras, id, body, id, body, …)
--   extras   MessagePack: per job 0; or its terms, if they are all that is not as usual, and need no head; or all that is not as usual:
--            [delay, at, expires_in, expires_at, expire_to, max_crashes, crash_delay, keep_done, keep_failed, terms or false]
--   body     MessagePack: task, version, queue, priority, payload, meta
-- Answers one string per job: '' accepted; '=' the same job was there, with a name behind it: the one that has its unique key; 'R' the one
-- that got its arguments; 'C' its id is taken, 'F' its queue is full, 'X' it is refused: with the reason behind it.

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
    if h and graphs.is_hidden(t, h) then return "Cthe id '" .. id .. "' is taken by a workflow that is being submitted" end
    local state = h and STATES[h[STATE]] or 'damaged'
    if differs then return "Cjob '" .. id .. "' exists with " .. differs .. ' (' .. (task or '?') .. ', ' .. state .. ')' end
    if h then again[#again + 1] = { id, h } end
    return '='
end

-- A job that is not as usual gets its head at once. `follows`: it waits for the holder of its unique key.
local function insert_special(t, id, raw, extra, follows)
    local delay, at, expires_in, expires_at, expire_to, max_crashes, crash_delay, keep_done, keep_failed, terms = unpack(extra)
    local h = fresh_head(raw, 0)
    local due = max(at, delay > 0 and t.now + delay or 0)
    h[EXPIRES] = expires_at > 0 and expires_at or (expires_in > 0 and t.now + expires_in or 0)
    h[EXPIRE_TO], h[MAX_CRASHES], h[CRASH_DELAY], h[KEEP_DONE], h[KEEP_FAILED] = expire_to, max_crashes, crash_delay, keep_done, keep_failed
    h[STATE], h[TERMS] = WAITING, terms
    count(t, h[QUEUE], WAITING, 1)
    t.rows[id] = h
    if follows then
        h[DUE] = due > t.now and due or 0
        if h[EXPIRES] > 0 then add(t, 'expiring', h[EXPIRES], id) end
        touch(t, id)
    elseif due > t.now then
        t.due_before = t.due_before or next_due(t)
        make_scheduled(t, id, h, due)
    else
        make_ready(t, id, h)
        wake_for(t, h)
    end
end

-- What has been taken in so far is written, so that it can be found like any other.
local function write_batch(t, b)
    for queue, list in pairs(b.ready) do
        call_many('ZADD', t.p .. 'ready:' .. queue, list)
        count(t, queue, READY, #list / 2)
        wake(t, queue, #list / 2)
    end
    local stored = {}
    for i, id in ipairs(b.fresh) do stored[2 * i - 1], stored[2 * i] = id, b.bodies[id] end
    call_many('HSET', t.k.jobs, stored)
    if #b.fresh > 0 then log_accepted(t, b.first, b.fresh) end
    b.ready, b.fresh, b.first = {}, {}, t.n
end

-- The oldest ready job of the lowest priority that a queue has. Ranks say which may be it, but where they do not go by priority, and
-- of those that came back: a few of each order are looked at.
local LOOKED_AT = 20

local function find_oldest(t, queue)
    local keys, ids = lanes.keys(t, queue, CHUNK), {}
    local function note(found)
        for _, id in ipairs(found) do ids[#ids + 1] = id end
    end
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        if string.match(group, '^(.-)\n') == queue then keys[#keys + 1] = 'aside:' .. group end
    end
    keys[#keys + 1], keys[#keys + 2] = 'ready:' .. queue, 'solo:' .. queue
    for _, key in ipairs(keys) do
        local last = call('ZRANGE', t.p .. key, '-1', '-1', 'WITHSCORES')
        if last[1] then
            local band = floor(tonumber(last[2]) / BAND)
            note(call('ZRANGEBYSCORE', t.p .. key, format('%d', band * BAND), '+inf', 'LIMIT', 0, LOOKED_AT))
            note(call('ZRANGE', t.p .. key, -LOOKED_AT, -1))
        end
    end
    load_all(t, ids)
    local oldest, its
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if not h then return id end
        if not its or h[PRIORITY] < its[PRIORITY] or (h[PRIORITY] == its[PRIORITY] and h[N] < its[N]) then oldest, its = id, h end
    end
    return oldest
end

local function drop_oldest(t, b, queue, most)
    write_batch(t, b)
    flow.open(t)
    flush(t)
    local id = find_oldest(t, queue)
    local h = id and row(t, id)
    if not id then return end
    if is_lost(h) then return mend(t, id) end
    unplace(t, id, h)
    h[ERROR], h[FINGERPRINT] = fill(LIBRARY.errors.dropped, { queue = queue, most = format('%d', most) }), 'queue-full'
    finish(t, id, h, FAILED, 'queue full', '')
    job_news(t, 'failed', '', id, h, reason_data('queue full'))
end

-- Why a new job is not taken in, as an answer; 'successor' if it is to wait for the holder of its unique key; nil otherwise.
local function screen(t, b, new)
    local gate, terms = t.gates and t.gates['queue:' .. new.queue], new.terms
    if gate and gate.draining then return "Xqueue '" .. new.queue .. "' is draining: it takes in nothing new" end
    if terms and terms.unique ~= '' then
        local said = unique.meet(t, new, b.bodies)
        if said then return said end
    end
    local most = terms and terms.max_ready or 0
    if gate and gate.max_ready ~= nil then most = gate.max_ready end
    if most <= 0 or b.unbound or new.due > t.now or lanes.ready_in(t, new.queue) + #(b.ready[new.queue] or {}) / 2 < most then return nil end
    if not (terms and terms.drop_oldest) then
        return "Fqueue '" .. new.queue .. "' is full: it has " .. format('%d', most) .. ' ready jobs'
    end
    drop_oldest(t, b, new.queue, most)
    return nil
end

local function add_ready(t, b, id, queue, priority)
    local list = b.ready[queue] or {}
    b.ready[queue] = list
    t.rank = t.rank + 1
    local size = #list
    list[size + 1], list[size + 2] = format('%d', (9 - priority) * BAND + t.rank), id
end

local function accept(t, b, id, parts, extra, new, follows)
    t.n = t.n + 1
    local bare = type(extra) ~= 'table'
    local raw = struct.pack('>I5', t.n) .. b.prefix .. parts .. (bare and extra ~= 0 and binary(extra) or '')
    b.bodies[id], b.fresh[#b.fresh + 1] = raw, id
    local lane = bare and lanes.of(t, new.task, new.terms)
    if lane == '' then
        add_ready(t, b, id, new.queue, new.priority)
    elseif bare then
        count(t, new.queue, READY, 1)
        t.came[id] = new
        lanes.join_fresh(t, id, new.queue, lane, next_rank(t, new.priority))
    else
        insert_special(t, id, raw, extra, follows)
        if follows then
            unique.follow(t, new.terms.unique, id)
        elseif new.terms and new.terms.unique ~= '' then
            unique.take(t, new.terms.unique, id, t.now, new.terms.window)
        end
    end
    news(t, 'enqueued', '', id, new.task, new.queue)
end

-- A batch of jobs, from a place in the arguments on: [extras, id, body, …]. `unbound`: a full queue takes them in.
local function new_batch(t, unbound)
    return { ready = {}, fresh = {}, bodies = {}, again = {}, first = t.n, prefix = struct.pack('>I6', t.now), unbound = unbound }
end

local function take_in(t, b, args, from, last, extras, at)
    local ids, answers = {}, {}
    for i = from, last, 2 do ids[#ids + 1] = args[i] end
    local known = call_many('HMGET', t.k.jobs, ids)
    for i, id in ipairs(ids) do
        local parts, extra = args[from + 2 * i - 1], extras[at + i]
        local raw = b.bodies[id] or known[i]
        if not raw and extra == 0 and not t.gates then
            local _, task, _, queue, priority = unpack_limit(parts, 4, 0)
            t.n = t.n + 1
            b.bodies[id], b.fresh[#b.fresh + 1], answers[i] = struct.pack('>I5', t.n) .. b.prefix .. parts, id, ''
            add_ready(t, b, id, queue, priority)
            news(t, 'enqueued', '', id, task, queue)
        elseif raw then
            answers[i] = answer_known(t, id, raw, parts, known[i], b.again)
        else
            local _, task, version, queue, priority = unpack_limit(parts, 4, 0)
            local new = { task = task, version = version, queue = queue, priority = priority, parts = parts, due = 0 }
            if type(extra) == 'string' then
                new.terms = flow.read(extra)
            elseif extra ~= 0 then
                new.due = max(extra[2], extra[1] > 0 and t.now + extra[1] or 0)
                new.terms = extra[10] and flow.read(extra[10])
            end
            local said = (t.gates or new.terms) and screen(t, b, new)
            if not said or said == 'successor' then
                accept(t, b, id, parts, extra, new, said)
                answers[i] = ''
            else
                answers[i] = said
                if byte(said, 1) == 61 then  -- the event names who has the key
                    news(t, 'duplicate', '', id, task, queue, cjson.encode({ holder = sub(said, 2) }))
                end
            end
        end
    end
    return answers
end

local function end_batch(t, b)
    write_batch(t, b)
    for _, one in ipairs(b.again) do job_news(t, 'duplicate', '', one[1], one[2]) end
    graphs.work(t)
    graphs.wake(t)
    close_step(t)
end

local function insert(keys, args)
    local t = begin(keys, args)
    local b = new_batch(t)
    local answers = take_in(t, b, args, 4, #args, cmsgpack.unpack(args[3]), 0)
    end_batch(t, b)
    return answers
end

register('insert', insert)
