-- Claiming: one half of an exchange.
local new_claiming, claim, claim_part
do
    -- A claim is an array of 23 values ('\220\0\23'): 15 of the job; five of its graph ('\160\160\0\192\160' where it is in none) and one
    -- that only its worker sets; when it was due, and when it was granted.

    -- One exchange's search for jobs. `parts` becomes the reply, `held` what is written: ids and stamps. `now`: so many of lanes and of
    -- limited queues may be granted.
    function new_claiming(t, w, seq, total, now)
        return {
            t = t, w = w, seq = seq, total = total, now = now < 0 and total or now,
            wanted = now < 0 and total or min(total, now), granted = 0, turned_away = 0, held = {}, parts = {},
            started = {}, emptied = {}, charged = 0, asides = 0, put_off = {},
            -- What all jobs have in common that are claimed as they came in.
            stamp = struct.pack('>I6I6', t.now, seq), claim = '\1\1\207' .. struct.pack('>I8', seq) .. '\0\0\0\207\0\0',
            last = '\192\160\160\0\192\160\192\0' .. struct.pack('>BI8', 207, t.now),
        }
    end

    local function note_grant(c, id, task, queue, stamp)
        local place = 2 * c.granted
        c.granted = c.granted + 1
        c.held[place + 1], c.held[place + 2] = id, stamp
        c.started[place + 1], c.started[place + 2] = task, queue
    end

    local function grant_fresh(c, id, raw, from, task, queue, rank, terms, ends)
        local start = sub(raw, 1, from)
        if terms then start = start .. sub(raw, ends + 1) end
        note_grant(c, id, task, queue, start .. PADDING .. struct.pack('>d', rank) .. c.stamp)
        -- In pieces, which the client puts together: Lua would read through every text it makes.
        local parts, size = c.parts, #c.parts
        parts[size + 1], parts[size + 2], parts[size + 3] = '\220\0\23' .. text_head(#id), id, sub(raw, PREFIX + 1, ends or -1)
        parts[size + 4] = c.claim .. sub(raw, 6, PREFIX) .. c.last
    end

    -- What a claim says of a job, its head being right where the body is out of date, and of what its graph brings to it.
    function claim_part(t, id, h, raw, from)
        local place, ends = h[LINKS], h[TERMS] and select(7, read_body(raw)) or -1
        local part = text(id) .. pack(h[TASK], h[VERSION], h[QUEUE], h[PRIORITY]) .. sub(raw, from + 1, ends)
            .. pack(h[RUN], h[EPOCH], h[SEQ], h[ATTEMPT], h[CRASHES], h[SNOOZES], h[AT]) .. binary_or_nil(h[ERROR])
        local times = struct.pack('>BBI8BI8', 192, 207, h[DUE], 207, h[STARTED])
        if not place then return '\220\0\23' .. part .. '\160\160\0\192\160' .. times end
        local given = place[L.SOURCE] ~= '' and graphs.result_at_hand(row(t, place[L.SOURCE]))
        return '\220\0\23' .. part .. text(place[L.GRAPH]) .. text(place[L.SOURCE]) .. char(place[L.INJECT]) .. binary_or_nil(given)
            .. text(place[L.AWAITS]) .. times
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

    -- A job that is to have a lane goes into it, in its place. It was in the plain order, or set aside, and in no index any more.
    local function into_lane(t, id, h, queue, lane, rank)
        if not h then return lanes.join_fresh(t, id, queue, lane, rank, true) end
        t.rows[id] = h
        if h[RANK] == 0 then h[RANK] = rank end
        lanes.join(t, id, h, lane, true)
        touch(t, id)
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
                and not gates.first_shut(t, queue, h[TASK], terms)
            if lane ~= '' and not came_back and not (h and runs_alone(h)) then
                into_lane(t, id, h, queue, lane, ranks[i])
                parted, c.turned_away = true, c.turned_away + 1
            elseif parted then
                add(t, 'ready:' .. queue, ranks[i], id)
                if h and h[HOLD] ~= NOT_HELD then
                    h[HOLD], t.rows[id] = NOT_HELD, h
                    touch(t, id)
                end
            elseif not from or (heads[i] and not h) or (not h and not is_numbered(raw)) or not readable(h, queue, task, came_to, skills) then
                quarantine(t, id, queue, READY)
                c.turned_away = c.turned_away + 1
            elseif not h and takes(skills, queue, task, version) then
                grant_fresh(c, id, raw, from, task, queue, ranks[i], packed, ends)
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
                    c.turned_away, c.asides = c.turned_away + 1, c.asides + 1
                else
                    if came_back then  -- what was set aside comes back to all its gates
                        gates.charge(t, queue, h[TASK], flow.terms(h))
                        c.charged, c.now = c.charged + 1, c.now - 1
                    end
                    grant(c, id, h, raw, from)
                end
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
    local function claim_plain(c, queue, take, special)
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

    -- ---- taking turns

    -- Lanes of one queue while a claim takes turns among them: those not seen yet come from `lanes:<queue>` in pages, those that have
    -- given a job go behind all others of their band. Nothing of this is written before its end.
    local PAGE, MOVED = 300, 250

    local function new_lane(t, queue, name, score)
        return {
            name = name, key = t.p .. (name == '' and 'ready:' .. queue or 'lane:' .. queue .. '\n' .. name), score = score, was = score,
            strict = name ~= '' and (byte(name, 1) == 111 or byte(name, 1) == 115), at = 1, ids = {}, ranks = {}, taken = {}, gone = {},
        }
    end

    -- Reads more of the plain order and of what was set aside by others and this worker declares, by rank.
    local function read_merged(t, lane, size)
        local found = {}
        for _, key in ipairs(lane.keys) do
            local from = lane.read[key] or 0
            local some = call('ZRANGE', t.p .. key, format('%d', from), format('%d', from + size), 'WITHSCORES')
            for i = 1, #some, 2 do found[#found + 1] = { some[i], tonumber(some[i + 1]), key } end
        end
        table.sort(found, function(a, b) return a[2] < b[2] end)
        lane.all = #found < size + 1
        for i = 1, min(#found, size + 1) do
            local id, rank, key = unpack(found[i])
            lane.ids[#lane.ids + 1], lane.ranks[#lane.ranks + 1] = id, rank
            lane.read[key], lane.of[id] = (lane.read[key] or 0) + 1, key
        end
    end

    -- Reads more of a lane's jobs, `size` of them and one more, to know what comes behind them.
    local function read_more(o, t, lane, size)
        if lane.keys then return read_merged(t, lane, size) end
        local from = #lane.ids
        local found = call('ZRANGE', lane.key, format('%d', from), format('%d', from + size), 'WITHSCORES')
        lane.all = #found < 2 * (size + 1)
        for i = 1, #found, 2 do
            lane.ids[#lane.ids + 1], lane.ranks[#lane.ranks + 1] = found[i], tonumber(found[i + 1])
        end
    end

    -- Reads the records of jobs that are soon looked at.
    local function fetch(o, t, ids)
        local bodies, heads = call_many('HMGET', t.k.jobs, ids), heads_of(t, ids)
        load_places(t, ids, heads)
        local keys = {}
        for i, id in ipairs(ids) do
            local h = t.rows[id]
            if not h and heads[i] then
                h = read_head(heads[i])
                if h then t.rows[id] = h else o.damaged[id] = true end
            end
            o.bodies[id] = bodies[i] or ''
            local terms = h and flow.terms(h)
            if terms and terms.key ~= '' then keys[#keys + 1] = gates.of_terms(o.queue, terms) end
        end
        if #keys > 0 then gates.load(t, keys) end
    end

    local function next_page(o, t)
        local found = call('ZRANGE', t.p .. 'lanes:' .. o.queue, format('%d', o.from), format('%d', o.from + o.size - 1), 'WITHSCORES')
        local ids, keys = {}, {}
        o.page, o.at, o.from = {}, 1, o.from + #found / 2
        for i = 1, #found, 2 do
            local lane = new_lane(t, o.queue, found[i], tonumber(found[i + 1]))
            read_more(o, t, lane, o.per)
            if byte(lane.name, 1) == 107 then keys[#keys + 1] = gates.of_key(o.queue, sub(lane.name, 2)) end
            for k = 1, min(o.per, #lane.ids) do ids[#ids + 1] = lane.ids[k] end
            o.page[#o.page + 1], o.seen[#o.seen + 1] = lane, lane
        end
        if #keys > 0 then gates.load(t, keys) end
        fetch(o, t, ids)
    end

    local function new_order(c, queue, take, special)
        local t = c.t
        local open = call('ZCARD', t.p .. 'lanes:' .. queue)
        local o = {
            queue = queue, open = open, from = 0, size = min(take, PAGE), per = math.ceil(take / max(1, open)), page = {}, at = 1,
            back = {}, seen = {}, bodies = {}, damaged = {},
        }
        for band = 0, 9 do o.back[band] = { first = 1, last = 0 } end
        local plain = new_lane(t, queue, '', 0)
        plain.keys, plain.read, plain.of = special and my_asides(t, c.w.skills, queue) or {}, {}, {}
        table.insert(plain.keys, 'ready:' .. queue)
        read_more(o, t, plain, o.per)
        if plain.ids[1] and not c.put_off[queue] then
            plain.score = floor(plain.ranks[1] / BAND) * BAND + tonumber(call('HGET', t.k.turns, queue) or 0)
            plain.was, o.plain, o.seen[1] = plain.score, plain, plain
        end
        return o
    end

    -- The lane whose turn it is; nil when there is none but the plain order.
    local function next_lane(o, t)
        if not o.page[o.at] and o.from < o.open then next_page(o, t) end
        local best, from = o.page[o.at], 'page'
        for band = 0, 9 do
            local list = o.back[band]
            local lane = list[list.first]
            if lane then
                if not best or lane.score < best.score then best, from = lane, list end
                break
            end
        end
        if not best then return nil end
        if o.plain and o.plain.score < best.score then
            local plain = o.plain
            o.plain = nil
            return plain
        end
        if from == 'page' then o.at = o.at + 1 else from[from.first], from.first = nil, from.first + 1 end
        return best
    end

    -- The job at the head of a lane, nil where it is empty.
    local function head_of_lane(o, t, lane)
        while true do
            local id = lane.ids[lane.at]
            if not id then
                if lane.all then return nil end
                read_more(o, t, lane, max(10, o.per))
            elseif lane.taken[id] then
                lane.at = lane.at + 1
            else
                local rank = lane.ranks[lane.at]
                if lane.strict and not lane.looked then
                    lane.looked = true
                    id, rank = lanes.head(t, o.queue, lane.name, id, rank)
                    if not id then  -- the one before it was turned away, and it has to wait for another now
                        lanes.changed(t, o.queue, lane.name)
                        lane.shut = true
                        return nil
                    end
                end
                return id, rank
            end
        end
    end

    -- Makes sure of the records of a lane's head and of those that may be looked at next.
    local function fetch_head(o, t, lane, id)
        if o.bodies[id] ~= nil then return end
        local ids = { id }
        for k = lane.at + 1, min(#lane.ids - 1, lane.at + o.per - 1) do ids[#ids + 1] = lane.ids[k] end
        fetch(o, t, ids)
    end

    local function take_out(lane, id)
        lane.taken[id], lane.gone[#lane.gone + 1], lane.looked = true, id, nil
    end

    local function turn_away(c, lane, id)
        take_out(lane, id)
        c.turned_away = c.turned_away + 1
    end

    -- What becomes of the job at a lane's head: 'granted', 'gone' (the next one may have its turn), 'aside' (set aside, which takes a
    -- turn), 'had' (it has the lane and does not run yet), 'laned' (it goes into another lane), or the gate that is closed for it and when that opens.
    local function look(c, o, lane, id, rank)
        local t, queue, skills = c.t, o.queue, c.w.skills
        local raw, h = o.bodies[id], t.rows[id] or nil
        local from, task, version, came_to, _, packed, ends = read_body(raw)
        if not from or o.damaged[id] or (not h and not is_numbered(raw)) or not readable(h, queue, task, came_to, skills) then
            turn_away(c, lane, id)
            quarantine(t, id, queue, READY)
            return 'gone'
        end
        local terms = flow.of(h, packed)
        if h then task, version = h[TASK], h[VERSION] end
        local own = lane.name == '' and lanes.of(t, task, terms) or ''
        if own ~= '' and not (h and h[HOLD] == ASIDE and not gates.first_shut(t, queue, task, terms)) then
            turn_away(c, lane, id)
            into_lane(t, id, h, queue, own, rank)
            return 'laned'
        end
        if t.gates or terms then
            local gate, opens = gates.first_shut(t, queue, task, terms)
            if gate then return gate, opens, task, terms end
        end
        if h and h[EXPIRES] > 0 and h[EXPIRES] <= t.now then
            turn_away(c, lane, id)
            h[HOLD] = NOT_HELD
            expire(t, id, h)
            return 'gone'
        elseif h and graphs.refuses(t, h) then
            turn_away(c, lane, id)
            h[HOLD] = NOT_HELD
            graphs.refuse(t, id, h)
            return 'gone'
        end
        if not takes(skills, queue, task, version) then
            turn_away(c, lane, id)
            h = h or fresh_head(raw, rank)
            t.rows[id] = h
            set_aside(t, id, h)
            return lane.strict and 'had' or 'aside'
        end
        if h and runs_alone(h) then
            turn_away(c, lane, id)
            lanes.alone(t, id, h)
            c.solo = true
            return lane.strict and 'had' or 'gone'
        end
        if t.gates or terms then gates.charge(t, queue, task, terms) end
        take_out(lane, id)
        o.apart = own ~= ''
        if h then grant(c, id, h, raw, from) else grant_fresh(c, id, raw, from, task, queue, rank, packed, ends) end
        return 'granted'
    end

    -- Where a lane stands behind its turn.
    local function go_behind(o, t, lane)
        local id, rank = head_of_lane(o, t, lane)
        t.rank = t.rank + 1
        local band = id and floor(rank / BAND) or 0
        lane.score = band * BAND + t.rank
        if not id then
            lane.empty = true  -- it is not strict: those give one
        elseif lane.name == '' then
            o.plain = lane
        else
            local list = o.back[band]
            list.last = list.last + 1
            list[list.last] = lane
        end
    end

    -- A job has a strict lane, which goes behind all others.
    local function have(t, queue, lane, id)
        lanes.have(t, queue, lane.name, id)
        t.rank = t.rank + 1
        lane.had, lane.score = true, 4 * BAND + t.rank
    end

    -- One lane's turn: true if it gave a job. What is done is written down in the lane and comes into the indexes at the end.
    local function turn(c, o, lane)
        local t, queue = c.t, o.queue
        while c.turned_away < CHUNK do
            local id, rank = head_of_lane(o, t, lane)
            if not id then
                lane.empty = not lane.shut
                return false
            end
            fetch_head(o, t, lane, id)
            local what, opens, task, terms = look(c, o, lane, id, rank)
            if what == 'granted' then
                if lane.strict then
                    have(t, queue, lane, id)
                else
                    go_behind(o, t, lane)
                end
                return true
            elseif what == 'had' then
                have(t, queue, lane, id)
                return false
            elseif what == 'laned' then
                -- Many in a row are moved at once. With very many the lanes have their turns first, and the rest is for the next exchange.
                o.parted = (o.parted or 0) + 1
                if o.parted == MOVED then
                    c.put_off[queue] = true
                    return false
                end
            elseif what == 'aside' then
                if t.gates then gates.nudge(t, t.rows[id][TASK], flow.terms(t.rows[id])) end
                go_behind(o, t, lane)
                return false
            elseif what ~= 'gone' then
                if what == 'queue:' .. queue then
                    o.left = true
                    if opens then gates.rings(t, 'g' .. what, opens) end  -- to this one, which may weigh more than others
                else
                    c.turned_away = c.turned_away + 1
                    lane.waits = true
                    lanes.wait_at(t, queue, lane.name, what, opens, id, rank, lane.score % BAND)
                    gates.nudge_before(t, what, task, terms)
                end
                return false
            elseif t.gates then
                local h = t.rows[id]
                gates.nudge(t, h and h[TASK] or sub(lane.name, 2), h and flow.terms(h))
            end
        end
        c.more = true
        return false
    end

    -- Writes down what became of the lanes.
    local function close_order(o, t)
        local scored, gone, empty = {}, {}, 0
        for _, lane in ipairs(o.seen) do
            if lane.name ~= '' then call_many('ZREM', lane.key, lane.gone) end
            if lane.name == '' then
                local by_key = {}
                for _, id in ipairs(lane.gone) do
                    by_key[lane.of[id]] = by_key[lane.of[id]] or {}
                    table.insert(by_key[lane.of[id]], id)
                end
                for key, ids in pairs(by_key) do call_many('ZREM', t.p .. key, ids) end
                if lane.score ~= lane.was then call('HSET', t.k.turns, o.queue, format('%d', lane.score % BAND)) end
            elseif lane.empty then
                gone[#gone + 1], empty = lane.name, empty + 1
            elseif lane.waits then
                gone[#gone + 1] = lane.name
            elseif lane.had then
                gone[#gone + 1] = lane.name
                if call('EXISTS', lane.key) == 1 then
                    lanes.had(t, o.queue, lane.name, lane.score % BAND)
                else
                    empty = empty + 1
                end
            elseif lane.score ~= lane.was then
                scored[#scored + 1] = format('%d', lane.score)
                scored[#scored + 1] = lane.name
            end
        end
        call_many('ZREM', t.p .. 'lanes:' .. o.queue, gone)
        call_many('ZADD', t.p .. 'lanes:' .. o.queue, scored)
        lanes.count(t, o.queue, -empty)
    end

    -- Up to `take` jobs of a queue's lanes, and of its plain order as one of them. Answers how many are still to be taken of the plain
    -- order alone, none where its queue is left.
    local function claim_turns(c, queue, take, limited, special)
        local t, o, before = c.t, new_order(c, queue, take, special), c.granted
        while take > 0 and c.now > 0 and not c.more and not o.left and not o.parted do
            local lane = next_lane(o, t)
            if not lane then break end
            if turn(c, o, lane) then
                take = take - 1
                if lane.name ~= '' or limited or o.apart then c.now = c.now - 1 end
                o.apart = nil
            end
        end
        close_order(o, t)
        count(t, queue, READY, before - c.granted)
        count(t, queue, RUNNING, c.granted - before)
        if o.left or (limited and c.now <= 0) then return 0, false end
        return take, o.parted
    end

    -- Up to `take` jobs of one queue.
    local function claim_queue(c, queue, take, special)
        local t, before = c.t, c.granted
        local limited = false
        if t.gates then
            local row_of = t.gates['queue:' .. queue]
            limited = row_of and (row_of.limit > 0 or row_of.every > 0)
            if row_of and gates.room(t, 'queue:' .. queue) <= 0 then return end
        end
        local again = true
        while again and not c.more do
            flow.open(t)
            flush(t)
            local left, parted = take - (c.granted - before), false
            if left <= 0 then return end
            if t.lanes and call('EXISTS', t.p .. 'lanes:' .. queue) == 1 then left, parted = claim_turns(c, queue, left, limited, special) end
            again = parted
            if left > 0 and not again and not c.more and not c.put_off[queue] then
                local granted = c.granted
                c.charged = 0
                local taken = c.granted + c.asides
                t.rank = t.rank + 1
                local its_turn = t.rank  -- before that of lanes which get their first job by this
                if limited then left = min(left, c.now, (gates.room(t, 'queue:' .. queue))) end
                again = claim_plain(c, queue, left, special)
                if t.lanes and c.granted + c.asides > taken then
                    call('HSET', t.k.turns, queue, format('%d', its_turn))
                end
                if limited then
                    local plain = c.granted - granted - c.charged
                    c.now = c.now - plain
                    if plain > 0 then gates.charge(t, queue, nil, nil, plain) end
                end
            end
            again = again or next(t.freed) ~= nil or #t.marks > 0
            if c.turned_away >= CHUNK then c.more = true end
        end
        c.more = c.more or c.put_off[queue]
    end

    -- ---- jobs that run alone

    local claim_solo
    do
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
                local id, h = lanes.solo_head(t, queue)
                if h and takes(w.skills, queue, h[TASK], h[VERSION]) and not (h[EXPIRES] > 0 and h[EXPIRES] <= t.now) then
                    if not busy or not reserved_elsewhere(t, w.id, id) then
                        w.reserved = id
                        return id, h
                    end
                end
            end
            return nil
        end

        -- True when the worker must drain, false when a job was granted to run alone, nil when there is none for it.
        function claim_solo(c, want)
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
            if t.gates or h[TERMS] then gates.charge(t, h[QUEUE], h[TASK], flow.terms(h)) end
            grant(c, id, h, raw, from)
            count(t, h[QUEUE], READY, -1)
            count(t, h[QUEUE], RUNNING, 1)
            return false
        end
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
        if t.gates then
            for i = 1, #want, 2 do gates.note_queue(t, want[i]) end
        end
        if c.solo then  -- found in a lane: it is this worker's if that has nothing else, or waits for it
            flush(t)
            if c.granted > 0 then
                c.more = true
            else
                return claim_solo(c, want) == true
            end
        end
        return false
    end
end
