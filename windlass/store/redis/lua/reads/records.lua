-- Reading: nothing here changes anything.

-- A record as it is answered: id, body, head, progress, result, error, links; '' for what there is not.
local function add_record(t, list, id, h)
    local size = #list
    list[size + 1] = id
    for i = 2, 7 do list[size + i] = '' end
    if not h then
        -- Something is there that cannot be read: said to be damaged, until someone who may write takes it out.
        if call('HEXISTS', t.k.jobs, id) + call('HEXISTS', t.k.heads, id) > 0 then list[size + 2] = '?' end
        return
    end
    local result, problem = h[RESULT], h[ERROR]
    h[RESULT], h[ERROR] = false, false  -- they are bytes, which would not survive among the text of the others
    list[size + 2], list[size + 3] = call('HGET', t.k.jobs, id) or '', pack(h)
    list[size + 4], list[size + 5], list[size + 6] = call('HGET', t.k.progress, id) or '', result or '', problem or ''
    if h[LINKS] then list[size + 7] = call('HGET', t.k.links, id) or '' end
    h[RESULT], h[ERROR] = result, problem
end

-- get(settings, now, id, …): answers a record for each, see `add_record`.
local function get(keys, args)
    local t, list, ids = begin(keys, args, true), {}, {}
    for i = 3, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if h and graphs.is_hidden(t, h) then
            for _, part in ipairs({ id, '', '', '', '', '', '' }) do list[#list + 1] = part end
        else
            add_record(t, list, id, h)
        end
    end
    return list
end

-- lines(settings, now, id, after, limit): answers packed lines: [n, at, level, text].
local function lines(keys, args)
    local t, after, limit = begin(keys, args, true), tonumber(args[4]), tonumber(args[5])
    local h, key = row(t, args[3]), t.p .. 'logs:' .. args[3]
    if not h or h[LOGGED] == 0 then return {} end
    local from = max(0, after + 1 - (h[LOGGED] - call('LLEN', key)))
    return call('LRANGE', key, from, from + limit - 1)
end

register('get', get, 'no-writes')
register('lines', lines, 'no-writes')
