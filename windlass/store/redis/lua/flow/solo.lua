-- Claiming jobs that run alone.
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
            mend(t, id, h[QUEUE], READY)
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
