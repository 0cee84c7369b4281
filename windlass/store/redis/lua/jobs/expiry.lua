-- What time does to single jobs: due, and over.

local function expire(t, id, h)
    unplace(t, id, h)
    if h[EXPIRE_TO] == FAILED then
        h[ERROR], h[FINGERPRINT] = LIBRARY.errors.expired, 'expired'
    end
    finish(t, id, h, h[EXPIRE_TO], 'expired', '')
    job_news(t, STATES[h[EXPIRE_TO]], '', id, h, reason_data('expired'))
end

-- Due jobs become ready, in the order they were due and came in; how many per queue.
local function promote(t, limit)
    local ids = call('ZRANGEBYSCORE', t.k.due, '-inf', t.now, 'LIMIT', 0, limit)
    local promoted, found = {}, {}
    load(t, ids)
    for _, id in ipairs(ids) do
        local h = row(t, id)
        rem(t, 'due', id)
        if is_lost(h) then
            mend(t, id, nil, SCHEDULED)
        elseif h[STATE] == SCHEDULED then
            found[#found + 1] = { id, h }
        end
    end
    table.sort(found, function(a, b)
        if a[2][DUE] ~= b[2][DUE] then return a[2][DUE] < b[2][DUE] end
        return a[2][N] < b[2][N]
    end)
    for _, one in ipairs(found) do
        make_ready(t, one[1], one[2], false, one[2][DUE])
        if one[2][HOLD] ~= LANE then promoted[one[2][QUEUE]] = (promoted[one[2][QUEUE]] or 0) + 1 end
    end
    return promoted, #found
end
