-- Gates: limits with a name, what is counted at them, and when they let something through.
--
-- gates            hash name -> MessagePack [version, declared, tuned, closed until, note]; declared and tuned as core/limits.py packs them
-- tallies          hash name -> '>I4I7B': units held, the rate's theoretical arrival in microseconds, whether lanes wait (of a key's gate)
-- waits:<gate>     set of the queues of which lanes wait there; waits:<gate>\n<queue>: sorted set of these lanes, by turn. The keys of a
--                  queue share waits:key:<queue>
-- openings         sorted set by instant: 'g' gate; 'a' gate: all that wait there may go; 'l' queue, line feed, lane: waits for a number
-- fading           sorted set by instant of what is forgotten then, see terms.lua
--
-- The field `gates` of `meta` names the content of all gates that limit anything: without it there are none, and nobody looks here.
-- A key's gate is called key:<queue>, line feed, <key>.
do
    local seen, known = {}, 0

    local function over(tuned, declared, place)
        if tuned[place] ~= nil then return tuned[place] end
        return declared[place]
    end

    local function decode(packed)
        local g = cmsgpack.unpack(packed)
        local declared = g[2] ~= '' and cmsgpack.unpack(g[2]) or {}
        local tuned = g[3] ~= '' and cmsgpack.unpack(g[3]) or {}
        local rate, key_rate = over(tuned, declared, 2), over(tuned, declared, 4)
        local row = {
            version = g[1], declared = g[2], tuned = g[3], closed = g[4], note = g[5],
            limit = over(tuned, declared, 1) or 0, every = rate and rate[1] or 0, burst = rate and rate[2] or 0,
            key_limit = over(tuned, declared, 3), key_every = key_rate and key_rate[1], key_burst = key_rate and key_rate[2],
            max_ready = over(tuned, declared, 5), paused = over(tuned, declared, 6) or false, draining = over(tuned, declared, 7) or false,
        }
        local _ = row.version + row.closed + row.limit + row.every + row.burst
        row.narrow = row.limit > 0 or row.every > 0 or row.paused
        row.says = row.narrow or row.closed > 0 or row.key_limit ~= nil or row.key_every ~= nil or row.max_ready ~= nil or row.draining
        return row
    end

    function gates.row(packed)
        local fine, row = pcall(decode, packed)
        return fine and row or nil
    end

    function gates.all(t)
        local rows, packed = {}, call('HGETALL', t.k.gates)
        for i = 1, #packed, 2 do rows[packed[i]] = gates.row(packed[i + 1]) end
        return rows
    end

    -- The gates that limit anything, by name. They are decoded once for each content.
    function gates.known(t, stamp)
        local found = seen[t.p]
        if not found or found.stamp ~= stamp then
            found = { stamp = stamp, rows = {} }
            for name, row in pairs(gates.all(t)) do
                if row.says then found.rows[name] = row end
            end
            known = known + (seen[t.p] and 0 or 1)
            if known > 1000 then seen, known = {}, 1 end
            seen[t.p] = found
        end
        return found.rows
    end

    -- Names the content of all gates that limit anything; what nobody looks at does not count.
    function gates.stamp(t, rows)
        local parts = {}
        for name, gate in pairs(rows) do
            if gate.says then parts[#parts + 1] = name .. '\n' .. gate.declared .. '\n' .. gate.tuned .. '\n' .. format('%d', gate.closed) end
        end
        t.gates = nil
        if #parts == 0 then return call('HDEL', t.meta, 'gates') end
        table.sort(parts)
        local mark = redis.sha1hex(concat(parts, '\n\n'))
        call('HSET', t.meta, 'gates', mark)
        t.gates = gates.known(t, mark)
    end

    -- Gates that have nothing to say are forgotten, all or some of them.
    function gates.forget(t, rows, names)
        local gone = {}
        for name in pairs(names) do
            local gate = rows[name]
            local silent = gate and gate.declared == '' and gate.tuned == '' and gate.closed <= t.now and gate.note == ''
            if silent and gates.tally(t, name)[2] <= t.now * 1000 and call('EXISTS', t.p .. 'waits:' .. name) == 0 then gone[#gone + 1] = name end
        end
        if #gone == 0 then return end
        call_many('HDEL', t.k.gates, gone)
        for _, name in ipairs(gone) do rows[name] = nil end
        gates.stamp(t, rows)
    end

    -- Tasks whose jobs have a lane for themselves because of a gate.
    function gates.is_gated(t, task)
        local row = t.gates['task:' .. task]
        return row and (row.narrow or row.closed > t.now) or false
    end

    function gates.of_key(queue, key) return 'key:' .. queue .. '\n' .. key end

    -- The same for a job's terms, which remember it: they are asked for it several times.
    local function key_gate(queue, terms)
        if terms.gate_queue ~= queue then terms.gate_queue, terms.gate = queue, gates.of_key(queue, terms.key) end
        return terms.gate
    end

    gates.of_terms = key_gate

    -- ---- what is counted

    local function read_tally(packed)
        if not packed or #packed ~= 12 then return { 0, 0, 0 } end
        local held, tat, waits = struct.unpack('>I4I7B', packed)
        return { held, tat, waits }
    end

    function gates.tally(t, name)
        local one = t.tallies[name]
        if not one then
            one = read_tally(call('HGET', t.k.tallies, name))
            t.tallies[name] = one
        end
        return one
    end

    function gates.load(t, names)
        local missing = {}
        for _, name in ipairs(names) do
            if not t.tallies[name] then missing[#missing + 1], t.tallies[name] = name, false end
        end
        for i, packed in ipairs(call_many('HMGET', t.k.tallies, missing)) do t.tallies[missing[i]] = read_tally(packed) end
    end

    function gates.write(t)
        local kept, gone, now = {}, {}, t.now * 1000
        for name, one in pairs(t.tallies) do
            if one.dirty then
                if one[1] <= 0 and one[2] <= now and one[3] == 0 then
                    gone[#gone + 1] = name
                else
                    kept[#kept + 1] = name
                    kept[#kept + 1] = struct.pack('>I4I7B', max(0, one[1]), one[2], one[3])
                    if one[1] <= 0 and one[3] == 0 then call('ZADD', t.k.fading, format('%d', math.ceil(one[2] / 1000)), 'g' .. name) end
                end
                one.dirty = nil
            end
        end
        call_many('HSET', t.k.tallies, kept)
        call_many('HDEL', t.k.tallies, gone)
    end

    local function closed_by(t, name, limit, every, burst, units)
        if limit <= 0 and every <= 0 then return false end
        local tally = gates.tally(t, name)
        if limit > 0 and tally[1] > 0 and tally[1] + units > limit then return true, nil end
        if every > 0 then
            local now = t.now * 1000
            local opens = max(tally[2], now) + units * every - max(burst, units) * every
            if opens > now then return true, math.ceil(opens / 1000) end
        end
        return false
    end

    -- Whether a named gate is closed for so many units; and when time opens it.
    local function is_closed(t, name, units)
        local row = t.gates[name]
        if not row then return false end
        if row.paused then return true, nil end
        if row.closed > t.now then return true, row.closed end
        return closed_by(t, name, row.limit, row.every, row.burst, units)
    end

    -- How many units a named gate lets through now; where it is none, when time opens it.
    function gates.room(t, name)
        local row = t.gates and t.gates[name]
        if not row then return 1 / 0 end
        local closed, opens = is_closed(t, name, 1)
        if closed then return 0, opens end
        local room, tally = 1 / 0, gates.tally(t, name)
        if row.limit > 0 then room = max(1, row.limit - tally[1]) end
        if row.every > 0 then room = min(room, floor(row.burst - (max(tally[2], t.now * 1000) - t.now * 1000) / row.every)) end
        return max(1, room)
    end

    -- What holds for the keys of a queue: the limit, and the rate's interval and burst.
    local function for_key(t, queue, terms)
        local row = t.gates and t.gates['queue:' .. queue]
        local limit, every, burst = terms.key_limit, terms.every, terms.burst
        if row and row.key_limit ~= nil then limit = row.key_limit end
        if row and row.key_every then every, burst = row.key_every, row.key_burst end
        return limit, every, burst
    end

    -- The first closed gate of a job, nil if all are open, and when time opens it. `lane`: of those that its lane can wait at, which its
    -- queue's is not.
    function gates.first_closed(t, queue, task, terms, lane)
        local units = terms and terms.units or 1
        if t.gates then
            local closed, opens
            if not lane then
                closed, opens = is_closed(t, 'queue:' .. queue, units)
                if closed then return 'queue:' .. queue, opens end
            end
            closed, opens = is_closed(t, 'task:' .. task, units)
            if closed then return 'task:' .. task, opens end
            if terms and terms.breaker ~= '' then
                closed, opens = is_closed(t, 'breaker:' .. terms.breaker, units)
                if closed then return 'breaker:' .. terms.breaker, opens end
            end
        end
        if terms and terms.key ~= '' then
            local name, limit, every, burst = key_gate(queue, terms), for_key(t, queue, terms)
            local closed, opens = closed_by(t, name, limit, every, burst, units)
            if closed then return name, opens end
        end
        return nil
    end

    local function charge(t, name, every, units)
        local tally = gates.tally(t, name)
        tally[1], tally.dirty = tally[1] + units, true
        if every > 0 then tally[2] = max(tally[2], t.now * 1000) + units * every end
    end

    local function charge_named(t, name, units)
        local row = t.gates[name]
        if not row or (row.limit <= 0 and row.every <= 0) then return end
        local tally = gates.tally(t, name)
        tally.dirty = true
        if row.limit > 0 then tally[1] = tally[1] + units end
        if row.every > 0 then tally[2] = max(tally[2], t.now * 1000) + units * row.every end
    end

    -- A job starts: it is charged to all its gates. `jobs`: so many alike that have no terms.
    function gates.charge(t, queue, task, terms, jobs)
        local units = terms and terms.units or jobs or 1
        if t.gates then
            charge_named(t, 'queue:' .. queue, units)
            if task then charge_named(t, 'task:' .. task, units) end
            if terms and terms.breaker ~= '' then charge_named(t, 'breaker:' .. terms.breaker, units) end
        end
        if terms and terms.key ~= '' then
            local _, every = for_key(t, queue, terms)
            charge(t, key_gate(queue, terms), every, units)
        end
    end

    local function discharge_named(t, name, units)
        local row = t.gates[name]
        if not row or row.limit <= 0 then return end
        local tally, freed = gates.tally(t, name), t.freed[name] or 0
        tally[1], tally.dirty = max(0, tally[1] - units), true
        t.freed[name] = type(freed) == 'number' and freed + units or freed
    end

    -- A job runs no more: what it held is free.
    function gates.discharge(t, queue, task, terms)
        local units = terms and terms.units or 1
        if t.gates then
            discharge_named(t, 'queue:' .. queue, units)
            discharge_named(t, 'task:' .. task, units)
            if terms and terms.breaker ~= '' then discharge_named(t, 'breaker:' .. terms.breaker, units) end
        end
        if terms and terms.key ~= '' then
            local name = key_gate(queue, terms)
            local tally = gates.tally(t, name)
            tally[1], tally.dirty = max(0, tally[1] - units), true
            if tally[3] == 1 then t.freed[name] = true end
        end
    end

    -- What the running jobs hold at these gates, or with nil at all that count: from the jobs themselves.
    function gates.count(t, wanted)
        local sums = {}
        local function note(name, units)
            if not wanted or wanted[name] then sums[name] = (sums[name] or 0) + units end
        end
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            for _, id in ipairs(load_held(t, worker)) do
                local h = t.rows[id]
                if h and h[STATE] == RUNNING then
                    local terms = flow.terms(h)
                    local units = terms and terms.units or 1
                    note('queue:' .. h[QUEUE], units)
                    note('task:' .. h[TASK], units)
                    if terms and terms.breaker ~= '' then note('breaker:' .. terms.breaker, units) end
                    if terms and terms.key ~= '' then note(gates.of_key(h[QUEUE], terms.key), units) end
                end
            end
        end
        return sums
    end

    -- All anew: a running job was lost, and nobody knows what it held.
    function gates.recount(t)
        t.recount = nil
        local sums, known_ones = gates.count(t), call('HKEYS', t.k.tallies)
        gates.load(t, known_ones)
        for name, tally in pairs(t.tallies) do
            local held = sums[name] or 0
            if tally[1] ~= held then tally[1], tally.dirty, t.freed[name] = held, true, true end
        end
    end

    -- ---- opening

    -- Something waits for time to open a gate. Whoever is to ring then must hear of it; who claims is answered it.
    function gates.rings(t, member, at)
        if not t.claiming then t.due_before = t.due_before or next_due(t) end
        call('ZADD', t.k.openings, 'LT', format('%d', at), member)
    end

    function gates.waits(name, queue) return sub(name, 1, 4) == 'key:' and 'waits:key:' .. queue or 'waits:' .. name end

    -- How many lanes wait at a gate.
    function gates.waiting(t, name)
        local waiting = 0
        for _, queue in ipairs(call('SMEMBERS', t.p .. 'waits:' .. name)) do
            waiting = waiting + call('ZCARD', t.p .. 'waits:' .. name .. '\n' .. queue)
        end
        return waiting
    end

    -- Lanes that wait at a gate are looked at again: as many as there are units to be had, or all; of each queue, for who works on one
    -- may know nothing of the others.
    local function let(t, name, all)
        local room, opens = gates.room(t, name)
        local key = t.p .. 'waits:' .. name
        local queues = call('SMEMBERS', key)
        if room <= 0 then
            if opens and #queues > 0 then gates.rings(t, 'g' .. name, opens) end
            return
        end
        local most, more = all and CHUNK or min(room, CHUNK), false
        for _, queue in ipairs(queues) do
            local names = call('ZRANGE', key .. '\n' .. queue, '0', format('%d', most))
            local last = min(#names, most)
            if last == 0 then call('SREM', key, queue) end
            for i = 1, last do lanes.look_again(t, queue, names[i], i == last and min(CHUNK, room - last + 1) or 1) end
            more = more or #names > most
        end
        if not more then return end
        local row = t.gates and t.gates[name]
        if all or room == 1 / 0 then
            gates.rings(t, 'a' .. (sub(name, 1, 4) == 'key:' and 'keys:' .. sub(name, 5) or name), t.now)
        elseif row and row.every > 0 then
            gates.rings(t, 'g' .. name, t.now + max(1, math.ceil(row.every / 1000)))
        end
    end

    local function open_one(t, name, how)
        local kind, of = string.match(name, '^(%l+):(.*)$')
        local all = how == 'all'
        if kind == 'queue' then
            t.opened[of] = (t.opened[of] or 0) + (type(how) == 'number' and how or CHUNK)
        elseif kind == 'key' then
            lanes.open_key(t, name, of)
        elseif kind == 'keys' then  -- all keys of a queue
            let(t, 'key:' .. of, true)
        else
            let(t, name, all)
        end
    end

    -- Whatever may let something through since the last time.
    function gates.open(t)
        local freed = t.freed
        t.freed = {}
        for name, how in pairs(freed) do open_one(t, name, how) end
    end

    -- Openings whose time has come.
    function gates.open_due(t)
        local due = call('ZRANGEBYSCORE', t.k.openings, '-inf', t.now, 'LIMIT', 0, CHUNK)
        call_many('ZREM', t.k.openings, due)
        for _, member in ipairs(due) do
            local kind, name = sub(member, 1, 1), sub(member, 2)
            if kind == 'l' then lanes.skip(t, name) else t.freed[name] = kind == 'a' and 'all' or t.freed[name] or true end
        end
    end

    -- A queue whose gate is closed by time rings when that is over, if it has anything to give.
    function gates.note_queue(t, queue)
        if not t.gates or not t.gates['queue:' .. queue] then return end
        local room, opens = gates.room(t, 'queue:' .. queue)
        if room <= 0 and opens and lanes.ready_in(t, queue) > 0 then gates.rings(t, 'gqueue:' .. queue, opens) end
    end

    -- A lane was let in, and waits at another of its gates now: those before that are for others.
    function gates.nudge_before(t, gate, task, terms)
        local kind = sub(gate, 1, 4)
        if kind ~= 'task' then gates.nudge(t, task, kind ~= 'brea' and terms or nil) end
    end

    -- A lane that was let in has not used what it was let in for: another one may.
    function gates.nudge(t, task, terms)
        if not t.gates then return end
        if t.gates['task:' .. task] then t.freed['task:' .. task] = t.freed['task:' .. task] or true end
        if terms and terms.breaker ~= '' and t.gates['breaker:' .. terms.breaker] then
            t.freed['breaker:' .. terms.breaker] = t.freed['breaker:' .. terms.breaker] or true
        end
    end
end
