-- Lanes: ready jobs that share a key, or a task with a gate. A claim takes turns among those that are open.
--
-- lane:<queue>\n<lane>  sorted set of its ready jobs, by rank (by number, where they have numbers)
-- lanes:<queue>         sorted set of the open ones: the band of the head, and the turn
-- stays:<queue>         hash lane -> MessagePack [kind, gate, head, its score, turn] of those that are not open. Kinds: 'g' waits at
--                       that gate; 'h' is had by a job that is not among its ready ones; 'n' waits for a number
-- laned                 hash queue -> how many lanes have ready jobs; the field `lanes` of `meta` says that there are any
-- turns                 hash queue -> the turn that the plain order last took among lanes
-- strict                hash queue\nlane -> MessagePack [holder or '', the number expected]
do
    local EPOCH = 1735689600000
    local AGES = 2 ^ 39

    local function is_strict(lane)
        local kind = byte(lane, 1)
        return kind == 111 or kind == 115
    end

    -- Queue and lane of a member that names both.
    local function split(member) return string.match(member, '^(.-)\n(.*)$') end

    -- The lane of a job that is ready or becomes so; '' for the plain order.
    function lanes.of(t, task, terms)
        if terms and terms.lane then return terms.lane end
        if (terms and terms.apart) or (t.gates and gates.is_gated(t, task)) then return 't' .. task end
        return ''
    end

    -- The lane that a job is in.
    function lanes.name(h)
        local terms = flow.terms(h)
        return terms and terms.lane or 't' .. h[TASK]
    end

    -- The place of a job that becomes ready. With ageing it is that of a job of priority 5 which came earlier or later; of those that
    -- come in one millisecond up to a thousand are told apart.
    function lanes.rank(t, h)
        local terms = flow.terms(h)
        if terms and terms.strict then
            if h[RANK] > 0 then return h[RANK] end
            local rank = next_rank(t, 5)
            -- Those with numbers come behind all others of their band, by number, where they are set aside.
            return terms.seq > 0 and 4 * BAND + 2 ^ 40 + min(terms.seq, 2 ^ 33) * 1024 + rank % 1024 or rank
        end
        if not terms or terms.ageing == 0 then return next_rank(t, h[PRIORITY]) end
        t.rank = t.rank + 1
        local at, first = struct.unpack('>I6I6', call('HGET', t.meta, 'aged') or string.rep('\0', 12))
        if at ~= t.now then
            first = t.rank
            call('HSET', t.meta, 'aged', struct.pack('>I6I6', t.now, first))
        end
        local since = max(0, min(AGES - 1, t.now - EPOCH + (5 - h[PRIORITY]) * terms.ageing))
        return 4 * BAND + since * 1024 + min(1023, t.rank - first)
    end

    local function score_in(h, lane)
        if byte(lane, 1) ~= 115 then return h[RANK] end
        return min(flow.terms(h).seq, 2 ^ 43) * 1024 + h[RANK] % 1024
    end

    local function mark(t, queue, lane)
        local member = queue .. '\n' .. lane
        local found = t.marked[member]
        if not found then
            t.rank = t.rank + 1
            found = { queue = queue, lane = lane, turn = t.rank, joined = 0, least = 1 / 0, wakes = 0, size = 0, low = 0 }
            t.marked[member], t.marks[#t.marks + 1] = found, found
        end
        return found
    end

    -- ---- jobs come and go

    -- A lane grows in this step. It may have been empty just before: then this is its turn.
    local function come(t, m)
        if m.size == m.low then
            t.rank = t.rank + 1
            m.turn = t.rank
        end
        m.size = m.size + 1
    end

    -- A ready job with a lane goes into it. `silent`: it was ready before, and wakes nobody.
    function lanes.join(t, id, h, lane, silent)
        local m, score = mark(t, h[QUEUE], lane), score_in(h, lane)
        h[HOLD] = LANE
        come(t, m)
        add(t, 'lane:' .. h[QUEUE] .. '\n' .. lane, score, id)
        if not silent then m.joined = m.joined + 1 end
        if score < m.least then m.least, m.first = score, id end
    end

    -- The same for a job that has no head.
    function lanes.join_fresh(t, id, queue, lane, rank, silent)
        local m = mark(t, queue, lane)
        come(t, m)
        add(t, 'lane:' .. queue .. '\n' .. lane, rank, id)
        if not silent then m.joined = m.joined + 1 end
        if rank < m.least then m.least, m.first = rank, id end
    end

    -- A job leaves its lane in another way than by being claimed.
    function lanes.part(t, id, h)
        local lane = lanes.name(h)
        rem(t, 'lane:' .. h[QUEUE] .. '\n' .. lane, id)
        local m = mark(t, h[QUEUE], lane)
        m.left, m.size = true, m.size - 1
        m.low = min(m.low, m.size)
        gates.nudge(t, h[TASK], flow.terms(h))
    end

    -- Something happened to a lane that it is to be looked at for.
    function lanes.changed(t, queue, lane) mark(t, queue, lane).left = true end

    -- One of its jobs was taken out as damaged, by the lane's key.
    function lanes.lost_one(t, key) lanes.changed(t, split(sub(key, 6))) end

    -- A job is kept out of all orders until a worker is empty.
    function lanes.keep_alone(t, id, h)
        h[HOLD] = SOLO
        add(t, 'solo:' .. h[QUEUE], h[RANK], id)
        touch(t, id)
    end

    -- Whether a job leaves its line to run alone; of a strict lane only the one that has it.
    function lanes.lets_go(t, id, h)
        local terms = flow.terms(h)
        return not (terms and terms.strict) or lanes.strict(t, h[QUEUE], terms.lane)[1] == id
    end

    -- The first job of a queue that must run alone and could. One that has to wait at another gate than its queue's waits in its lane,
    -- and nobody keeps himself free for it.
    function lanes.solo_head(t, queue)
        while true do
            local id = call('ZRANGE', t.p .. 'solo:' .. queue, 0, 0)[1]
            local h = id and row(t, id)
            if not id then return nil end
            local flows = h and (t.gates or h[TERMS])
            if is_lost(h) then
                call('ZREM', t.p .. 'solo:' .. queue, id)
                mend(t, id, queue, READY)
            elseif graphs.refuses(t, h) then
                call('ZREM', t.p .. 'solo:' .. queue, id)
                graphs.refuse(t, id, h)
            elseif flows and gates.first_closed(t, queue, h[TASK], flow.terms(h), true) then
                call('ZREM', t.p .. 'solo:' .. queue, id)
                place_ready(t, id, h, true)
            elseif flows and gates.first_closed(t, queue, h[TASK], flow.terms(h)) then
                return nil
            else
                return id, h
            end
        end
    end

    lanes.is_strict, lanes.split, lanes.mark = is_strict, split, mark
end
