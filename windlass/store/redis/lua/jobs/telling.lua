-- Telling who waits for a job.
--
-- watched           hash id -> names of the clients to tell

local INLINE_MAX = 16384

local function pack_finished(id, h)
    local result, problem, inline = h[RESULT], h[ERROR], true
    if h[LINKS] and h[STATE] == SUCCEEDED and not result and (is_join(h) or h[LINKS][L.REPLACED] == 1) then
        inline = false  -- its value is that of others
    end
    if #(result or '') + #(problem or '') > INLINE_MAX then result, problem, inline = false, false, false end
    return '\150' .. text(id) .. text(STATES[h[STATE]]) .. binary_or_nil(result) .. binary_or_nil(problem) .. text(h[REASON])
        .. (inline and '\195' or '\194')
end

local tell, tell_ended
do
    local function pack_success(t, id)
        return pack_finished(id, { [STATE] = SUCCEEDED, [RESULT] = t.brief[id] ~= '' and t.brief[id], [ERROR] = false, [REASON] = '' })
    end

    local function post(t, boxes)
        for client, items in pairs(boxes) do
            t.told[client] = true
            call('PUBLISH', t.p .. 'to:' .. client, '\221' .. struct.pack('>I4', #items) .. concat(items))
        end
    end

    -- One message per client with all that ended in this step and it waits for.
    function tell(t, ids, say)
        if #ids == 0 or (#ids > 5 and call('EXISTS', t.k.watched) == 0) then return end
        local names, boxes, heard = call_many('HMGET', t.k.watched, ids), {}, {}
        for i, id in ipairs(ids) do
            if names[i] then
                heard[#heard + 1] = id
                for client in string.gmatch(names[i], '[^\n]+') do
                    boxes[client] = boxes[client] or {}
                    boxes[client][#boxes[client] + 1] = say(id)
                    call('SREM', t.p .. 'watching:' .. client, id)
                end
            end
        end
        call_many('HDEL', t.k.watched, heard)
        post(t, boxes)
    end

    -- Tells of what ended so far; before its records can be pruned, since then nobody could say any more how they ended.
    function tell_ended(t)
        tell(t, t.ended, function(id) return t.rows[id] and pack_finished(id, t.rows[id]) or pack_success(t, id) end)
        t.ended = {}
    end
end
