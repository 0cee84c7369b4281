-- Items: named values on shelves, each with a version. They are written by commits, see commit.lua.
--
-- shelf:<name>  sorted set of the keys, all with score 0: so they are in the order of their bytes, which is that of code points
-- kept:<name>   hash key -> '>I6' (its version), then the body as it came
-- passing       sorted set of what ends, by time: '>I2' (the length of the name), name, key. Sweeps forget it, see flow/terms.lua
--
-- What a step looks at is read at once, and stays in `t.shelves` (shelf -> key -> item) until it is written at the end: a later commit
-- of the same call finds there what an earlier one did.
local items = {}
do
    local VERSION = 6
    local WRITES, TAKES_OFF = 1, 2

    -- `passes`: it is among what passes, though perhaps it is gone.
    local function item_of(t, packed, ends)
        ends = ends and tonumber(ends)
        if not packed or #packed < VERSION or (ends and ends <= t.now) then return { version = 0, body = '', ends = 0, passes = ends } end
        return { version = struct.unpack('>I6', packed), packed = packed, ends = ends or 0, passes = ends }
    end

    local function marks_of(name, list)
        local marks = {}
        for i, key in ipairs(list) do marks[i] = flow.passing_name(name, key) end
        return marks
    end

    -- `wanted`: shelf -> list of keys.
    function items.load(t, wanted)
        t.shelves = {}
        for name, list in pairs(wanted) do
            local found, ends = {}, call_many('ZMSCORE', t.k.passing, marks_of(name, list))
            for i, packed in ipairs(call_many('HMGET', t.p .. 'kept:' .. name, list)) do found[list[i]] = item_of(t, packed, ends[i]) end
            t.shelves[name] = found
        end
    end

    local function body_of(item)
        if not item.body then item.body = sub(item.packed, VERSION + 1) end
        return item.body
    end

    local function is_same(item, body)
        if item.version == 0 or (item.packed and #item.packed ~= VERSION + #body) then return false end
        return body_of(item) == body
    end

    -- The body that is there already keeps its version.
    function items.write(t, put)
        local item = put.item
        if put.what == TAKES_OFF then
            item.version, item.body, item.packed, item.ends, item.changed = 0, '', nil, 0, true
        elseif put.what == WRITES then
            if not is_same(item, put.body) then
                t.rank = t.rank + 1
                item.version, item.body, item.packed, item.fresh = t.rank, put.body, nil, true
            end
            item.ends, item.changed = put.ttl > 0 and t.now + put.ttl or 0, true
        end
    end

    -- Version, what is left of its time, and the body of what a put was about; false for the body that it brought itself.
    function items.show(t, put)
        local item = put.item
        local body = body_of(item)
        return item.version, item.ends > 0 and item.ends - t.now or 0, body ~= put.body and body
    end

    local function flush_shelf(t, name, shelf, passing, staying)
        local listed, bodies, gone = {}, {}, {}
        for key, item in pairs(shelf) do
            if item.changed and item.version == 0 then
                gone[#gone + 1] = key
            elseif item.fresh then
                local size = #listed
                listed[size + 1], listed[size + 2] = '0', key
                bodies[size + 1], bodies[size + 2] = key, struct.pack('>I6', item.version) .. item.body
            end
            if item.changed and item.ends > 0 then
                passing[#passing + 1], passing[#passing + 2] = format('%d', item.ends), flow.passing_name(name, key)
            elseif item.changed and item.passes then
                staying[#staying + 1] = flow.passing_name(name, key)
            end
        end
        call_many('ZADD', t.p .. 'shelf:' .. name, listed)
        call_many('HSET', t.p .. 'kept:' .. name, bodies)
        call_many('ZREM', t.p .. 'shelf:' .. name, gone)
        call_many('HDEL', t.p .. 'kept:' .. name, gone)
    end

    function flow.flush_items(t)
        local passing, staying = {}, {}
        for name, shelf in pairs(t.shelves) do flush_shelf(t, name, shelf, passing, staying) end
        call_many('ZADD', t.k.passing, passing)
        call_many('ZREM', t.k.passing, staying)
    end

    -- ---- reading

    local PAGE = 100
    local MOST_LOOKED, MOST_BYTES = 2000, 500000

    -- items(settings, now, shelf, key, …): answers what is left of its time and the item as it is kept, or 0 and '', for each.
    local function list_items(keys, args)
        local t, name, list, answers = begin(keys, args, true), args[3], {}, {}
        for i = 4, #args do list[#list + 1] = args[i] end
        local ends = call_many('ZMSCORE', t.k.passing, marks_of(name, list))
        for i, packed in ipairs(call_many('HMGET', t.p .. 'kept:' .. name, list)) do
            local item = item_of(t, packed, ends[i])
            answers[2 * i - 1], answers[2 * i] = item.ends > 0 and item.ends - t.now or 0, item.packed or ''
        end
        return answers
    end

    -- Adds those of some keys that are not gone; answers how large they are.
    local function add_items(t, name, found, list)
        local bytes, ends = 0, call_many('ZMSCORE', t.k.passing, marks_of(name, found))
        for i, packed in ipairs(call_many('HMGET', t.p .. 'kept:' .. name, found)) do
            local item = item_of(t, packed, ends[i])
            if item.packed then
                local size = #list
                list[size + 1], list[size + 2], list[size + 3] = found[i], item.ends > 0 and item.ends - t.now or 0, item.packed
                bytes = bytes + #item.packed
            end
        end
        return bytes
    end

    -- shelf(settings, now, name, newest first, from, to, limit): `from` and `to` are written as ZRANGEBYLEX wants them.
    -- Answers 1 and the key to go on behind if there may be more, or 0 and ''; then of each its key, what is left of its time, and the item
    -- as it is kept.
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

    register('items', list_items, 'no-writes')
    register('shelf', shelf, 'no-writes')
end
