-- sweep(settings, now, limit): what time does to jobs: due, expired, orphaned, undeclared, past retention.
-- Answers MessagePack: [promoted, recovered, quarantined, expired, parked, pruned, dead_workers, more, next_check, repaired].

-- ---- what lost its index: a key may be evicted, or deleted by hand, and with it goes who would look after its jobs

-- A worker is in both lists, or nobody buries it, or nobody counts on it.
local function restore_workers(t)
    local function lacking(from, to, field)
        for _, worker in ipairs(call('ZRANGE', from, 0, -1)) do
            if not call('ZSCORE', to, worker) then call('ZADD', to, tonumber(call('HGET', t.p .. 'worker:' .. worker, field) or 0), worker) end
        end
    end
    if call('ZCARD', t.k.leases) == call('ZCARD', t.k.workers) then return end
    lacking(t.k.workers, t.k.leases, 'until')
    lacking(t.k.leases, t.k.workers, 'n')
end

-- Whether fewer jobs are held by workers than run.
local function some_strayed(t)
    local missing, counts = 0, call('HGETALL', t.k.counts)
    for i = 1, #counts, 2 do
        if byte(counts[i]) == 48 + RUNNING then missing = missing + tonumber(counts[i + 1]) end
    end
    for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do missing = missing - call('HLEN', t.p .. 'held:' .. worker) end
    return missing > 0
end

-- A job that runs and that no worker holds, as a running one; nil for any other.
local function strayed(t, id)
    local h = row(t, id)
    if not h then return nil end
    if h[STATE] == RUNNING then return not t.stamped[id] and call('HEXISTS', t.p .. 'held:' .. h[WORKER], id) == 0 and h or nil end
    -- Without a head it reads as ready; were it so, it would have a place. It has run once, and no fence may come twice.
    if h[STATE] ~= READY or h[RANK] > 0 or call('HEXISTS', t.k.heads, id) == 1 then return nil end
    h[STATE], h[EPOCH] = RUNNING, h[EPOCH] + 1
    return h
end

-- Looks now and then whether all that runs is held by somebody; if not, goes over all jobs, a list of them in each sweep, and gives
-- back what nobody holds.
local function recover_strays(t)
    local place = call('HMGET', t.meta, 'strays_at', 'strays_list')
    if not place[2] then
        if t.now < tonumber(place[1] or 0) then return end
        call('HSET', t.meta, 'strays_at', t.now + t.settings.audit_every)
        if not some_strayed(t) then return end
    end
    local k = call('ZRANGEBYSCORE', t.k.chunks, place[2] or '-inf', '+inf', 'LIMIT', 0, 1)[1]
    if not k then return call('HDEL', t.meta, 'strays_list') end
    call('HSET', t.meta, 'strays_list', k + 1)
    local ids, found = call('LRANGE', t.p .. 'log:' .. k, 0, -1), {}
    load_all(t, ids)
    for _, id in ipairs(ids) do
        local h = strayed(t, id)
        if h then
            found[h[WORKER]] = found[h[WORKER]] or {}
            table.insert(found[h[WORKER]], id)
        end
    end
    for worker, mine in pairs(found) do give_back(t, worker, NO_SKILLS, mine, false) end
    flush(t)
end

local function expire_due(t, limit)
    local expired = 0
    local ids = call('ZRANGEBYSCORE', t.k.expiring, '-inf', t.now, 'LIMIT', 0, limit)
    load(t, ids)
    -- Of those that end at one instant, the one that came in first counts as the older. What cannot be read comes before all.
    table.sort(ids, function(a, b)
        local x, y = row(t, a), row(t, b)
        if not x or not y then return not x and (y ~= nil or a < b) end
        return x[EXPIRES] < y[EXPIRES] or (x[EXPIRES] == y[EXPIRES] and x[N] < y[N])
    end)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        rem(t, 'expiring', id)
        if is_lost(h) then
            mend(t, id)
            expired = expired + 1
        elseif h[STATE] < RUNNING then
            expire(t, id, h)
            expired = expired + 1
        end
    end
    return expired
end

