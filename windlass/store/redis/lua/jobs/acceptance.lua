-- The order in which jobs were accepted: lists of their ids, which go with the last of them.
--
-- log:<k>, chunks, live, sparse   the order of acceptance: lists of 1,000 ids; which lists there are; how many of each live; of which
--                    little is left

local function log_accepted(t, from, ids)
    local place = 1
    while place <= #ids do
        local k = floor((from + place - 1) / CHUNK)
        local last = min(#ids, place + (k + 1) * CHUNK - (from + place - 1) - 1)
        call('RPUSH', t.p .. 'log:' .. k, unpack(ids, place, last))
        local added = last - place + 1
        if call('HINCRBY', t.k.live, k, added) == added then call('ZADD', t.k.chunks, k, k) end
        place = last + 1
    end
end

local count_left, thin
do
    -- Whether a job is there and came in with this list: its name may have been given again to one that is in a later list. A large
    -- body is not read for that: it would cost more than a name that is kept too long.
    local function is_logged_in(t, id, k)
        local size = call('HSTRLEN', t.k.jobs, id)
        if size < PREFIX then return false end
        local n = size <= 4096 and struct.unpack('>I5', call('HGET', t.k.jobs, id))
        if n == 0 then  -- a node's body was written before it was accepted
            local h = row(t, id)
            n = h and h[N] or 0
        end
        return not n or floor((n - 1) / CHUNK) == k
    end

    -- A list of accepted ids goes with its last job. One of which little is left is noted down for the next sweep: most lists come to
    -- their end soon after.
    function count_left(t, k, left)
        local key = t.p .. 'log:' .. k
        if left <= 0 then
            call('DEL', key)
            call('HDEL', t.k.live, k)
            call('ZREM', t.k.chunks, k)
            call('SREM', t.k.sparse, k)
        elseif 4 * left < CHUNK then
            call('SADD', t.k.sparse, k)
        end
    end

    -- Writes such a list anew without what is gone, so that one job that is kept for long does not keep a thousand names.
    function thin(t, k)
        k = tonumber(k)
        local key, left = t.p .. 'log:' .. k, tonumber(call('HGET', t.k.live, k) or 0)
        local size = call('LLEN', key)
        if size <= 16 or size <= 4 * left then return end
        local kept, seen = {}, {}
        for _, id in ipairs(call('LRANGE', key, 0, -1)) do
            if not seen[id] and is_logged_in(t, id, k) then seen[id], kept[#kept + 1] = true, id end
        end
        call('DEL', key)
        if #kept == 0 then return count_left(t, k, 0) end
        call_many('RPUSH', key, kept)
        if #kept < left then call('HSET', t.k.live, k, #kept) end  -- a damaged record may have left unseen
    end
end
