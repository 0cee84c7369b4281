-- Where a lane with ready jobs is: open, or waiting at a gate, for its holder or for a number.
do
    local is_strict, split, mark = lanes.is_strict, lanes.split, lanes.mark

    local function first_in(t, m)
        local head = call('ZRANGE', t.p .. 'lane:' .. m.queue .. '\n' .. m.lane, '0', '0', 'WITHSCORES')
        return head[1], tonumber(head[2])
    end

    local function read_stay(packed)
        local fine, s = pcall(cmsgpack.unpack, packed or '')
        return fine and type(s) == 'table' and s or nil
    end

    function lanes.stay(t, queue, lane)
        local packed = call('HGET', t.p .. 'stays:' .. queue, lane)
        return packed and read_stay(packed)
    end

    local function put_stay(t, queue, lane, kind, gate, head, score, turn)
        call('HSET', t.p .. 'stays:' .. queue, lane, pack({ kind, gate, head, score, turn }))
        if kind ~= 'g' then return end
        local key = t.p .. gates.waits(gate, queue)
        call('SADD', key, queue)
        call('ZADD', key .. '\n' .. queue, format('%d', turn), lane)
        if sub(gate, 1, 4) == 'key:' then
            local tally = gates.tally(t, gate)
            if tally[3] == 0 then tally[3], tally.dirty = 1, true end
        end
    end

    -- The lanes that a key may have.
    local function of_key(key) return 'k' .. key, 'o' .. key, 's' .. key end

    local function drop_stay(t, queue, lane, stay)
        call('HDEL', t.p .. 'stays:' .. queue, lane)
        if stay[1] == 'n' then
            call('ZREM', t.k.openings, 'l' .. queue .. '\n' .. lane)
        elseif stay[1] == 'g' then
            local key = t.p .. gates.waits(stay[2], queue)
            call('ZREM', key .. '\n' .. queue, lane)
            if call('EXISTS', key .. '\n' .. queue) == 0 then call('SREM', key, queue) end
            if sub(stay[2], 1, 4) == 'key:' then
                local waits = 0
                for _, packed in ipairs(call('HMGET', t.p .. 'stays:' .. queue, of_key(sub(lane, 2)))) do
                    local other = packed and read_stay(packed)
                    if other and other[2] == stay[2] then waits = 1 end
                end
                local tally = gates.tally(t, stay[2])
                if tally[3] ~= waits then tally[3], tally.dirty = waits, true end
            end
        end
    end

    -- A claim found a gate closed for the head of a lane.
    function lanes.wait_at(t, queue, lane, gate, opens, head, score, turn)
        put_stay(t, queue, lane, 'g', gate, head, score, turn)
        if opens then gates.rings(t, 'g' .. gate, opens) end
    end

    -- A claim gave a strict lane to one of its jobs, and others are left in it.
    function lanes.had(t, queue, lane, turn)
        put_stay(t, queue, lane, 'h', '', '', 0, turn)
    end

    -- How many lanes of a queue have ready jobs.
    function lanes.count(t, queue, by)
        if by == 0 then return end
        local left = call('HINCRBY', t.k.laned, queue, by)
        if left > 0 then
            if not t.lanes then
                t.lanes = true
                call('HSET', t.meta, 'lanes', '1')
            end
            return
        end
        call('HDEL', t.k.laned, queue)
        call('HDEL', t.k.turns, queue)
        if call('EXISTS', t.k.laned) == 0 then
            t.lanes = nil
            call('HDEL', t.meta, 'lanes')
            if not t.gates then call('DEL', t.k.openings) end
        end
    end

    -- A lane that waits at a gate is to be looked at again; so many workers may find something in it.
    function lanes.look_again(t, queue, lane, wakes)
        local m = mark(t, queue, lane)
        m.look, m.wakes = true, max(m.wakes, wakes)
    end

    -- A key's gate may let something through.
    function lanes.open_key(t, name, of)
        local queue, key = split(of)
        if not queue then return end
        for _, lane in ipairs({ of_key(key) }) do
            local stay = lanes.stay(t, queue, lane)
            if stay and stay[2] == name then lanes.look_again(t, queue, lane, 1) end
        end
    end

    -- The number that a lane waited for has not come.
    function lanes.skip(t, member)
        local queue, lane = split(member)
        local stay = queue and lanes.stay(t, queue, lane)
        if not stay or stay[1] ~= 'n' then return end
        flush(t)
        if first_in(t, { queue = queue, lane = lane }) ~= stay[3] then return end  -- another stands there since
        local h = row(t, stay[3])
        local terms = h and flow.terms(h)
        local s = lanes.strict(t, queue, lane)
        if terms then s[2], s.dirty = max(s[2], terms.seq), true end
        lanes.look_again(t, queue, lane, 1)
    end

    -- Of a strict lane with ready jobs: which of them may start, nil if none may; else the kind of its stay and until when.
    local function strict_head(t, m, id, score)
        local s, key = lanes.strict(t, m.queue, m.lane), t.p .. 'lane:' .. m.queue .. '\n' .. m.lane
        if s[1] ~= '' then
            local mine = s[1] == id and score or call('ZSCORE', key, s[1])
            if mine then return s[1], tonumber(mine) end
            return nil, nil, 'h'
        end
        if byte(m.lane, 1) == 115 then
            local h = row(t, id)
            local terms = h and flow.terms(h)
            if terms and terms.seq > s[2] then return nil, nil, 'n', terms.gap end
        end
        return id, score
    end

    -- Whose turn it is in a strict lane that is open.
    function lanes.head(t, queue, lane, id, score) return strict_head(t, { queue = queue, lane = lane }, id, score) end

    -- What keeps the head of a lane: the gate, when time opens that, and the head's row where it has one.
    local function closed_for(t, queue, lane, id)
        local h = t.rows[id]
        if h == nil and not t.came[id] then
            local packed = call('HGET', t.k.heads, id)
            h = packed and read_head(packed)
            if h then t.rows[id] = h end
        end
        local task, terms = h and h[TASK], h and flow.terms(h)
        if not h and t.came[id] then
            task, terms = t.came[id].task, t.came[id].terms
        elseif not h then
            local _, packed
            _, task, _, _, _, packed = read_body(call('HGET', t.k.jobs, id))
            if not task then return nil, nil, h end
            terms = flow.of(h, packed)
        end
        local gate, opens = gates.first_closed(t, queue, task, terms, true)
        return gate, opens, h, terms
    end

    lanes.closed_for = closed_for

    -- A lane waits no longer where it did. If nobody let it in, what it waited for is the next one's.
    local function leave_stay(t, m, stay)
        drop_stay(t, m.queue, m.lane, stay)
        if stay[1] == 'g' and not m.look then t.freed[stay[2]] = t.freed[stay[2]] or true end
    end

    -- Takes a lane out of where it is; what it waits for besides is of no interest any more.
    local function take_away(t, m, score, stay)
        if score then call('ZREM', t.p .. 'lanes:' .. m.queue, m.lane) end
        if stay then leave_stay(t, m, stay) end
    end

    local function keep_out(t, m, score, stay, new)
        if stay and stay[1] == new[1] and stay[2] == new[2] and new[1] == 'g' then
            call('HSET', t.p .. 'stays:' .. m.queue, m.lane, pack(new))  -- it goes on waiting there, with another head
        else
            take_away(t, m, score, stay)
            put_stay(t, m.queue, m.lane, unpack(new))
        end
    end

    -- Of a lane with ready jobs: open, at a gate, had by a job, or waiting for a number. A head that must run alone leaves it.
    local function find_place(t, m, id, first, turn, score, stay, opened)
        local strict = is_strict(m.lane)
        while id do
            local head, its, kind, gap = id, first, nil, nil
            if strict then head, its, kind, gap = strict_head(t, m, id, first) end
            if not head then
                if stay and stay[1] == kind and (kind == 'h' or stay[3] == id) then return true end
                keep_out(t, m, score, stay, { kind, '', id, first, turn })
                if kind == 'n' then gates.rings(t, 'l' .. m.queue .. '\n' .. m.lane, t.now + gap) end
                return true
            end
            if stay and stay[1] == 'g' and not m.look and stay[3] == head then return true end
            local gate, opens, h, terms = closed_for(t, m.queue, m.lane, head)
            if gate then
                keep_out(t, m, score, stay, { 'g', gate, head, its, turn })
                if opens then gates.rings(t, 'g' .. gate, opens) end
                if m.look then gates.nudge_before(t, gate, h and h[TASK] or sub(m.lane, 2), terms) end
                return true
            end
            if not (h and runs_alone(h)) then
                if stay then leave_stay(t, m, stay) end
                local wakes = strict and 1 or max(1, m.joined, m.wakes)
                if score and m.joined == 0 and not m.look then wakes = 0 end
                opened[#opened + 1] = { m, (strict and 4 or floor(its / BAND)) * BAND + turn, wakes }
                return true
            end
            lanes.keep_alone(t, head, h)
            call('ZREM', t.p .. 'lane:' .. m.queue .. '\n' .. m.lane, head)
            if strict then lanes.have(t, m.queue, m.lane, head) end
            t.opened[m.queue] = (t.opened[m.queue] or 0) + 1
            id, first = first_in(t, m)
        end
        return false
    end

    -- One lane that something happened to. `score`: it was open; `stay`: it was not, and had ready jobs. Answers by how much there are
    -- more lanes with ready jobs now.
    local function refresh_one(t, m, score, stay, opened)
        local strict, was, turn = is_strict(m.lane), score or stay, nil
        if score then turn = score % BAND elseif stay then turn = stay[5] else turn = m.turn end
        -- It was empty for a moment: what is in it came after the last one had left.
        local emptied = was and m.low < 0 and m.size > m.low
        if emptied and call('ZCARD', t.p .. 'lane:' .. m.queue .. '\n' .. m.lane) == m.size - m.low then turn = m.turn end
        if not (m.left or m.look or strict) and was then
            if stay and not (stay[1] == 'g' and m.least < stay[4]) then return 0 end
            if score and floor(m.least / BAND) >= floor(score / BAND) then
                opened[#opened + 1] = { m, nil, m.joined }
                return 0
            end
        end
        local id, first = m.first, m.least
        if was or m.left or strict or not id then id, first = first_in(t, m) end
        if find_place(t, m, id, first, turn, score, stay, opened) then return was and 0 or 1 end
        take_away(t, m, score, stay)
        return was and -1 or 0
    end

    -- All lanes that something happened to are where they belong; true if any is open for it.
    function lanes.refresh(t)
        local marks, queues, by_queue = t.marks, {}, {}
        t.marks, t.marked = {}, {}
        flush(t)
        for _, m in ipairs(marks) do
            if not by_queue[m.queue] then by_queue[m.queue], queues[#queues + 1] = {}, m.queue end
            table.insert(by_queue[m.queue], m)
        end
        local any = false
        for _, queue in ipairs(queues) do
            local names, opened, scored, more = {}, {}, {}, 0
            for i, m in ipairs(by_queue[queue]) do names[i] = m.lane end
            local scores, stays = call_many('ZMSCORE', t.p .. 'lanes:' .. queue, names), call_many('HMGET', t.p .. 'stays:' .. queue, names)
            for i, m in ipairs(by_queue[queue]) do
                more = more + refresh_one(t, m, scores[i] and tonumber(scores[i]), stays[i] and read_stay(stays[i]), opened)
            end
            for _, one in ipairs(opened) do
                if one[2] then
                    scored[#scored + 1] = format('%d', one[2])
                    scored[#scored + 1] = one[1].lane
                end
                if one[3] > 0 then t.wakes[#t.wakes + 1] = { queue, one[1].lane, one[3] } end
                any = true
            end
            call_many('ZADD', t.p .. 'lanes:' .. queue, scored)
            lanes.count(t, queue, more)
        end
        return any
    end

    -- ---- waking

    -- Workers for lanes that were opened or joined and are open still.
    function lanes.wake(t)
        local said, wanted, idle = t.wakes, {}, {}
        t.wakes = {}
        for _, one in ipairs(said) do
            local queue, lane, jobs = one[1], one[2], one[3]
            if idle[queue] == nil then idle[queue] = call('ZCARD', t.p .. 'idle:' .. queue) end
            -- No more than there are idle ones need be found.
            if (wanted[queue] or 0) < idle[queue] and call('ZSCORE', t.p .. 'lanes:' .. queue, lane) then
                jobs = min(jobs, call('ZCARD', t.p .. 'lane:' .. queue .. '\n' .. lane))
                if byte(lane, 1) == 116 then jobs = min(jobs, (gates.room(t, 'task:' .. sub(lane, 2)))) end
                wanted[queue] = (wanted[queue] or 0) + jobs
            end
        end
        for queue, jobs in pairs(wanted) do wake(t, queue, jobs) end
    end

    -- A queue that an opening concerns, nil where there is none any more.
    function lanes.queue_of(t, opening)
        local kind, of = string.match(sub(opening, 2), '^(%l+):(.*)$')
        if sub(opening, 1, 1) == 'l' then return (split(sub(opening, 2))) end
        if kind == 'queue' then return of end
        if kind == 'key' then return (split(of)) end
        for _, queue in ipairs(call('SMEMBERS', t.p .. 'waits:' .. sub(opening, 2))) do
            if call('EXISTS', t.p .. 'idle:' .. queue) == 1 then return queue end
        end
    end

    -- A queue's gate has opened: what was set aside there is not for anybody.
    function lanes.wake_for_asides(t, queue)
        for _, group in ipairs(call('HKEYS', t.k.asides)) do
            local of, task, version = string.match(group, '^(.-)\n(.-)\n(.*)$')
            if of == queue and call('EXISTS', t.p .. 'aside:' .. group) == 1 then
                wake(t, queue, 1, function(skills) return takes(skills, queue, task, tonumber(version)) end)
            end
        end
    end

    -- How many ready jobs of a queue could be claimed, counted up to a bound.
    function lanes.claimable(t, queue, most)
        local ready = call('ZCARD', t.p .. 'ready:' .. queue) + call('ZCARD', t.p .. 'solo:' .. queue)
        if not t.lanes or ready >= most then return min(ready, most) end
        for _, lane in ipairs(call('ZRANGE', t.p .. 'lanes:' .. queue, 0, most)) do
            ready = ready + (is_strict(lane) and 1 or call('ZCARD', t.p .. 'lane:' .. queue .. '\n' .. lane))
            if ready >= most then break end
        end
        return min(ready, most)
    end

    -- How many ready jobs a queue has, wherever they are.
    function lanes.ready_in(t, queue)
        local delta = t.counts[queue] and t.counts[queue][READY] or 0
        return tonumber(call('HGET', t.k.counts, READY .. queue) or 0) + delta
    end

    -- The keys of all lanes of a queue that have ready jobs, up to a bound.
    function lanes.keys(t, queue, most)
        local keys = {}
        if not t.lanes then return keys end
        for _, lane in ipairs(call('ZRANGE', t.p .. 'lanes:' .. queue, 0, most - 1)) do keys[#keys + 1] = 'lane:' .. queue .. '\n' .. lane end
        if #keys >= most then return keys end
        local stays = t.p .. 'stays:' .. queue
        local many = call('HLEN', stays) > most
        local found = many and call('HSCAN', stays, '0', 'COUNT', format('%d', most))[2] or call('HKEYS', stays)
        for i = 1, #found, many and 2 or 1 do
            keys[#keys + 1] = 'lane:' .. queue .. '\n' .. found[i]
            if #keys >= most then break end
        end
        return keys
    end
end
