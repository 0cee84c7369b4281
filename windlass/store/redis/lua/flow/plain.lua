-- Claiming from the plain order of a queue.
local claim_plain
do
    -- A job with a head, or that gets one, is granted, ends, or is set aside. `came_back`: it was set aside, and its gates are open.
    local function offer_headed(c, queue, id, h, raw, from, came_back)
        local t = c.t
        t.rows[id] = h
        if ends_instead(t, id, h) then
            c.turned_away = c.turned_away + 1
        elseif not takes(c.w.skills, queue, h[TASK], h[VERSION]) then
            set_aside(t, id, h)
            c.turned_away, c.asides = c.turned_away + 1, c.asides + 1
        else
            if came_back then  -- what was set aside comes back to all its gates
                gates.charge(t, queue, h[TASK], flow.terms(h))
                c.charged, c.now = c.charged + 1, c.now - 1
            end
            grant(c, id, h, raw, from)
        end
    end

    -- Offers jobs that are in no index any more, in their order: each is granted, ends, or is set aside. From the first that has to go
    -- into a lane on, all others go back to the plain order: that lane may come first. True then.
    local function offer(c, queue, ids, ranks)
        local t, skills = c.t, c.w.skills
        local before, bodies = c.granted, call_many('HMGET', t.k.jobs, ids)
        local heads, parted = heads_of(t, ids), false
        load_places(t, ids, heads)
        for i, id in ipairs(ids) do
            local raw = bodies[i]
            local from, task, version, came_to, _, packed, ends = read_body(raw)
            local h = t.rows[id] or (heads[i] and read_head(heads[i]))
            local terms = flow.of(h, packed)
            local lane = (t.gates or terms) and from and lanes.of(t, h and h[TASK] or task, terms) or ''
            local came_back = lane ~= '' and h and h[HOLD] == ASIDE and not parted and c.now > 0
                and not gates.first_closed(t, queue, h[TASK], terms)
            if lane ~= '' and not came_back and not (h and runs_alone(h)) then
                into_lane(t, id, h, queue, lane, ranks[i])
                parted, c.turned_away = true, c.turned_away + 1
            elseif parted then
                add(t, 'ready:' .. queue, ranks[i], id)
                if h and h[HOLD] ~= NOT_HELD then
                    h[HOLD], t.rows[id] = NOT_HELD, h
                    touch(t, id)
                end
            elseif not from or (heads[i] and not h) or (not h and not is_numbered(raw)) or not is_readable(h, queue, task, came_to, skills) then
                mend(t, id, queue, READY)
                c.turned_away = c.turned_away + 1
            elseif not h and takes(skills, queue, task, version) then
                grant_fresh(c, id, raw, from, task, queue, ranks[i], packed, ends)
            else
                h = h or fresh_head(raw, ranks[i])
                h[RANK] = ranks[i]
                offer_headed(c, queue, id, h, raw, from, came_back)
            end
        end
        count(t, queue, READY, before - c.granted)
        count(t, queue, RUNNING, c.granted - before)
        return parted
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

    -- Up to `take` jobs of one queue in ready order, merged with what was set aside by others and this worker declares. True if some
    -- of what was found has gone into lanes.
    function claim_plain(c, queue, take, special)
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
            if offer(c, queue, ids, ranks) then return true end
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
end
