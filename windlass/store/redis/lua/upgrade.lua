-- upgrade(settings, now, what, name): brings the keys of format 4 to where this version has them, in bounded steps. It may be called by
-- several processes at once, and again after one that died in the midst of it. `what`: 'cells', 'schedules'; 'shelf', that of the name; or 'done'.
-- Answers whether there is more of that.
--
-- Format 4 had these, which are gone after that:
-- cells          hash name -> '>I6I6' (version, when it ends), then the value; `fading` had 'c' and the name of each
-- items:<shelf>  hash key -> body
-- schedules      hash name -> MessagePack [body, next_slot, paused, version, fired, last_slot, last_at, last_job]; `timetable`: their names
local FORMER = 4
local AT_ONCE = 100
local ENDS_AT = 13

-- From the first step on, every process of the version before is refused, so that nothing is written any more where it was. Its
-- workers are woken to see that, and count as signed off: nobody is charged with the jobs they hold when their leases end.
local function shut_out(key)
    borrow()
    local p, packed = sub(key, 1, -5), call('HGET', key, 'numbers')
    if not packed or byte(packed, 1) ~= FORMER then return end
    call('EXISTS', p .. 'never')  -- see `begin`
    call('HSET', key, 'numbers', char(LIBRARY.format) .. sub(packed, 2), 'moving', '1')
    for _, worker in ipairs(call('ZRANGE', p .. 'workers', 0, -1)) do
        if call('EXISTS', p .. 'worker:' .. worker) == 1 then call('HSET', p .. 'worker:' .. worker, 'left', '1') end
        call('PUBLISH', p .. 'to:' .. worker, '')
    end
end

-- Some fields of a hash and their values; none only where there are none.
local function some(key)
    local cursor, found = '0', {}
    repeat
        cursor, found = unpack(call('HSCAN', key, cursor, 'COUNT', AT_ONCE))
    until #found > 0 or cursor == '0'
    return found
end

local PLACES = {
    { 'windlass:notices:', 'notices' }, { 'windlass:schedules:', 'schedules.declared' }, { 'lock:', 'locks' }, { 'once:', 'once' },
}

-- The shelf and the key of what was a cell.
local function place_of(name)
    for _, place in ipairs(PLACES) do
        local size = #place[1]
        if sub(name, 1, size) == place[1] then return place[2], sub(name, size + 1) end
    end
    return 'cells', name
end

local function move_cells(t)
    local found, names, marks = some(t.k.cells), {}, {}
    t.shelves = {}
    for i = 1, #found, 2 do
        local name, packed = found[i], found[i + 1]
        names[#names + 1], marks[#marks + 1] = name, 'c' .. name
        local version, ends = 0, 0
        if #packed >= ENDS_AT - 1 then version, ends = struct.unpack('>I6I6', packed) end
        if ends > t.now then
            local shelf, key = place_of(name)
            if shelf == 'notices' and key == 'book' then ends = 0 end
            t.shelves[shelf] = t.shelves[shelf] or {}
            t.shelves[shelf][key] = { version = version, body = sub(packed, ENDS_AT), ends = ends, fresh = true, changed = true }
        end
    end
    flow.flush_items(t)
    call_many('HDEL', t.k.cells, names)
    call_many('ZREM', t.k.fading, marks)
    return call('EXISTS', t.k.cells)
end

-- A schedule as windlass/operate/timetable.py reads it: its plan is JSON already.
local function schedule_of(packed)
    local fine, s = pcall(cmsgpack.unpack, packed)
    if not fine or type(s) ~= 'table' or #s ~= 8 then return nil end
    local body = '{"plan":' .. s[1] .. ',"next_slot":' .. format('%d', s[2]) .. ',"paused":' .. cjson.encode(s[3]) .. ',"fired":'
        .. format('%d', s[5]) .. ',"last_slot":' .. format('%d', s[6]) .. ',"last_at":' .. format('%d', s[7]) .. ',"last_job":'
        .. cjson.encode(s[8]) .. '}'
    return { version = s[4], body = body, ends = 0, fresh = true, changed = true }
end

local function move_schedules(t)
    local from, names = t.p .. 'schedules', {}
    local found = some(from)
    t.shelves = { schedules = {} }
    for i = 1, #found, 2 do
        names[#names + 1] = found[i]
        t.shelves.schedules[found[i]] = schedule_of(found[i + 1])
    end
    flow.flush_items(t)
    call_many('HDEL', from, names)
    if call('EXISTS', from) == 1 then return 1 end
    call('DEL', t.p .. 'timetable')
    return 0
end

-- Keys are in order already, and ends where they were.
local function move_shelf(t, name)
    local from, moved, gone = t.p .. 'items:' .. name, {}, {}
    local found = some(from)
    for i = 1, #found, 2 do
        t.rank = t.rank + 1
        gone[#gone + 1] = found[i]
        moved[i], moved[i + 1] = found[i], struct.pack('>I6', t.rank) .. found[i + 1]
    end
    call_many('HSET', t.p .. 'kept:' .. name, moved)
    call_many('HDEL', from, gone)
    return call('EXISTS', from)
end

local function upgrade(keys, args)
    shut_out(keys[1])
    local t, more = begin(keys, args), 0
    if args[3] == 'cells' then
        more = move_cells(t)
    elseif args[3] == 'schedules' then
        more = move_schedules(t)
    elseif args[3] == 'shelf' then
        more = move_shelf(t, args[4])
    else
        call('HDEL', t.meta, 'moving')
    end
    close_step(t)
    return more
end

register('upgrade', upgrade, 'allow-oom')
