-- Queues and workers as a whole.

-- For queues with ready jobs, the job at the head of each order it has: ids, and of which queue each is.
local function heads_of_queues(t, ready, laned)
    local ids, owners, groups, solos = {}, {}, {}, {}
    local function note(key, queue)
        local id = call('ZRANGE', t.p .. key, '0', '0')[1]
        if id then ids[#ids + 1], owners[#owners + 1] = id, queue end
    end
    for _, group in ipairs(call('HKEYS', t.k.asides)) do
        local queue = string.match(group, '^(.-)\n')
        groups[queue] = groups[queue] or {}
        table.insert(groups[queue], 'aside:' .. group)
    end
    for i, queue in ipairs(ready) do solos[i] = t.p .. 'solo:' .. queue end
    local alone = #solos > 0 and (#solos > CHUNK or call('EXISTS', unpack(solos)) > 0)
    for _, queue in ipairs(ready) do
        note('ready:' .. queue, queue)
        if alone then note('solo:' .. queue, queue) end
        for _, key in ipairs(groups[queue] or {}) do note(key, queue) end
        if laned[queue] then
            for _, key in ipairs(lanes.keys(t, queue, 100)) do note(key, queue) end
        end
    end
    return ids, owners
end

-- When jobs were accepted, false where a record cannot be read.
local function accepted_at(t, ids)
    local times, bare, places = {}, {}, {}
    for i, packed in ipairs(call_many('HMGET', t.k.heads, ids)) do
        local fine, _, _, at = pcall(unpack_limit, packed or '', 2, 3)
        times[i] = fine and type(at) == 'number' and at
        if not packed then bare[#bare + 1], places[#places + 1] = ids[i], i end
    end
    for k, raw in ipairs(call_many('HMGET', t.k.jobs, bare)) do
        times[places[k]] = raw and #raw >= PREFIX and select(2, struct.unpack('>I5I6', raw))
    end
    return times
end

local function pairs_of(list)
    local found = {}
    for i = 1, #list, 2 do found[list[i]] = list[i + 1] end
    return found
end

-- queues(settings, now): answers the counts (state code and queue, number, …), per queue with ready jobs how long the oldest of those at
-- the head has waited, how many lanes have ready jobs (queue, number, …), and what is said of their gates (queue, declared, tuned, …).
local function queues(keys, args)
    local t, ages, ready, oldest = begin(keys, args, true), {}, {}, {}
    local counts, laned = call('HGETALL', t.k.counts), call('HGETALL', t.k.laned)
    for i = 1, #counts, 2 do
        if byte(counts[i], 1) == 48 + READY and tonumber(counts[i + 1]) > 0 then ready[#ready + 1] = sub(counts[i], 2) end
    end
    local ids, owners = heads_of_queues(t, ready, pairs_of(laned))
    for i, at in ipairs(accepted_at(t, ids)) do
        local queue = owners[i]
        if at and (not oldest[queue] or at < oldest[queue]) then oldest[queue] = at end
    end
    for queue, at in pairs(oldest) do
        ages[#ages + 1] = queue
        ages[#ages + 1] = format('%d', t.now - at)
    end
    local said = {}
    for name, gate in pairs(gates.all(t)) do
        local queue = string.match(name, '^queue:(.*)$')
        if queue then
            for _, part in ipairs({ queue, gate.declared, gate.tuned }) do said[#said + 1] = part end
        end
    end
    return { counts, ages, laned, said }
end

-- workers(settings, now): answers for each: presence, beat age, alive, running, idle.
local function workers(keys, args)
    local t, list = begin(keys, args, true), {}
    for _, id in ipairs(call('ZRANGE', t.k.workers, 0, -1)) do
        local w = call('HMGET', t.p .. 'worker:' .. id, 'presence', 'beat', 'dead', 'until', 'lease', 'idle')
        if w[1] then
            local ends, lease = tonumber(w[4]), tonumber(w[5])
            -- With the extension that the next step which writes would give it.
            if ends > t.last and t.gap > lease / 2 then ends = ends + t.gap end
            local size = #list
            list[size + 1], list[size + 2] = w[1], t.now - tonumber(w[2])
            list[size + 3] = (w[3] ~= '1' and ends > t.now) and 1 or 0
            list[size + 4], list[size + 5] = call('HLEN', t.p .. 'held:' .. id), tonumber(w[6])
        end
    end
    return list
end

register('queues', queues, 'no-writes')
register('workers', workers, 'no-writes')
