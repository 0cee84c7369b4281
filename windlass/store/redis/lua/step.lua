-- A step: what one call to the library reads, changes and tells. Rows are read once and written once, at the end;
-- everything else that changes is collected likewise, so that a batch costs a few commands and not a few per job.
local begin, write_numbers
do
    local CALM = 7500
    -- [done, failed, unknown_after, events_kept, logs_kept, cluster, staged_for, audit_every]: the first two are prefixes of the default buckets
    local settings_of
    do
        local seen, known = {}, 0

        function settings_of(packed)
            local found = seen[packed]
            if not found then
                local s = cmsgpack.unpack(packed)
                found = {
                    done = s[1], failed = s[2], unknown_after = s[3], events_kept = s[4], logs_kept = s[5], cluster = s[6],
                    staged_for = s[7], audit_every = s[8],
                }
                known = known + 1
                if known > 100 then seen, known = {}, 1 end
                seen[packed] = found
            end
            return found
        end
    end

    local function server_time()
        local time = call('TIME')
        return time[1] * 1000 + floor(time[2] / 1000)
    end

    -- Everyone was paused, or the clock was set: nobody may be judged dead for not beating meanwhile.
    local function extend_leases(p, last, gap)
        for _, id in ipairs(call('ZRANGE', p .. 'workers', 0, -1)) do
            local w = call('HMGET', p .. 'worker:' .. id, 'until', 'lease', 'dead')
            if w[1] and w[3] ~= '1' and tonumber(w[1]) > last and gap > tonumber(w[2]) / 2 then
                call('HINCRBY', p .. 'worker:' .. id, 'until', gap)
                call('ZINCRBY', p .. 'leases', gap, id)
            end
        end
    end

    -- The last instant, what is added to the server's clock, the shortest lease, and how many jobs, ranks and events there were.
    -- In one field: they are read and written by every step. Before them stands the format that all keys of the app are in.
    local FORMAT = 5
    LIBRARY.format = FORMAT

    local function read_numbers(p, reading)
        local found = call('HMGET', p .. 'meta', 'numbers', 'followed', 'todos', 'gates', 'lanes', 'heeded')
        local packed = found[1]
        if not packed then
            -- Nothing was ever written, or the key was lost, for instance to an eviction: then no number may be given a second time.
            -- There are fewer ranks than jobs and ten for each event.
            local chunk, event = call('ZRANGE', p .. 'chunks', '-1', '-1')[1], call('XREVRANGE', p .. 'events', '+', '-', 'COUNT', '1')[1]
            local n, seen = chunk and (tonumber(chunk) + 1) * 1000 or 0, event and tonumber(string.match(event[1], '^%d+')) or 0
            found[2], found[3] = true, true
            if not reading then
                if call('EXISTS', p .. 'laned') == 1 then call('HSET', p .. 'meta', 'lanes', '1') end
                if call('EXISTS', p .. 'gates') == 1 then call('HSET', p .. 'meta', 'gates', 'lost') end
                found[4], found[5] = unpack(call('HMGET', p .. 'meta', 'gates', 'lanes'))
            end
            return 0, 0, 0, n, n + 10 * seen, seen, found
        end
        local of, last, shift, short, n, rank, seen = struct.unpack('>BI6I6I6I6I6I6', packed)
        if of ~= FORMAT then
            local newer = of > FORMAT
            local hint = newer and 'restart this process with the newer version' or 'start this process again, which brings over what the version before wrote'
            error({ err = (newer and 'OUTDATED' or 'WINDLASS') .. ' the keys are in format ' .. of .. ', and this version of Windlass reads format ' .. FORMAT .. ': ' .. hint })
        end
        return last, shift, short, n, rank, seen, found
    end

    function write_numbers(t)
        call('HSET', t.meta, 'numbers', struct.pack('>BI6I6I6I6I6I6', FORMAT, t.now, t.shift, t.short, t.n, t.rank, t.seen))
    end

    -- The store's clock: never backwards, forgiving of jumps. Reading steps leave it as it was.
    local function tick(t, host, reading)
        local now = host + t.shift
        t.gap = 0
        if now < t.last then
            t.shift = t.shift + t.last - now
            now = t.last
        else
            local gap = now - t.last
            if gap > CALM or (t.short > 0 and gap > t.short / 2) then
                local eaten = min(t.shift, gap)
                t.shift, now, gap = t.shift - eaten, now - eaten, gap - eaten
                t.gap = gap
                if gap > 0 and not reading then
                    extend_leases(t.p, t.last, gap)
                    t.now = now
                    write_numbers(t)  -- once, also if this step goes no further
                end
            end
        end
        t.now = now
    end

    -- The names of the keys that there is one of, put together once for each app.
    local keys_of
    do
        local names = {
            'jobs', 'heads', 'due', 'expiring', 'watched', 'followers', 'events', 'counts', 'live', 'chunks', 'asides', 'workers',
            'leases', 'progress', 'corrupt', 'buckets', 'failed', 'sparse', 'links', 'graphs', 'metas', 'workflows', 'working', 'staging', 'todos',
            'weights', 'gates', 'tallies', 'openings', 'fading', 'laned', 'turns', 'strict', 'uniques',
            'totals', 'faults', 'marks', 'passing', 'cancelled', 'skipped', 'recorded', 'pruning', 'cells',
        }
        local seen, known = {}, 0

        function keys_of(p)
            local found = seen[p]
            if not found then
                found = {}
                for _, name in ipairs(names) do found[name] = p .. name end
                known = known + 1
                if known > 1000 then seen, known = {}, 1 end
                seen[p] = found
            end
            return found
        end
    end

    -- keys[1]: `meta`, the one key that a call names; its name has the prefix of all others. args[1]: settings. args[2]: the instant, or ''
    -- for the server's own clock.
    function begin(keys, args, reading)
        borrow()
        local p, settings = sub(keys[1], 1, -5), settings_of(args[1])
        local last, shift, short, n, rank, seen, found = read_numbers(p, reading)
        -- While a slot moves, a cluster refuses every key that is not there, in the midst of a step that has written already. Asking
        -- for one that never is there lets such a step fail before it begins.
        if settings.cluster and not reading then call('EXISTS', p .. 'never') end
        local host = args[2] ~= '' and tonumber(args[2]) or server_time()
        local t = {
            p = p, k = keys_of(p), meta = keys[1], settings = settings,
            last = last > 0 and last or host, shift = shift, short = short, n = n, rank = rank, seen = seen, followed = found[2],
            rows = {}, dirty = {}, adds = {}, rems = {}, counts = {}, touched = {}, ended = {}, blocks = {}, told = {},
            stamped = {}, brief = {}, unheard = {}, came = {},
            graphs = {}, changed = {}, listed = {}, todos = {}, left = found[3], released = {}, asked = {}, weights = {},
            lanes = found[5], heeded = tonumber(found[6] or 0), tallies = {}, strict = {}, uniques = {}, marks = {}, marked = {},
            freed = {}, opened = {}, wakes = {}, faults = {},
        }
        if found[4] then t.gates = gates.known(t, found[4]) end
        tick(t, host, reading)
        return t
    end
end

-- LIBRARY.errors are those that the store itself gives, with @places@ to fill in; the client puts them above this library.
local function fill(template, values) return (string.gsub(template, '@(%w+)@', function(name)
    return (sub(cjson.encode(tostring(values[name])), 2, -2))  -- it goes between the quotes of a JSON text
end)) end

-- Gives a function its name on the server. `allow-oom`: what gives memory back, or only moves a job on, may run when the
-- server's memory is full; what takes a new job may not.
local function register(name, callback, ...)
    redis.register_function({ function_name = LIBRARY.name .. '_' .. name, callback = callback, flags = { ... } })
end