-- Recovers the jobs of workers whose lease is over.
local function reap(t, limit, reply)
    local done = 0
    for _, worker in ipairs(call('ZRANGEBYSCORE', t.k.leases, '-inf', t.now)) do
        if done >= limit then break end
        judge_dead(t, worker, worker_skills(t, worker) or NO_SKILLS)
        reply.dead[#reply.dead + 1] = worker
        -- One that signed off in an orderly way and had more than one step could give back is charged with nothing.
        local gone, failed = bury(t, worker, call('HGET', t.p .. 'worker:' .. worker, 'left') ~= '1', limit - done)
        reply.quarantined, reply.recovered = reply.quarantined + failed, reply.recovered + gone - failed
        done = done + gone
    end
    if #reply.dead > 0 then shortest_lease(t) end
    return done
end

local function park_group(t, group, queue, task, version, limit)
    local parked, declared = 0, tonumber(call('HGET', t.k.asides, group)) or 0
    for _, id in ipairs(call('ZRANGE', t.p .. 'aside:' .. group, 0, CHUNK - 1)) do
        local h = row(t, id)
        local since = h and max(h[ASIDE_AT], declared)
        if is_lost(h) then
            rem(t, 'aside:' .. group, id)
            mend(t, id, queue, READY)
        elseif parked < limit and since <= t.now - t.settings.unknown_after then
            unplace(t, id, h)
            local waited = floor((t.now - since) / 1000)
            h[ERROR], h[FINGERPRINT] = fill(LIBRARY.errors.unknown, { task = task, version = version, seconds = waited }), 'unknown-task'
            finish(t, id, h, FAILED, 'unknown task', '')
            job_news(t, 'failed', '', id, h, reason_data('unknown task'))
            parked = parked + 1
        end
    end
    return parked
end

-- Dead-letters what no live worker has declared for long enough.
local function park(t, limit)
    local parked = 0
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue, task, version = string.match(group, '^(.-)\n(.-)\n(.*)$')
        if not is_declared(t, queue, task, tonumber(version)) then parked = parked + park_group(t, group, queue, task, version, limit - parked) end
        flush(t)
        if call('EXISTS', t.p .. 'aside:' .. group) == 0 then call('HDEL', t.k.asides, group) end
    end
    return parked
end

local function prune_all(t, limit)
    local pruned = 0
    for _, bucket in ipairs(call('SMEMBERS', t.k.buckets)) do
        if pruned < limit then pruned = pruned + prune(t, bucket, limit - pruned) end
        if call('EXISTS', t.p .. 'bucket:' .. bucket) == 0 then call('SREM', t.k.buckets, bucket) end
    end
    return pruned
end

local SPARSE_LISTS = 5

local function sweep(keys, args)
    local t, limit = begin(keys, args), min(tonumber(args[3]), CHUNK)
    local reply = { dead = {}, quarantined = 0, recovered = 0 }
    restore_workers(t)
    recover_strays(t)
    local expired = expire_due(t, limit)
    flush(t)
    local left = limit - expired
    local waiting, promoted = {}, 0
    if left > 0 then waiting, promoted = promote(t, left) end
    if t.gates or t.lanes then gates.open_due(t) end
    for queue, jobs in pairs(waiting) do wake(t, queue, jobs) end
    left = left - promoted
    if left > 0 then left = left - reap(t, left, reply) end
    flush(t)
    local parked = left > 0 and park(t, left) or 0
    left = left - parked
    flush(t)
    graphs.drop_stale(t)
    local repaired = graphs.audit_due(t)
    graphs.work(t)
    graphs.wake(t)
    flush(t)
    tell_ended(t)
    local pruned = left > 0 and prune_all(t, left) or 0
    left = left - pruned
    for _, k in ipairs(call('SPOP', t.k.sparse, SPARSE_LISTS)) do thin(t, k) end
    if left > 0 then left = left - flow.fade(t, left) end
    if left > 0 then left = left - flow.prune_logs(t, left) end
    local late = tonumber(call('ZRANGE', t.k.pruning, 0, 0, 'WITHSCORES')[2])
    local rows = gates.all(t)
    if next(rows) then gates.forget(t, rows, rows) end
    close_step(t)
    graphs.wake_any(t)
    local more = left <= 0 or (late ~= nil and late <= t.now)
    return pack({ promoted, reply.recovered, reply.quarantined, expired, parked, pruned, reply.dead, more, next_check(t), repaired })
end

register('sweep', sweep, 'allow-oom')
