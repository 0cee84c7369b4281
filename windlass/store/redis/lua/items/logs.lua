-- Logs: records in the order they were appended, each in a stream of its own. They are appended by commits, see commit.lua.
--
-- records:<log>    stream: a record's id is its position and, behind the dash, when it was appended. s: its stream, n: its number there,
--                  b: its body
-- streams:<log>    hash stream -> its length
-- stream:<the length of the log's name>:<log>:<stream>   list of the positions of what is left of a stream, oldest first
-- recorded         hash log -> MessagePack [first, last, size, oldest, age, count, most]: `oldest` is when its first record was appended,
--                  the last three say how much of it stays (age, number and size of records; 0: all)
-- pruning          sorted set of logs of which something is too much, or will be by its age, by time (0: now)
-- following:<log>  set of the clients that are woken by every append
--
-- What a step looks at is read at once, and stays in `t.logs` until it is written at the end, as items do.
local logs = {}
do
    logs.MOST_BYTES, logs.MOST_AHEAD = 4000000, 250
    local FIRST_AHEAD, MORE_THAN_ADDED = 8, 10

    function logs.key_of(t, name, stream) return t.p .. 'stream:' .. #name .. ':' .. name .. ':' .. stream end

    -- Position, time, stream and body of an entry. One that is damaged has no stream.
    function logs.entry(entry)
        local position, at = string.match(entry[1], '^(%d+)-(%d+)$')
        return tonumber(position), tonumber(at), entry[2][2] or '', entry[2][6] or ''
    end

    -- What can still be said of a log that nothing is known of: no position may be given twice.
    local function rebuilt(t, name)
        local key, l = t.p .. 'records:' .. name, { first = 1, last = 0, size = 0, oldest = 0, age = 0, count = 0, most = 0 }
        if call('EXISTS', key) == 0 then return l end
        local said, oldest = call('XINFO', 'STREAM', key), call('XRANGE', key, '-', '+', 'COUNT', '1')[1]
        for i = 1, #said, 2 do
            if said[i] == 'last-generated-id' then l.last = tonumber(string.match(said[i + 1], '^%d+')) end
        end
        l.first = l.last + 1
        if oldest then l.first, l.oldest = logs.entry(oldest) end
        return l
    end

    function logs.open(t, name, packed)
        local fine, s = pcall(cmsgpack.unpack, packed or '')
        local sound = fine and type(s) == 'table' and #s == 7
        for i = 1, sound and 7 or 0 do sound = sound and type(s[i]) == 'number' end
        local l = sound and { first = s[1], last = s[2], size = s[3], oldest = s[4], age = s[5], count = s[6], most = s[7] }
        l = l or rebuilt(t, name)
        l.name, l.lengths, l.fresh = name, {}, {}
        return l
    end

    -- `wanted`: log -> list of streams.
    function logs.load(t, wanted)
        local names = {}
        for name in pairs(wanted) do names[#names + 1] = name end
        t.logs = {}
        for i, packed in ipairs(call_many('HMGET', t.k.recorded, names)) do
            local name = names[i]
            local l = logs.open(t, name, packed)
            for k, length in ipairs(call_many('HMGET', t.p .. 'streams:' .. name, wanted[name])) do
                l.lengths[wanted[name][k]] = tonumber(length or 0) or 0
            end
            t.logs[name] = l
        end
    end

    function logs.length(t, name, stream) return t.logs[name].lengths[stream] end

    -- Answers the position of the last record, 0 for none.
    function logs.append(t, name, stream, bodies)
        local l, n = t.logs[name], t.logs[name].lengths[stream]
        for i, body in ipairs(bodies) do
            if l.last < l.first then l.oldest = t.now end
            l.last, l.size = l.last + 1, l.size + #body
            l.fresh[#l.fresh + 1] = { l.last, stream, n + i, body }
        end
        l.lengths[stream] = n + #bodies
        return #bodies > 0 and l.last or 0
    end

    -- ---- how much stays

    local function is_too_much(t, l)
        local number = l.last - l.first + 1
        if number <= 0 then return false end
        return (l.count > 0 and number > l.count) or (l.most > 0 and l.size > l.most) or (l.age > 0 and l.oldest + l.age <= t.now)
    end

    local function save(t, l)
        call('HSET', t.k.recorded, l.name, pack({ l.first, l.last, l.size, l.oldest, l.age, l.count, l.most }))
        if is_too_much(t, l) then
            call('ZADD', t.k.pruning, '0', l.name)
        elseif l.age > 0 and l.first <= l.last then
            call('ZADD', t.k.pruning, format('%d', l.oldest + l.age), l.name)
        else
            call('ZREM', t.k.pruning, l.name)
        end
    end

    -- How many records may be read next, by how large those before them were.
    function logs.ahead(looked, bytes)
        if looked == 0 then return FIRST_AHEAD end
        return max(1, min(logs.MOST_AHEAD, floor((logs.MOST_BYTES - bytes) / (bytes / looked + 1))))
    end

    -- Of a stream nothing of which is left not even its length is.
    local function let_go(t, l, gone)
        local forgotten = {}
        call('XTRIM', t.p .. 'records:' .. l.name, 'MINID', format('%d', l.first))
        for stream, number in pairs(gone) do
            local key = logs.key_of(t, l.name, stream)
            call('LPOP', key, format('%d', number))
            if call('EXISTS', key) == 0 then forgotten[#forgotten + 1] = stream end
        end
        call_many('HDEL', t.p .. 'streams:' .. l.name, forgotten)
    end

    -- Lets the oldest go while there is too much, so many at most; answers how many these were.
    local function prune(t, l, limit)
        local key, gone, done, bytes, going = t.p .. 'records:' .. l.name, {}, 0, 0, is_too_much(t, l)
        if not going then return 0 end
        while going do
            local number = min(limit - done + 1, logs.ahead(done, bytes))
            local page = call('XRANGE', key, format('%d', l.first), '+', 'COUNT', format('%d', number))
            if #page == 0 then going, l.first, l.size = false, l.last + 1, 0 end
            for _, entry in ipairs(page) do
                local position, at, stream, body = logs.entry(entry)
                l.first, l.oldest = position, at
                going = done < limit and bytes < logs.MOST_BYTES and is_too_much(t, l)
                if not going then break end
                gone[stream] = (gone[stream] or 0) + 1
                done, bytes = done + 1, bytes + #body
                l.first, l.size = position + 1, max(0, l.size - #body)
            end
        end
        let_go(t, l, gone)
        return done
    end

    function flow.prune_logs(t, limit)
        local done = 0
        for _, name in ipairs(call('ZRANGEBYSCORE', t.k.pruning, '-inf', t.now, 'LIMIT', 0, limit)) do
            if done >= limit then break end
            local l = logs.open(t, name, call('HGET', t.k.recorded, name))
            done = done + prune(t, l, limit - done)
            save(t, l)
        end
        return done
    end

    -- ---- writing

    local function write(t, l)
        local ends, lengths = {}, {}
        for _, record in ipairs(l.fresh) do
            local position, stream, n, body = unpack(record)
            call('XADD', t.p .. 'records:' .. l.name, format('%d-%d', position, t.now), 's', stream, 'n', format('%d', n), 'b', body)
            ends[stream] = ends[stream] or {}
            table.insert(ends[stream], format('%d', position))
        end
        for stream, positions in pairs(ends) do
            call_many('RPUSH', logs.key_of(t, l.name, stream), positions)
            lengths[#lengths + 1], lengths[#lengths + 2] = stream, format('%d', l.lengths[stream])
        end
        call_many('HSET', t.p .. 'streams:' .. l.name, lengths)
    end

    local function wake_followers(t, name, woken)
        for _, client in ipairs(call('SMEMBERS', t.p .. 'following:' .. name)) do
            if woken[client] == nil then woken[client] = call('PUBLISH', t.p .. 'to:' .. client, '') > 0 end
            if not woken[client] then
                call('SREM', t.p .. 'following:' .. name, client)
                call('SREM', t.p .. 'watching:' .. client, '\n' .. name)
            end
        end
    end

    function logs.flush(t)
        local woken = {}
        for name, l in pairs(t.logs) do
            if #l.fresh > 0 then
                write(t, l)
                prune(t, l, 2 * #l.fresh + MORE_THAN_ADDED)
                save(t, l)
                wake_followers(t, name, woken)
            end
        end
    end

    -- retain(settings, now, log, age, count, size): how much of a log stays, 0 for all. Answers nothing.
    local function retain(keys, args)
        local t, name = begin(keys, args), args[3]
        local l = logs.open(t, name, call('HGET', t.k.recorded, name))
        l.age, l.count, l.most = tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
        save(t, l)
        close_step(t)
    end

    register('retain', retain, 'allow-oom')
end
