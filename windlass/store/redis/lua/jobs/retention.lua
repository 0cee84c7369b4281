-- The end of records: buckets are cut back to their count and age.

-- Deletes records that are in no index any more.
local erase
do
    -- An ended job of which little can be read goes: it was counted as one of the two most likely.
    local function count_damaged(t, id, chunks)
        local raw = call('HGET', t.k.jobs, id)
        local from, task, _, queue = read_body(raw)
        if not from or task == '' then return end
        local state = faults.state_of(t, id)
        count(t, queue, state, -1)
        if state ~= SUCCEEDED then faults.lose(t, id, task) end
        local k = floor((struct.unpack('>I5', raw) - 1) / CHUNK)
        if k >= 0 then chunks[k] = (chunks[k] or 0) + 1 end
    end

    -- Of a head read up to LOGGED: number, queue, state, lines logged. Nil where it is damaged.
    local function glance(fine, _, n, _, _, _, queue, _, state, ...)
        local logged = fine and select(19, ...)
        if type(n) ~= 'number' or type(queue) ~= 'string' or type(logged) ~= 'number' then return nil end
        return n, queue, state, logged
    end

    -- Counts one job out. A job that ended well is only glanced at: in a busy store every job that ends prunes another.
    local function count_out(t, id, packed, chunks)
        local n, queue, state, logged
        if packed and t.rows[id] == nil then n, queue, state, logged = glance(pcall(unpack_limit, packed, LOGGED, 3)) end
        if state ~= SUCCEEDED then
            local h = row(t, id)
            if not h then return count_damaged(t, id, chunks) end
            faults.index(t, rem, id, h)
            n, queue, state, logged = h[N], h[QUEUE], h[STATE], h[LOGGED]
        end
        if n == 0 then return end  -- a join, or a node that was never accepted
        count(t, queue, state, -1)
        if logged > 0 then call('DEL', t.p .. 'logs:' .. id) end
        local k = floor((n - 1) / CHUNK)
        chunks[k] = (chunks[k] or 0) + 1
    end

    local function is_node(t, id, packed)
        local h = t.rows[id]
        if h then return h[LINKS] end
        return packed and byte(packed, -1) ~= 194
    end

    -- With the end of a workflow all of it goes, and with a job the graph that it awaits.
    local function drop_with(t, id)
        local h = row(t, id)
        local awaited = h and h[LINKS] and h[LINKS][L.AWAITS] or ''
        if graphs.row(t, id) then graphs.drop(t, id, 'prune') end
        if awaited ~= '' and graphs.row(t, awaited) and not graphs.is_under_way(t, awaited) then graphs.drop(t, awaited, 'prune') end
    end

    -- Answers how many went.
    function erase(t, ids)
        if #ids == 0 then return 0 end
        local chunks, nodes, heads = {}, {}, call_many('HMGET', t.k.heads, ids)
        for i, id in ipairs(ids) do
            if is_node(t, id, heads[i]) then
                nodes[#nodes + 1] = id
                drop_with(t, id)
            end
            count_out(t, id, heads[i], chunks)
            forget(t, id)
        end
        call_many('HDEL', t.k.jobs, ids)
        call_many('HDEL', t.k.heads, ids)
        call_many('HDEL', t.k.links, nodes)
        if call('EXISTS', t.k.progress) == 1 then call_many('HDEL', t.k.progress, ids) end
        for k, gone in pairs(chunks) do count_left(t, k, call('HINCRBY', t.k.live, k, -gone)) end
        return #ids
    end
end

local PRUNE_STEP = 100

local prune
do
    local limits_seen = { size = 0 }
    local function limits_of(bucket)
        local found = limits_seen[bucket]
        if not found then
            local most, age = string.match(bucket, '^(%-?%d+)|(%-?%d+)|')
            found = { tonumber(most or -1), tonumber(age or -1), string.find(bucket, '^%-?%d+|%-?%d+|#') ~= nil }
            if limits_seen.size > 1000 then limits_seen = { size = 0 } end
            limits_seen[bucket], limits_seen.size = found, limits_seen.size + 1
        end
        return found[1], found[2], found[3]
    end

    -- Before when nothing in a bucket can be too old: what is filed later only ends later.
    local young_until = { size = 0 }

    -- Of a bucket of workflows: the oldest while all of them together weigh more than they may, and another is left: who waits for
    -- the last has yet to read its value.
    local function over_weight(t, bucket, key, most)
        local weight, size, popped = tonumber(call('HGET', t.k.weights, bucket) or 0), call('ZCARD', key), {}
        while weight > most and size > (most > 0 and 1 or 0) and #popped < PRUNE_STEP do
            local id = call('ZPOPMIN', key)[1]
            local g = graphs.row(t, id)
            popped[#popped + 1] = id
            weight, size = weight - (g and g[G.NODES] or 1), size - 1
        end
        if #popped > 0 then call('HSET', t.k.weights, bucket, format('%d', max(0, weight))) end
        return popped
    end

    -- Ids that are past their age, up to a bound. The oldest are first.
    local function too_old(t, key, age, bound)
        local old = {}
        while #old < bound do
            local id = call('ZRANGE', key, #old, #old)[1]
            local h = id and row(t, id)
            if not id then break end
            if h and h[FINISHED] + age > t.now then
                if young_until.size > 1000 then young_until = { size = 0 } end
                young_until.size = young_until.size + (young_until[key] and 0 or 1)
                young_until[key] = h[FINISHED] + age
                break
            end
            old[#old + 1] = id
        end
        if #old > 0 then call('ZREMRANGEBYRANK', key, 0, #old - 1) end
        return old
    end

    local function beyond_count(t, key, most)
        local size, ids = call('ZCARD', key), {}
        if most < 0 or size <= most then return ids, size end
        local popped = call('ZPOPMIN', key, min(size - most, CHUNK))
        for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
        return ids, size
    end

    -- Drops what is beyond a bucket's count (all of it) and past its age (up to a bound); how many.
    function prune(t, bucket, bound)
        local key = t.p .. 'bucket:' .. bucket
        local most, age, weighs = limits_of(bucket)
        local ids, size
        if weighs then
            ids, size = most >= 0 and over_weight(t, bucket, key, most) or {}, 0
        else
            ids, size = beyond_count(t, key, most)
        end
        if size <= 4 * CHUNK then call('SADD', t.k.buckets, bucket) end  -- one that was empty is not in the set
        local dropped = erase(t, ids)
        if age >= 0 and t.now >= (young_until[key] or 0) then
            local old = too_old(t, key, age, bound - dropped)
            if weighs then
                for _, id in ipairs(old) do
                    local g = graphs.row(t, id)
                    call('HINCRBY', t.k.weights, bucket, format('%d', g and -g[G.NODES] or -1))
                end
            end
            dropped = dropped + erase(t, old)
        end
        if weighs and dropped > 0 and call('EXISTS', key) == 0 then call('HDEL', t.k.weights, bucket) end
        return dropped
    end
end
