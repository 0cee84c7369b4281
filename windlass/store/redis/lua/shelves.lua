-- Shelves: ordered maps of names to bytes, for what is not a job.
--
-- shelf:<name>   sorted set of the keys, all with score 0: so they are in the order of their bytes, which is that of code points
-- items:<name>   hash key -> body, as it came: to put anything before it would cost more than all the rest
-- passing        sorted set of what ends, by time: '>I2' (the length of the name), name, key. Sweeps forget it, see flow.lua

local PAGE = 100
local MOST_LOOKED, MOST_BYTES = 2000, 500000

-- shelve(settings, now, name, key, ttl, body, …): a ttl of -1 takes an item off, 0 keeps it for ever. What is said last of a key holds.
local function shelve(keys, args)
    local t, shelves, passing, staying = begin(keys, args), {}, {}, {}
    for at = 3, #args, 4 do
        local name, key = args[at], args[at + 1]
        shelves[name] = shelves[name] or {}
        shelves[name][key] = at + 2
    end
    for name, said in pairs(shelves) do
        local listed, bodies, gone = {}, {}, {}
        for key, at in pairs(said) do
            local ttl, mark = tonumber(args[at]), flow.passing_name(name, key)
            if ttl < 0 then
                gone[#gone + 1] = key
            else
                listed[#listed + 1], listed[#listed + 2] = '0', key
                bodies[#bodies + 1], bodies[#bodies + 2] = key, args[at + 1]
            end
            if ttl > 0 then
                passing[#passing + 1], passing[#passing + 2] = format('%d', t.now + ttl), mark
            else
                staying[#staying + 1] = mark
            end
        end
        call_many('ZADD', t.p .. 'shelf:' .. name, listed)
        call_many('HSET', t.p .. 'items:' .. name, bodies)
        call_many('ZREM', t.p .. 'shelf:' .. name, gone)
        call_many('HDEL', t.p .. 'items:' .. name, gone)
    end
    call_many('ZADD', t.k.passing, passing)
    call_many('ZREM', t.k.passing, staying)
    commit(t)
end

-- Adds those of some keys that are not gone; answers how large they are.
local function add_items(t, name, found, list)
    local bytes, marks = 0, {}
    for i, key in ipairs(found) do marks[i] = flow.passing_name(name, key) end
    local ends, bodies = call_many('ZMSCORE', t.k.passing, marks), call_many('HMGET', t.p .. 'items:' .. name, found)
    for i, key in ipairs(found) do
        local left = ends[i] and tonumber(ends[i]) - t.now
        if bodies[i] and (not left or left > 0) then
            local size = #list
            list[size + 1], list[size + 2], list[size + 3] = key, left or 0, bodies[i]
            bytes = bytes + #bodies[i]
        end
    end
    return bytes
end

-- shelf(settings, now, name, newest first, from, to, limit): `from` and `to` are written as ZRANGEBYLEX wants them.
-- Answers 1 and the key to go on behind if there may be more, or 0 and ''; then key, what is left of its ttl, and body of each.
local function shelf(keys, args)
    local t, name, from, limit = begin(keys, args, true), args[3], args[5], tonumber(args[7])
    local command = args[4] == '1' and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
    local list, looked, bytes = { 0, '' }, 0, 0
    while true do
        local page = min(PAGE, limit - (#list - 2) / 3)
        local found = call(command, t.p .. 'shelf:' .. name, from, args[6], 'LIMIT', 0, format('%d', page))
        bytes, looked = bytes + add_items(t, name, found, list), looked + #found
        if #found < page or (#list - 2) / 3 >= limit then return list end
        from = '(' .. found[#found]
        if looked >= MOST_LOOKED or bytes >= MOST_BYTES then
            list[1], list[2] = 1, found[#found]
            return list
        end
    end
end

register('shelve', shelve)
register('shelf', shelf, 'no-writes')
