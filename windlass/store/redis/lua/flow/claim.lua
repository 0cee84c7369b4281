-- Claiming: one half of an exchange.
local claim
do
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
