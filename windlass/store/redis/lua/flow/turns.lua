-- Taking turns: claiming from a queue whose jobs are in lanes.
local claim_turns
do
    -- Lanes of one queue while a claim takes turns among them: those not seen yet come from `lanes:<queue>` in pages, those that have
    -- given a job go behind all others of their band. Nothing of this is written before its end.
    local PAGE, MOVED = 300, 250

    local function new_lane(t, queue, name, score)
        return {
            name = name, key = t.p .. (name == '' and 'ready:' .. queue or 'lane:' .. queue .. '\n' .. name), score = score, was = score,
            strict = name ~= '' and lanes.is_strict(name), at = 1, ids = {}, ranks = {}, taken = {}, gone = {},
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
    local function try_head(c, o, lane, id, rank)
        local t, queue, skills = c.t, o.queue, c.w.skills
        local raw, h = o.bodies[id], t.rows[id] or nil
        local from, task, version, came_to, _, packed, ends = read_body(raw)
        if not from or o.damaged[id] or (not h and not is_numbered(raw)) or not is_readable(h, queue, task, came_to, skills) then
            turn_away(c, lane, id)
            mend(t, id, queue, READY)
            return 'gone'
        end
        local terms = flow.of(h, packed)
        if h then task, version = h[TASK], h[VERSION] end
        local own = lane.name == '' and lanes.of(t, task, terms) or ''
        if own ~= '' and not (h and h[HOLD] == ASIDE and not gates.first_closed(t, queue, task, terms)) then
            turn_away(c, lane, id)
            into_lane(t, id, h, queue, own, rank)
            return 'laned'
        end
        if t.gates or terms then
            local gate, opens = gates.first_closed(t, queue, task, terms)
            if gate then return gate, opens, task, terms end
        end
        if h and ends_instead(t, id, h) then
            turn_away(c, lane, id)
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
            lanes.keep_alone(t, id, h)
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

    -- A gate is closed for a lane's head: the lane waits there, or the queue is left if the gate is the queue's.
    local function wait_at(c, o, lane, id, rank, gate, opens, task, terms)
        local t = c.t
        if gate == 'queue:' .. o.queue then
            o.left = true
            if opens then gates.rings(t, 'g' .. gate, opens) end  -- to this one, which may weigh more than others
            return
        end
        c.turned_away = c.turned_away + 1
        lane.waits = true
        lanes.wait_at(t, o.queue, lane.name, gate, opens, id, rank, lane.score % BAND)
        gates.nudge_before(t, gate, task, terms)
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
            local what, opens, task, terms = try_head(c, o, lane, id, rank)
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
                wait_at(c, o, lane, id, rank, what, opens, task, terms)
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
    function claim_turns(c, queue, take, limited, special)
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
end
