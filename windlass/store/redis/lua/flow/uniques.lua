-- Unique keys: of which there is only one job under way, besides a successor.
--
-- uniques  hash key -> MessagePack [holder, successor or '', held at least until]
do
    local KEEP, DEBOUNCE = 0, 2

    local function find(t, key)
        local u = t.uniques[key]
        if u == nil then
            local fine, said = pcall(cmsgpack.unpack, call('HGET', t.k.uniques, key) or '')
            u = fine and type(said) == 'table' and #said == 3 and said or false
            t.uniques[key] = u
        end
        return u
    end

    -- A key's row, nil where nobody has it: [holder, successor, until]; and the row of its holder where that is under way.
    function unique.held(t, key)
        local u = find(t, key)
        if not u then return nil end
        local h = row(t, u[1])
        local under_way = h and h[STATE] <= RUNNING and h
        if not under_way and u[3] <= t.now then return nil end
        return u, under_way
    end

    local function write_key(t, key, u)
        t.uniques[key] = u
        u.dirty = true
    end

    function unique.take(t, key, id, at, window) write_key(t, key, { id, '', window > 0 and at + window or 0 }) end

    function unique.write(t)
        local kept, gone = {}, {}
        for key, u in pairs(t.uniques) do
            if u and u.dirty then
                u.dirty = nil
                if u[1] == '' then
                    gone[#gone + 1] = key
                    t.uniques[key] = false
                else
                    kept[#kept + 1] = key
                    kept[#kept + 1] = pack({ u[1], u[2], u[3] })
                end
            end
        end
        call_many('HSET', t.k.uniques, kept)
        call_many('HDEL', t.k.uniques, gone)
    end

    -- The next one comes to a key.
    local function succeed(t, key, id)
        local h = row(t, id)
        local terms = h and flow.terms(h)
        if not terms or h[STATE] ~= WAITING then return false end
        unique.take(t, key, id, h[AT], terms.window)
        if h[DUE] > t.now then
            t.due_before = t.due_before or next_due(t)
            make_scheduled(t, id, h, h[DUE])
        else
            graphs.now_ready(t, id, h)
        end
        return true
    end

    local function let_go(t, key, u)
        if u[2] ~= '' and succeed(t, key, u[2]) then return end
        if u[3] > t.now then
            u[2], u.dirty = '', true
            call('ZADD', t.k.fading, u[3], 'u' .. key)
        else
            write_key(t, key, { '', '', 0 })
        end
    end

    -- A job is over or deleted.
    function unique.release(t, id, terms)
        local u = find(t, terms.unique)
        if not u then return end
        if u[2] == id then
            u[2], u.dirty = '', true
        elseif u[1] == id then
            let_go(t, terms.unique, u)
        end
    end

    function unique.forget(t, key)
        local u = find(t, key)
        if u and not unique.held(t, key) then let_go(t, key, u) end
    end

    -- A job was lost of which nobody knows the key.
    function unique.lose(t, id)
        local all = call('HGETALL', t.k.uniques)
        for i = 1, #all, 2 do
            local u = find(t, all[i])
            if u and (u[1] == id or u[2] == id) then unique.release(t, id, { unique = all[i] }) end
        end
    end

    -- ---- a call that finds its key held

    -- A job gets the arguments of a later call, and by DEBOUNCE its time. `fresh`: bodies as this batch has made them.
    local function replace(t, id, h, new, fresh)
        if h[TASK] ~= new.task then return 'X' .. "the unique key is held by job '" .. id .. "' of another task (" .. h[TASK] .. ')' end
        local raw = fresh[id] or call('HGET', t.k.jobs, id)
        raw = (raw and #raw >= PREFIX and sub(raw, 1, PREFIX) or struct.pack('>I5I6', h[N], h[AT])) .. new.parts
        fresh[id] = raw
        call('HSET', t.k.jobs, id, raw)
        local aside = h[STATE] == READY and h[HOLD] == ASIDE and h[VERSION] ~= new.version
        if aside then unplace(t, id, h) end
        h[VERSION], h[PRIORITY] = new.version, new.priority
        if aside then place_ready(t, id, h) end
        touch(t, id)
        job_news(t, 'replaced', '', id, h)
        if new.terms.policy ~= DEBOUNCE then return 'R' .. id end
        local due = max(new.due, t.now)
        if new.terms.most > 0 then due = min(due, h[AT] + new.terms.most) end
        if h[STATE] == WAITING and not h[LINKS] then
            h[DUE] = due
        elseif h[STATE] == SCHEDULED or (h[STATE] == READY and due > t.now) then
            unplace(t, id, h)
            if due > t.now then
                t.due_before = t.due_before or next_due(t)
                make_scheduled(t, id, h, due)
            else
                graphs.now_ready(t, id, h)
            end
        end
        return 'R' .. id
    end

    -- What becomes of a call with a unique key: nil if the key is free, 'successor' if it is to wait for its holder, else the answer.
    function unique.meet(t, new, fresh)
        local key, terms = new.terms.unique, new.terms
        local u, holder = unique.held(t, key)
        if not u then return nil end
        if terms.policy == KEEP or not holder then return '=' .. u[1] end
        local successor = u[2] ~= '' and row(t, u[2])
        if successor and successor[STATE] == WAITING then return replace(t, u[2], successor, new, fresh) end
        if holder[STATE] ~= RUNNING then return replace(t, u[1], holder, new, fresh) end
        if holder[TASK] ~= new.task then
            return 'X' .. "the unique key is held by job '" .. u[1] .. "' of another task (" .. holder[TASK] .. ')'
        end
        return 'successor'
    end

    function unique.follow(t, key, id)
        local u = find(t, key)
        u[2], u.dirty = id, true
    end
end
