-- Faults: the dead letters by their fingerprints, and the indexes of all that ended and not well.
--
-- failed, failed:task:<task>, failed:mark:<fingerprint>   sorted sets of dead letters, by number
-- cancelled, skipped   the same of those that ended so
-- marks, faults     the fingerprints there are -> '>I5I5' (how many dead letters, the newest one's number); the same in order: by how
--                    many, then by that number, which stands before the fingerprint

-- A job that ended, and not well, comes into the indexes of these or leaves them: `act` is add or rem.
function faults.index(t, act, id, h)
    if h[STATE] <= SUCCEEDED or is_join(h) then return end
    local keys = { STATES[h[STATE]] }
    if h[STATE] == FAILED then
        keys[2], keys[3] = 'failed:task:' .. h[TASK], 'failed:mark:' .. h[FINGERPRINT]
        t.faults[h[FINGERPRINT]] = true
    end
    for _, key in ipairs(keys) do
        if act == add then add(t, key, h[N], id) else rem(t, key, id) end
    end
end

-- In which of these a job is whose record cannot be read, or else among those that ended well.
function faults.state_of(t, id)
    for state = FAILED, SKIPPED do
        if call('ZSCORE', t.k[STATES[state]], id) then return state end
    end
    return SUCCEEDED
end

-- One goes whose record does not say any more which fault it was.
function faults.lose(t, id, task)
    for state = FAILED, SKIPPED do call('ZREM', t.k[STATES[state]], id) end
    if task then call('ZREM', t.p .. 'failed:task:' .. task, id) end
    for _, mark in ipairs(call('HKEYS', t.k.marks)) do
        if call('ZREM', t.p .. 'failed:mark:' .. mark, id) == 1 then t.faults[mark] = true end
    end
end

-- Counts the faults anew that this step has changed: from their dead letters, so that no count can go astray.
function faults.write(t)
    for mark in pairs(t.faults) do
        local key, before = t.p .. 'failed:mark:' .. mark, call('HGET', t.k.marks, mark)
        local newest = tonumber(call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2])
        local now = newest and struct.pack('>I5I5', call('ZCARD', key), newest)
        if now ~= before then
            if before then call('ZREM', t.k.faults, sub(before, 6) .. mark) end
            if now then
                call('ZADD', t.k.faults, struct.unpack('>I5', now), sub(now, 6) .. mark)
                call('HSET', t.k.marks, mark, now)
            else
                call('HDEL', t.k.marks, mark)
            end
        end
    end
    t.faults = {}
end
