-- Strict lanes: who has one, and which number it expects.
do
    local WEEK = 7 * 24 * 3600 * 1000
    local split, mark = lanes.split, lanes.mark

    function lanes.strict(t, queue, lane)
        local member = queue .. '\n' .. lane
        local s = t.strict[member]
        if not s then
            local fine, said = pcall(cmsgpack.unpack, call('HGET', t.k.strict, member) or '')
            s = fine and type(said) == 'table' and { said[1], said[2] } or { '', 1 }
            t.strict[member] = s
        end
        return s
    end

    -- A job taken out of a strict lane has it.
    function lanes.have(t, queue, lane, id)
        local s = lanes.strict(t, queue, lane)
        if s[1] ~= id then s[1], s.dirty = id, true end
    end

    -- A job of a strict lane is over or gone.
    function lanes.leave(t, queue, id, terms)
        local s = lanes.strict(t, queue, terms.lane)
        if s[1] == id then s[1] = '' end
        if terms.seq > 0 then
            s[2] = max(s[2], terms.seq + 1)
            call('ZADD', t.k.fading, t.now + WEEK, 'l' .. queue .. '\n' .. terms.lane)
        end
        s.dirty = true
        mark(t, queue, terms.lane).left = true
    end

    function lanes.write(t)
        for member, s in pairs(t.strict) do
    local WEEK = 7 * 24 * 3600 * 1000
    local split, mark = lanes.split, lanes.mark

            if s.dirty then
                if s[1] == '' and s[2] == 1 or (s[1] == '' and string.match(member, '\n(.)') == 'o') then
                    call('HDEL', t.k.strict, member)
                else
                    call('HSET', t.k.strict, member, pack({ s[1], s[2] }))
                end
                s.dirty = nil
            end
        end
    end

    -- What an empty lane expected is forgotten in the end.
    function lanes.forget(t, member)
        local queue, lane = split(member)
        if not queue then return end
        local s = lanes.strict(t, queue, lane)
        if s[1] ~= '' or call('EXISTS', t.p .. 'lane:' .. member) == 1 then
            call('ZADD', t.k.fading, t.now + WEEK, 'l' .. member)
        else
            call('HDEL', t.k.strict, member)
            t.strict[member] = nil
        end
    end

    -- A job was lost of which nobody knows the lane.
    function lanes.lose(t, id)
        local all = call('HGETALL', t.k.strict)
        for i = 1, #all, 2 do
    local WEEK = 7 * 24 * 3600 * 1000
    local split, mark = lanes.split, lanes.mark

            local queue, lane = split(all[i])
            if queue and lanes.strict(t, queue, lane)[1] == id then
                local s = lanes.strict(t, queue, lane)
                s[1], s.dirty = '', true
                mark(t, queue, lane).left = true
            end
        end
    end
end
