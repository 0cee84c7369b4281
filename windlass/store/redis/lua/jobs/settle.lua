-- Settling: one half of an exchange. Most moves are plain: a job that came in as usual and succeeded at its first try.
local settle, refuse_all
do
    local PLAIN, OTHER = 3, 17

    -- One transition; answers the kind of event it was.
    local function apply(t, id, h, m, at, result, problem)
        h[ATTEMPT], h[CRASHES], h[SNOOZES] = m[at + 7], m[at + 8], m[at + 9]
        if problem ~= '' then h[ERROR], h[FINGERPRINT] = problem, m[at + 12] end
        local to, event = m[at + 4], m[at + 5]
        if m[at + 10] == 1 and h[CANCEL] == 1 then
            finish(t, id, h, CANCELLED, h[REASON], '')
            return 'cancelled'
        elseif to == WAITING then
            h[LINKS] = h[LINKS] or graphs.new_place()
            graphs.let_go(t, h)
            h[LINKS][L.AWAITS], h[LINKS][L.REPLACED] = m[at + 14], m[at + 15]
            graphs.make_waiting(t, id, h)
            graphs.commit(t, m[at + 14])
        elseif to == SCHEDULED then
            make_scheduled(t, id, h, t.now + m[at + 6])
        elseif to == READY then
            make_ready(t, id, h, event == 'released')
            wake_for(t, h)
        else
            h[RESULT] = result ~= '' and result
            finish(t, id, h, to, m[at + 11], m[at + 13])
        end
        return event
    end

    local function event_data(event, h, delay)
        if event == 'retried' or event == 'snoozed' then return '{"delay":' .. string.format('%d', delay) .. '}' end
        if h[STATE] > RUNNING then return reason_data(h[REASON]) end
        return nil
    end

    -- Where a fresh success is filed: what is the same for all of a bucket is made once.
    local function bucket_for(t, s, keep, queue)
        local known = keep == '' and s.default or s.named
        local name = keep == '' and queue or keep
        local found = known[name]
        if not found then
            local bucket = keep == '' and t.settings.done .. queue or keep
            found = { key = 'bucket:' .. bucket, text = text(bucket) }
            known[name] = found
            t.touched[bucket] = true
        end
        return found
    end

    -- A job that came in with nothing unusual and succeeds at its first try: its only head is written here, put together
    -- from what its stamp and the exchange say.
    local function settle_fresh(t, s, id, stamp, result, keep)
        local from, task, _, queue, _, terms = read_stamp(stamp)
        if not from then return false end
        local bucket, size = bucket_for(t, s, keep, queue), #s.heads
        t.rank = t.rank + 1
        add(t, bucket.key, t.rank, id)
        s.done[queue] = (s.done[queue] or 0) + 1
        if t.gates or terms then gates.discharge(t, queue, task, terms and flow.read(terms)) end
        s.heads[size + 1] = id
        s.heads[size + 2] = '\220\0\34\207\0\0\0' .. sub(stamp, 1, 5) .. '\207\0\0' .. sub(stamp, 6, from)
            .. '\4\1\1\207\0\0' .. sub(stamp, -6) .. '\0\0\0\160\207\0\0' .. sub(stamp, -12, -7) .. '\203' .. sub(stamp, -20, -13)
            .. s.finished .. bucket.text .. '\160\160\160' .. (result ~= '' and text_head(#result) .. result or '\194') .. '\194'
            .. (terms and text(terms) or '\194') .. '\194'
        t.ended[#t.ended + 1] = id
        t.brief[id] = result
        news(t, 'succeeded', s.worker, id, task, queue)
        return true
    end

    -- Any other move, in the general way: place, id, run, epoch, seq, to, event, delay, attempt, crashes, snoozes, yields to cancel,
    -- reason, fingerprint, keep, adopt, replaced. False where the fence no longer holds.
    local function settle_row(t, w, id, stamp, m, at, result, problem)
        if stamp and stamp ~= '' and t.rows[id] == nil and t.brief[id] == nil then
            t.rows[id] = head_of_stamp(stamp, w.id) or false
        end
        local h = stamp and t.rows[id]
        if stamp and not h and t.brief[id] == nil then
            -- Held, but there is nothing left to compare the fence with. What the worker says is not believed.
            call('HDEL', t.p .. 'held:' .. w.id, id)
            mend(t, id, nil, RUNNING)
        end
        if not h or h[STATE] ~= RUNNING or h[RUN] ~= m[at + 1] or h[EPOCH] ~= m[at + 2] or h[SEQ] ~= m[at + 3] then return false end
        local yields = m[at + 10] == 1 and h[CANCEL] == 1
        if m[at + 4] == WAITING and not yields and not graphs.may_adopt(t, id, m[at + 14]) then return false end
        local event = apply(t, id, h, m, at, result, problem)
        job_news(t, event, w.id, id, h, event_data(event, h, m[at + 6]))
        return true
    end

    local function settle_plain(t, w, s, id, stamp, seq, keep, result)
        local fresh = stamp and stamp ~= '' and t.rows[id] == nil and t.brief[id] == nil
        if fresh and sub(stamp, -6) == struct.pack('>I6', seq) and settle_fresh(t, s, id, stamp, result, keep) then return true end
        return settle_row(t, w, id, stamp, { id, 1, 1, seq, SUCCEEDED, 'succeeded', 0, 0, 0, 0, 0, '', '', keep, '', 0 }, 1, result, '')
    end

    -- The stamps of some of what a worker may hold; the rows of those that have heads are loaded.
    local function stamps_of(t, w, m, first, stride)
        local ids, headed = {}, {}
        for at = first, #m, stride do ids[#ids + 1] = m[at] end
        local stamps = call_many('HMGET', t.p .. 'held:' .. w.id, ids)
        for i, id in ipairs(ids) do
            if stamps[i] == '' then headed[#headed + 1] = id end
        end
        load(t, headed)
        local keys = {}
        for _, id in ipairs(headed) do
            local h = t.rows[id]
            local terms = h and flow.terms(h)
            if terms and terms.key ~= '' then keys[#keys + 1] = gates.of_terms(h[QUEUE], terms) end
        end
        if #keys > 0 then gates.load(t, keys) end
        return stamps
    end

    -- All moves in the order they were given: `others` know their place among them. Answers the refused ids.
    function settle(t, w, plain, others, args)
        local count_plain, count_others, done, refused = #plain / PLAIN, #others / OTHER, {}, {}
        local s = {
            worker = w.id, heads = {}, done = {}, default = {}, named = {},
            finished = '\207\0\0' .. struct.pack('>I6', t.now) .. '\0\0\6\3\0\0\0\0\0',
        }
        local plain_stamps, other_stamps = stamps_of(t, w, plain, 1, PLAIN), stamps_of(t, w, others, 2, OTHER)
        local p, o = 0, 0
        for place = 1, count_plain + count_others do
            local id, held
            if others[o * OTHER + 1] == place then
                local at, result = o * OTHER + 2, 9 + count_plain + 2 * o
                id = others[at]
                held = settle_row(t, w, id, other_stamps[o + 1], others, at, args[result], args[result + 1])
                o = o + 1
            else
                local at = p * PLAIN
                id = plain[at + 1]
                held = settle_plain(t, w, s, id, plain_stamps[p + 1], plain[at + 2], plain[at + 3], args[9 + p])
                p = p + 1
            end
            if held then done[#done + 1] = id else refused[#refused + 1] = id end
        end
        for queue, jobs in pairs(s.done) do
            count(t, queue, RUNNING, -jobs)
            count(t, queue, SUCCEEDED, jobs)
        end
        call_many('HSET', t.k.heads, s.heads)
        call_many('HDEL', t.p .. 'held:' .. w.id, done)
        return refused
    end
    -- Every move of a worker that is gone is refused, in the order they were given.
    function refuse_all(plain, others)
        local refused, p, o = {}, 0, 0
        for place = 1, #plain / PLAIN + #others / OTHER do
            if others[o * OTHER + 1] == place then
                refused[place], o = others[o * OTHER + 2], o + 1
            else
                refused[place], p = plain[p * PLAIN + 1], p + 1
            end
        end
        return refused
    end
end
