-- Cells: named values that expire.
--
-- cells   hash name -> '>I6I6' (version, when it ends), then the value. `fading` lets them be forgotten, see flow.lua

local function read_cell(t, name)
    local packed = call('HGET', t.k.cells, name)
    if not packed or #packed < 12 then return nil end
    local version, ends = struct.unpack('>I6I6', packed)
    if ends <= t.now then return nil end
    return { version = version, ends = ends, value = sub(packed, 13) }
end

local function answer(t, cell, done)
    if not cell then return { 0, '', 0, done and 1 or 0 } end
    return { cell.version, cell.value, cell.ends - t.now, done and 1 or 0 }
end

-- swap(settings, now, name, expect, ttl, deletes, value): answers version, value, expires_in, done.
local function swap(keys, args)
    local t, name, expect, ttl = begin(keys, args), args[3], tonumber(args[4]), tonumber(args[5])
    local cell = read_cell(t, name)
    if expect >= 0 and expect ~= (cell and cell.version or 0) then return answer(t, cell, false) end
    if args[6] == '1' then
        call('HDEL', t.k.cells, name)
        call('ZREM', t.k.fading, 'c' .. name)
        cell = nil
    else
        if not (cell and cell.value == args[7]) then t.rank = t.rank + 1 end
        cell = { version = cell and cell.value == args[7] and cell.version or t.rank, ends = t.now + ttl, value = args[7] }
        call('HSET', t.k.cells, name, struct.pack('>I6I6', cell.version, cell.ends) .. cell.value)
        call('ZADD', t.k.fading, cell.ends, 'c' .. name)
    end
    commit(t)
    return answer(t, cell, true)
end

-- cells(settings, now, name, …): answers version, value, expires_in, 0 for each.
local function cells(keys, args)
    local t, list = begin(keys, args, true), {}
    for i = 3, #args do
        for _, part in ipairs(answer(t, read_cell(t, args[i]), false)) do list[#list + 1] = part end
    end
    return list
end

register('swap', swap)
register('cells', cells, 'no-writes')
