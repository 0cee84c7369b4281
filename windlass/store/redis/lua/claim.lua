-- Claiming: one half of an exchange.
local new_claiming, claim, claim_part
do

    -- One exchange's search for jobs. `parts` becomes the reply, `held` what is written: ids and stamps.
    function new_claiming(t, w, seq, total)
        return {
            t = t, w = w, seq = seq, total = total, granted = 0, turned_away = 0, held = {}, parts = {}, started = {},
            emptied = {},
            -- What all jobs have in common that are claimed as they came in.
            stamp = struct.pack('>I6I6', t.now, seq), claim = '\1\1\207' .. struct.pack('>I8', seq) .. '\0\0\0\207\0\0',
        }
    end

    local function note_grant(c, id, task, queue, stamp)
        local place = 2 * c.granted
        c.granted = c.granted + 1
        c.held[place + 1], c.held[place + 2] = id, stamp
        c.started[place + 1], c.started[place + 2] = task, queue
    end

    local function grant_fresh(c, id, raw, from, task, queue, rank)
        note_grant(c, id, task, queue, sub(raw, 1, from) .. PADDING .. struct.pack('>d', rank) .. c.stamp)
        -- In pieces, which the client puts together: Lua would read through every text it makes.
        local parts, size = c.parts, #c.parts
        parts[size + 1], parts[size + 2], parts[size + 3] = '\159' .. text_head(#id), id, sub(raw, PREFIX + 1)
        parts[size + 4] = c.claim .. sub(raw, 6, PREFIX) .. '\192'
    end

    -- What a claim says of a job, its head being right where the body is out of date, and of what its graph brings to it.
    function claim_part(t, id, h, raw, from)
        local place = h[LINKS]
        local part = text(id) .. pack(h[TASK], h[VERSION], h[QUEUE], h[PRIORITY]) .. sub(raw, from + 1)
            .. pack(h[RUN], h[EPOCH], h[SEQ], h[ATTEMPT], h[CRASHES], h[SNOOZES], h[AT]) .. binary_or_nil(h[ERROR])
        if not place then return '\159' .. part end
        local given = place[L.SOURCE] ~= '' and graphs.result_at_hand(row(t, place[L.SOURCE]))
        return '\220\0\20' .. part .. text(place[L.GRAPH]) .. text(place[L.SOURCE]) .. char(place[L.INJECT]) .. binary_or_nil(given)
            .. text(place[L.AWAITS])
    end

    local function grant(c, id, h, raw, from)
        local t = c.t
        note_grant(c, id, h[TASK], h[QUEUE], '')
        h[STATE], h[EPOCH], h[SEQ], h[WORKER], h[STARTED] = RUNNING, h[EPOCH] + 1, c.seq, c.w.id, t.now
        h[HOLD] = NOT_HELD
        if h[EXPIRES] > 0 then rem(t, 'expiring', id) end
        touch(t, id)
        c.parts[#c.parts + 1] = claim_part(t, id, h, raw, from)
    end

    local function set_aside(t, id, h)
        h[HOLD], h[ASIDE_AT] = ASIDE, t.now
        local group = aside_group(h[QUEUE], h[TASK], h[VERSION])
        add(t, 'aside:' .. group, h[RANK], id)
        call('HSETNX', t.k.asides, group, 0)
        touch(t, id)
        -- Those who are idle are asked once if none of them declares it, not once for each of a thousand jobs.
        if not t.unheard[group] then
            t.unheard[group] = not wake(t, h[QUEUE], 1, function(skills) return takes(skills, h[QUEUE], h[TASK], h[VERSION]) end)
        end
    end

    -- Whether what a claim would say can be read by the worker: names that it declares are sound, others need a look.
    local function readable(h, queue, task, came_to, skills)
        if h then task, came_to = h[TASK], h[QUEUE] end
        return came_to == queue and (skills.tasks[task] ~= nil or is_text(task))
    end

    -- Reads at once what is needed of the graphs that some of these jobs are in.
    local function load_places(t, ids, heads)
        local owners, sources, seen = {}, {}, {}
        for i, id in ipairs(ids) do
            local h = t.rows[id] or (heads[i] and byte(heads[i], -1) ~= 194 and read_head(heads[i]))
            if h and h[LINKS] then
                t.rows[id] = h
                owners[#owners + 1] = h[LINKS][L.GRAPH]
                local source = h[LINKS][L.SOURCE]
                if source ~= '' and not seen[source] then seen[source], sources[#sources + 1] = true, source end
            end
        end
        if #owners > 0 then graphs.load(t, owners) end
        if #sources > 0 then load(t, sources) end
    end

    -- Their heads, without those of rows that this step has read or made before.
    local function heads_of(t, ids)
        if not next(t.rows) then return call_many('HMGET', t.k.heads, ids) end
        local missing, places, heads = {}, {}, {}
        for i, id in ipairs(ids) do
            if not t.rows[id] then missing[#missing + 1], places[#places + 1] = id, i end
        end
        for k, head in ipairs(call_many('HMGET', t.k.heads, missing)) do heads[places[k]] = head end
        return heads
    end

    -- Offers jobs that are in no index any more, in their order: each is granted, ends, or is set aside.
    local function offer(c, queue, ids, ranks)
        local t, skills = c.t, c.w.skills
        local before, bodies = c.granted, call_many('HMGET', t.k.jobs, ids)
        local heads = heads_of(t, ids)
        load_places(t, ids, heads)
        for i, id in ipairs(ids) do
            local raw = bodies[i]
            local from, task, version, came_to = read_body(raw)
            local h = t.rows[id] or (heads[i] and read_head(heads[i]))
            if not from or (heads[i] and not h) or (not h and not is_numbered(raw)) or not readable(h, queue, task, came_to, skills) then
                quarantine(t, id, queue, READY)
                c.turned_away = c.turned_away + 1
            elseif not h and takes(skills, queue, task, version) then
                grant_fresh(c, id, raw, from, task, queue, ranks[i])
            else
                h = h or fresh_head(raw, ranks[i])
                t.rows[id] = h
                h[RANK] = ranks[i]
                if h[EXPIRES] > 0 and h[EXPIRES] <= t.now then
                    h[HOLD] = NOT_HELD
                    expire(t, id, h)
                    c.turned_away = c.turned_away + 1
                elseif graphs.refuses(t, h) then
                    h[HOLD] = NOT_HELD
                    graphs.refuse(t, id, h)
                    c.turned_away = c.turned_away + 1
                elseif not takes(skills, queue, h[TASK], h[VERSION]) then
                    set_aside(t, id, h)
                    c.turned_away = c.turned_away + 1
                else
                    grant(c, id, h, raw, from)
                end
            end
        end
        count(t, queue, READY, before - c.granted)
        count(t, queue, RUNNING, c.granted - before)
    end

    -- The first jobs of several indexes by rank, taken out of them.
    local function pop_merged(t, keys, take)
        -- The head of each, in order; the index that gave one up comes back with its next. So there may be thousands of them.
        local heads, ids, ranks = {}, {}, {}
        local function head_of(key)
            local head = call('ZRANGE', t.p .. key, '0', '0', 'WITHSCORES')
            return head[1] and { head[1], tonumber(head[2]), key }
        end
        for _, key in ipairs(keys) do heads[#heads + 1] = head_of(key) end
        table.sort(heads, function(a, b) return a[2] > b[2] end)
        while #ids < take and #heads > 0 do
            local first = table.remove(heads)
            ids[#ids + 1], ranks[#ranks + 1] = first[1], first[2]
            call('ZREM', t.p .. first[3], first[1])
            local next_one = head_of(first[3])
            if next_one then
                local low, high = 1, #heads + 1  -- where it belongs, by halving
                while low < high do
                    local middle = floor((low + high) / 2)
                    if heads[middle][2] > next_one[2] then low = middle + 1 else high = middle end
                end
                table.insert(heads, low, next_one)
            end
        end
        return ids, ranks
    end

    local function pop(t, key, take)
        local popped = call('ZPOPMIN', t.p .. key, take)
        local ids, ranks = {}, {}
        for i = 1, #popped, 2 do
            ids[#ids + 1] = popped[i]
            ranks[#ranks + 1] = tonumber(popped[i + 1])
        end
        return ids, ranks
    end

    -- Up to `take` jobs of one queue in ready order, merged with what was set aside by others and this worker declares.
    local function claim_queue(c, queue, take, special)
        local t = c.t
        local asides = special and my_asides(t, c.w.skills, queue) or {}
        if #asides > 0 then asides[#asides + 1] = 'ready:' .. queue end
        while take > 0 do
            local ids, ranks
            if #asides == 0 then
                ids, ranks = pop(t, 'ready:' .. queue, take)
            else
                ids, ranks = pop_merged(t, asides, take)
            end
            if #ids == 0 then return end
            local before, all = c.granted, #ids < take
            offer(c, queue, ids, ranks)
            take = take - (c.granted - before)
            if all and #asides == 0 then
                c.emptied[queue] = true
                return
            end
            -- Bounded like every call; the worker is woken at once to go on.
            if c.turned_away >= CHUNK then
                c.more = true
                return
            end
        end
    end

    -- ---- jobs that run alone

    local function reserved_elsewhere(t, me, id)
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            if worker ~= me then
                local w = call('HMGET', t.p .. 'worker:' .. worker, 'reserved', 'dead', 'until')
                if w[1] == id and w[3] and w[2] ~= '1' and tonumber(w[3]) > t.now then return true end
            end
        end
        return false
    end

    -- The job this worker should take alone: one nobody else has reserved, or any at all if it is empty.
    local function first_solo(c, queues, busy)
        local t, w = c.t, c.w
        w.reserved = ''
        for _, queue in ipairs(queues) do
            local head = call('ZRANGE', t.p .. 'solo:' .. queue, 0, 0)
            local h = head[1] and row(t, head[1])
            while head[1] and (is_lost(h) or graphs.refuses(t, h)) do
                call('ZREM', t.p .. 'solo:' .. queue, head[1])
                if is_lost(h) then quarantine(t, head[1], queue, READY) else graphs.refuse(t, head[1], h) end
                head = call('ZRANGE', t.p .. 'solo:' .. queue, 0, 0)
                h = head[1] and row(t, head[1])
            end
            if h and takes(w.skills, queue, h[TASK], h[VERSION]) and not (h[EXPIRES] > 0 and h[EXPIRES] <= t.now) then
                if not busy or not reserved_elsewhere(t, w.id, head[1]) then
                    w.reserved = head[1]
                    return head[1], h
                end
            end
        end
        return nil
    end

    -- True when the worker must drain, false when a job was granted to run alone, nil when there is none for it.
    local function claim_solo(c, want)
        local t, w, queues = c.t, c.w, {}
        -- A worker that drains asks for nothing, and must not lose its reservation by that.
        if c.total > 0 then
            for i = 1, #want, 2 do
                if want[i + 1] > 0 then queues[#queues + 1] = want[i] end
            end
        else
            queues = w.skills.queues
        end
        local busy = call('EXISTS', t.p .. 'held:' .. w.id) == 1
        local id, h = first_solo(c, queues, busy)
        if not id then return nil end
        if busy then return true end
        if c.total <= 0 then return nil end
        call('ZREM', t.p .. 'solo:' .. h[QUEUE], id)
        local raw = call('HGET', t.k.jobs, id)
        local from = read_body(raw)
        if not from then
            quarantine(t, id, h[QUEUE], READY)
            return nil
        end
        w.reserved, w.alone = '', id
        grant(c, id, h, raw, from)
        count(t, h[QUEUE], READY, -1)
        count(t, h[QUEUE], RUNNING, 1)
        return false
    end

    -- Grants what there is; true when the worker must drain.
    function claim(c, want)
        local t, w = c.t, c.w
        if w.alone ~= '' then
            if call('HEXISTS', t.p .. 'held:' .. w.id, w.alone) == 1 then return true end
            w.alone = ''
        end
        local special = { t.k.asides }
        for _, queue in ipairs(w.skills.queues) do special[#special + 1] = t.p .. 'solo:' .. queue end
        special = call('EXISTS', unpack(special)) > 0
        if special then
            local drain = claim_solo(c, want)
            if drain ~= nil then return drain end
        else
            w.reserved = ''
        end
        for i = 1, #want, 2 do
            local take = min(want[i + 1], c.total - c.granted)
            if take > 0 and not c.more then claim_queue(c, want[i], take, special) end
        end
        return false
    end
end
