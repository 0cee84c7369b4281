-- What keeps single jobs: the gates, lanes and unique keys of those that wait.

-- What keeps a job that is in a lane.
local function hold_in_lane(t, id, h)
    local lane, queue = lanes.name(h), h[QUEUE]
    local stay, gate, holder, missing, opens_in = lanes.stay(t, queue, lane), '', '', 0, -1
    local s = lanes.is_strict(lane) and lanes.strict(t, queue, lane)
    if s and s[1] ~= id then holder = s[1] end
    if not stay or stay[1] == 'g' then
        local head = stay and stay[3] or call('ZRANGE', t.p .. 'lane:' .. queue .. '\n' .. lane, '0', '0')[1]
        local shut, opens = lanes.closed_for(t, queue, lane, head or id)
        gate = shut or ''
        if shut and opens then opens_in = max(0, opens - t.now) end
    elseif stay[1] == 'n' and s then
        missing = s[2]
        local at = call('ZSCORE', t.k.openings, 'l' .. queue .. '\n' .. lane)
        if at then opens_in = max(0, tonumber(at) - t.now) end
    end
    local ahead = call('ZRANK', t.p .. 'lane:' .. queue .. '\n' .. lane, id) or 0
    if s and s[1] == id then ahead = 0 end
    return { 'lane', lane, (string.gsub(gate, '\n', ':', 1)), holder, missing, opens_in, ahead }
end

-- holds(settings, now, id, …): answers for each MessagePack [kind, lane, gate, holder, missing, opens_in, ahead], '' where nothing keeps it.
local function holds(keys, args)
    local t, list, ids = begin(keys, args, true), {}, {}
    for i = 3, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    for i, id in ipairs(ids) do
        local h = row(t, id)
        local terms, found = h and flow.terms(h), nil
        if h and h[STATE] == READY and h[HOLD] == LANE then
            found = hold_in_lane(t, id, h)
        elseif h and h[STATE] == READY and h[HOLD] ~= NOT_HELD then
            found = { h[HOLD] == SOLO and 'solo' or 'aside', '', '', '', 0, -1, 0 }
        elseif h and h[STATE] == WAITING and terms and terms.unique ~= '' then
            local held = unique.held(t, terms.unique)
            if held and held[2] == id then found = { 'successor', '', '', held[1], 0, -1, 0 } end
        end
        list[i] = found and pack(found) or ''
    end
    return list
end

-- uniques(settings, now, key, …): answers for each: holder, or '' where nobody has it, successor, and how long its window lasts.
local function uniques(keys, args)
    local t, list = begin(keys, args, true), {}
    for i = 3, #args do
        local held, size = unique.held(t, args[i]), #list
        list[size + 1], list[size + 2] = held and held[1] or '', held and held[2] or ''
        list[size + 3] = held and max(0, held[3] - t.now) or 0
    end
    return list
end

register('holds', holds, 'no-writes')
register('uniques', uniques, 'no-writes')
