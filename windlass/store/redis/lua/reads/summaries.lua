-- What was counted all along: for those who look at the whole.

-- totals(settings, now): answers kind, queue and task in one name, number, …
local function totals(keys, args)
    local t = begin(keys, args, true)
    return call('HGETALL', t.k.totals)
end

-- faults(settings, now, limit): answers fingerprint, how many dead letters, the newest of them, …
local function list_faults(keys, args)
    local t, list = begin(keys, args, true), {}
    local found = call('ZREVRANGE', t.k.faults, 0, tonumber(args[3]) - 1, 'WITHSCORES')
    for i = 1, #found, 2 do
        local mark = sub(found[i], 6)
        local newest = call('ZREVRANGE', t.p .. 'failed:mark:' .. mark, '0', '0')[1]
        if newest then
            local size = #list
            list[size + 1], list[size + 2], list[size + 3] = mark, tonumber(found[i + 1]), newest
        end
    end
    return list
end

register('totals', totals, 'no-writes')
register('faults', list_faults, 'no-writes')
