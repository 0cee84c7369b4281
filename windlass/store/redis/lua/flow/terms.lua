-- Flow: the terms of a job, and what follows from them when it ends, goes, or leaves its worker.
--
-- Terms are kept as they came: MessagePack, the fields of core/terms.py in their order. In the head; of a job that came in with nothing
-- else unusual and needs none (it is not unique, not in order, does not age) behind its body, and while it runs in its stamp.
do
    -- What there is not at the end of terms is as usual. Most have a key and nothing else.
    local USUAL = {
        ordered = false, seq = 0, gap = 60000, key_limit = 0, every = 0, burst = 0, units = 1, breaker = '', batch = false, ageing = 0,
        unique = '', policy = 0, window = 0, most = 0, max_ready = 0, drop_oldest = false, strict = false, apart = false,
    }
    local AS_USUAL = { __index = USUAL }
    local NAMES = {
        'key', 'ordered', 'seq', 'gap', 'key_limit', 'rate', 'units', 'breaker', 'batch', 'ageing', 'unique', 'policy', 'window', 'most',
        'max_ready', 'drop_oldest',
    }

    local function decode(packed)
        local s = cmsgpack.unpack(packed)
        local terms = setmetatable({ key = s[1] }, AS_USUAL)
        if s[2] == nil and s[1] ~= '' then
            terms.lane = 'k' .. s[1]
            return terms
        end
        for i, name in ipairs(NAMES) do
            if s[i] ~= nil then terms[name] = s[i] end  -- a rate may be missing in the midst of them
        end
        if terms.rate then terms.every, terms.burst = terms.rate[1], terms.rate[2] end
        local _ = terms.seq + terms.gap + terms.key_limit + terms.every + terms.burst + terms.units + terms.ageing + terms.policy
            + terms.window + terms.most + terms.max_ready
        _ = terms.key .. terms.breaker .. terms.unique
        -- Its lane wherever it goes; else it has that of its task, if it has to stand apart or the task has a gate.
        if terms.seq > 0 then terms.lane = 's' .. terms.key elseif terms.key ~= '' then terms.lane = (terms.ordered and 'o' or 'k') .. terms.key end
        terms.strict = terms.lane ~= nil and sub(terms.lane, 1, 1) ~= 'k'
        terms.apart = terms.breaker ~= '' or terms.batch or terms.units > 1
        return terms
    end

    local seen, known = {}, 0

    -- Terms from their bytes, nil where they cannot be read.
    function flow.read(packed)
        local found = seen[packed]
        if found == nil then
            local fine, terms = pcall(decode, packed)
            found = fine and terms or false
            known = known + 1
            if known > 5000 then seen, known = {}, 1 end
            seen[packed] = found
        end
        return found or nil
    end

    -- The terms of a row, nil where it has none.
    function flow.terms(h) return h[TERMS] and flow.read(h[TERMS]) or nil end

    -- The terms of a job that may have no row: then they are in its body.
    function flow.of(h, packed)
        if h then return h[TERMS] and flow.read(h[TERMS]) or nil end
        return packed and flow.read(packed)
    end

    -- A job with terms is over, deleted, or goes to another queue: what it had is free. `moves`: it keeps its unique key.
    function flow.leave(t, id, h, moves)
        local terms = flow.terms(h)
        if not terms then return end
        if terms.strict then lanes.leave(t, h[QUEUE], id, terms) end
        if terms.unique ~= '' and not moves then unique.release(t, id, terms) end
    end

    -- A job whose record tells nothing any more: what it had is found by looking at all the others.
    function flow.lose(t, id, state)
        t.recount = state == RUNNING or t.recount
        lanes.lose(t, id)
        unique.lose(t, id)
    end

    -- Whatever this step freed or made ready is open now, and who could take it is woken.
    function flow.open(t)
        local any = false
        if t.recount then gates.recount(t) end
        for _ = 1, 100 do  -- a lane that finds another gate closed leaves the first one to others
            if next(t.freed) then gates.open(t) end
            if #t.marks == 0 then break end
            any = lanes.refresh(t) or any
        end
        return any
    end

    function flow.wake(t)
        if #t.wakes == 0 and not next(t.opened) then return end
        flush(t)
        lanes.wake(t)
        for queue, jobs in pairs(t.opened) do
            t.opened[queue] = nil
            wake(t, queue, lanes.claimable(t, queue, jobs))
            if t.gates and t.gates['queue:' .. queue] then lanes.wake_for_asides(t, queue) end
        end
    end

    -- At the end of a step.
    function flow.write(t)
        if next(t.tallies) then gates.write(t) end
        if next(t.strict) then lanes.write(t) end
        if next(t.uniques) then unique.write(t) end
    end

    -- What only time forgets: the sweep. Members of `fading` say what they are by their first letter: a gate, a lane, a unique key.
    local function fade_names(t, limit)
        local due = call('ZRANGEBYSCORE', t.k.fading, '-inf', t.now, 'LIMIT', 0, limit)
        for _, member in ipairs(due) do
            local kind, name = sub(member, 1, 1), sub(member, 2)
            call('ZREM', t.k.fading, member)
            if kind == 'g' then
                gates.tally(t, name).dirty = true
            elseif kind == 'l' then
                lanes.forget(t, name)
            elseif kind == 'u' then
                unique.forget(t, name)
            end
        end
        return #due
    end

    -- What something on a shelf is called among all that passes, see items/items.lua.
    function flow.passing_name(shelf, key) return struct.pack('>I2', #shelf) .. shelf .. key end

    local function fade_items(t, limit)
        local due = call('ZRANGEBYSCORE', t.k.passing, '-inf', t.now, 'LIMIT', 0, limit)
        for _, member in ipairs(due) do
            local size = struct.unpack('>I2', member)
            local shelf, key = sub(member, 3, 2 + size), sub(member, 3 + size)
            call('HDEL', t.p .. 'kept:' .. shelf, key)
            call('ZREM', t.p .. 'shelf:' .. shelf, key)
        end
        call_many('ZREM', t.k.passing, due)
        return #due
    end

    function flow.fade(t, limit)
        local gone = fade_names(t, limit)
        return gone < limit and gone + fade_items(t, limit - gone) or gone
    end
end
