-- Damaged records are taken out alone.

-- A record that cannot be read is taken out alone: its bytes are kept aside and a dead letter stands in its place. `queue` and
-- `state`: where it was found, if that is known.
local mend
do
    -- In which state a record was that cannot be read: by the index it is in, out of which it is taken.
    local function take_out(t, id, queue, in_graph)
        flush(t)
        if call('ZREM', t.k.due, id) == 1 then return SCHEDULED end
        if call('ZREM', t.p .. 'ready:' .. queue, id) + call('ZREM', t.p .. 'solo:' .. queue, id) > 0 then return READY end
        for _, key in ipairs(lanes.keys(t, queue, CHUNK)) do
            if call('ZREM', t.p .. key, id) == 1 then
                lanes.lost_one(t, key)
                return READY
            end
        end
        for _, group in ipairs(call('HKEYS', t.k.asides)) do
            if call('ZREM', t.p .. 'aside:' .. group, id) == 1 then return READY end
        end
        for _, worker in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
            if call('HDEL', t.p .. 'held:' .. worker, id) == 1 then return RUNNING end
        end
        local state = faults.state_of(t, id)
        if state ~= SUCCEEDED then return state end
        return in_graph and #in_graph[2] > 0 and graphs.is_under_way(t, in_graph[1]) and WAITING or SUCCEEDED
    end

    -- The number of a job and when it came, as far as it can be believed; a new one otherwise.
    local function number_of_damaged(t, id, raw, h)
        if h then return h[N], h[AT] end
        if raw and #raw >= PREFIX then
            local n, at = struct.unpack('>I5I6', raw)
            if n >= 1 and n <= t.n and at <= t.now and call('LPOS', t.p .. 'log:' .. floor((n - 1) / CHUNK), id) then return n, at end
        end
        t.n = t.n + 1
        log_accepted(t, t.n - 1, { id })
        return t.n, t.now
    end

    function mend(t, id, queue, state)
        local raw, packed = call('HGET', t.k.jobs, id), call('HGET', t.k.heads, id)
        local from, task, version, came_to, priority = read_body(raw)
        local h = packed and read_head(packed)
        local came_with = not (h and h[LINKS]) and graphs.came_with(call('HGET', t.k.links, id))
        if task == '' or (h and is_join(h)) or (came_with and came_with[5] > 0) then return graphs.mend_join(t, id, came_with) end
        call('HSET', t.k.corrupt, id, pack({ t.now, raw or '', packed or '' }))
        queue = queue or (h and h[QUEUE]) or came_to or ''
        if not is_text(queue) then queue = '' end
        state = state or take_out(t, id, queue, came_with)
        rem(t, 'expiring', id)
        if not is_text(id) then  -- nobody could call it by its name
            count(t, queue, state, -1)
            flow.lose(t, id, state)
            call('HDEL', t.k.jobs, id)
            call('HDEL', t.k.heads, id)
            return forget(t, id)
        end
        if state > SUCCEEDED then faults.lose(t, id, task) end
        local n, at = number_of_damaged(t, id, raw, h)
        if not from or not is_text(task) then
            task, version, priority = 'windlass.corrupt', 1, 5
            raw = new_body(n, at, pack(task, version, queue, priority) .. binary('null') .. binary('{}'))
            call('HSET', t.k.jobs, id, raw)
        end
        local place, terms = h and h[LINKS] or (came_with and graphs.place_anew(came_with)) or false, h and h[TERMS] or false
        if (packed and not h) or not from then flow.lose(t, id, state) end
        h = fresh_head(raw, 0)
        h[N], h[AT], h[QUEUE], h[STATE], h[ERROR], h[FINGERPRINT], h[LINKS], h[TERMS] =
            n, at, queue, state, LIBRARY.errors.corrupt, 'corrupt-record', place, terms
        t.rows[id], t.stamped[id] = h, nil
        finish(t, id, h, FAILED, 'corrupt record', '')
        if came_with then
            -- Nobody knows any more which of its edges were decided: those behind it count theirs anew.
            place[L.EDGES] = string.rep('0', #came_with[3] / 3)
            graphs.todo(t, 'recount', came_with[1], id)
        end
        job_news(t, 'failed', '', id, h, reason_data('corrupt record'))
    end
end
