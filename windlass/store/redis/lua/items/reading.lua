-- Reading of logs: a page ends after so many records or bytes. See logs.lua for how they are kept.
do
    -- Adds what is between two positions, until a page is full.
    local function read_run(key, from, to, limit, found)
        local list = found.list
        while #list < limit and found.bytes < logs.MOST_BYTES do
            local count = min(limit - #list, logs.ahead(#list, found.bytes))
            local page = call('XRANGE', key, format('%d', from), to, 'COUNT', format('%d', count))
            for _, entry in ipairs(page) do
                list[#list + 1], found.bytes = entry, found.bytes + #(entry[2][6] or '')
            end
            if #page < count then return end
            from = logs.entry(page[#page]) + 1
        end
    end

    -- The position of the first record that is not older than a time: times never run backwards in a log.
    local function first_since(key, l, since)
        local low, high = l.first, l.last + 1
        while low < high do
            local middle = floor((low + high) / 2)
            local entry = call('XRANGE', key, format('%d', middle), format('%d', high - 1), 'COUNT', '1')[1]
            local position, at
            if entry then position, at = logs.entry(entry) end
            if not entry or at >= since then high = middle else low = position + 1 end
        end
        return low
    end

    -- From which place on the positions of a stream are not below one.
    local function first_place(key, place, size, position)
        local low, high = place, size
        while low < high do
            local middle = floor((low + high) / 2)
            if tonumber(call('LINDEX', key, format('%d', middle))) >= position then high = middle else low = middle + 1 end
        end
        return low
    end

    -- Positions that follow one another are read at once.
    local function read_positions(key, positions, limit, found)
        local from = 1
        for i, position in ipairs(positions) do
            if not positions[i + 1] or positions[i + 1] - position ~= 1 then
                read_run(key, tonumber(positions[from]), position, limit, found)
                from = i + 1
            end
        end
    end

    local function read_stream(t, name, stream, after, first, limit, found)
        local key = logs.key_of(t, name, stream)
        local size, length = call('LLEN', key), tonumber(call('HGET', t.p .. 'streams:' .. name, stream) or 0) or 0
        local place = max(0, after - max(0, length - size))
        if first > 0 then place = first_place(key, place, size, first) end
        while place < size and #found.list < limit and found.bytes < logs.MOST_BYTES do
            local last = place + min(logs.MOST_AHEAD, limit - #found.list) - 1
            read_positions(t.p .. 'records:' .. name, call('LRANGE', key, format('%d', place), format('%d', last)), limit, found)
            place = last + 1
        end
    end

    -- records(settings, now, log, after, limit, since, stream): of all streams if none is given. Answers the entries as they are.
    local function records(keys, args)
        local t, name, after, limit, since = begin(keys, args, true), args[3], tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
        local key, found, first = t.p .. 'records:' .. name, { list = {}, bytes = 0 }, 0
        if since > 0 then first = first_since(key, logs.open(t, name, call('HGET', t.k.recorded, name)), since) end
        if args[7] then
            read_stream(t, name, args[7], after, first, limit, found)
        else
            read_run(key, max(first, after + 1), '+', limit, found)
        end
        return found.list
    end

    -- logs(settings, now, name, …): these, or all there are. Answers of each its name, first, last, size, age, count and most.
    local function list_logs(keys, args)
        local t, names, list = begin(keys, args, true), {}, {}
        for i = 3, #args do names[#names + 1] = args[i] end
        if #names == 0 then names = call('HKEYS', t.k.recorded) end
        for i, packed in ipairs(call_many('HMGET', t.k.recorded, names)) do
            local l = logs.open(t, names[i], packed)
            for _, said in ipairs({ l.name, l.first, l.last, l.size, l.age, l.count, l.most }) do list[#list + 1] = said end
        end
        return list
    end

    register('records', records, 'no-writes')
    register('logs', list_logs, 'no-writes')
end
