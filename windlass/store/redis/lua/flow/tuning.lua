-- Tuning: what is said of gates, by workers and operators, and gates as they are read.

-- tune(settings, now, tunings)
--   tunings  MessagePack: [[name, expected version or -1, declared or false, tuned or false, closed_for or -1, note or false], …]
-- Answers for each: name, version, declared, tuned, closed_for, note, held, waiting, opens_in, changed.

local GATE = 10

local function add_gate(t, list, name, gate, changed)
    local size, opens_in, held = #list, 0, 0
    local closed = gate and max(0, gate.closed - t.now) or 0
    if gate and gate.limit > 0 then held = gates.tally(t, name)[1] end
    if gate and gate.every > 0 then
        local now, tat = t.now * 1000, gates.tally(t, name)[2]
        opens_in = max(0, math.ceil((max(tat, now) + gate.every - max(gate.burst, 1) * gate.every - now) / 1000))
    end
    opens_in = max(opens_in, closed)
    list[size + 1], list[size + 2], list[size + 3] = name, gate and gate.version or 0, gate and gate.declared or ''
    list[size + 4], list[size + 5], list[size + 6] = gate and gate.tuned or '', closed, gate and gate.note or ''
    list[size + 7], list[size + 8], list[size + 9] = held, gates.waiting(t, name), opens_in
    list[size + GATE] = changed and 1 or 0
end

-- A key's gate by its name: queues and keys may have colons in theirs.
local function add_key_gate(t, list, name)
    local rest, at = sub(name, 5), 0
    while true do
        at = string.find(rest, ':', at + 1, true)
        if not at then return add_gate(t, list, name, nil) end
        local queue, key = sub(rest, 1, at - 1), sub(rest, at + 1)
        local gate = gates.of_key(queue, key)
        if call('HEXISTS', t.k.tallies, gate) == 1 then
            add_gate(t, list, name, nil)
            local waiting = 0
            for _, lane in ipairs({ 'k' .. key, 'o' .. key, 's' .. key }) do
                local stay = lanes.stay(t, queue, lane)
                if stay and stay[2] == gate then waiting = waiting + 1 end
            end
            local opens = call('ZSCORE', t.k.openings, 'g' .. gate)
            list[#list - 3], list[#list - 2] = gates.tally(t, gate)[1], waiting
            if opens then list[#list - 1] = max(0, tonumber(opens) - t.now) end
            return
        end
    end
end

-- gates(settings, now, name, …): the gates of these names, or all there are. Answers for each what `tune` does.
local function gates_of(keys, args)
    local t, list, names = begin(keys, args, true), {}, {}
    local rows = gates.all(t)
    for i = 3, #args do names[#names + 1] = args[i] end
    if #names == 0 then
        for name in pairs(rows) do names[#names + 1] = name end
        table.sort(names)
    end
    for _, name in ipairs(names) do
        if not rows[name] and sub(name, 1, 4) == 'key:' then add_key_gate(t, list, name) else add_gate(t, list, name, rows[name]) end
    end
    return list
end

-- Limits that say nothing of anything; they are kept as ''.
local SILENT = '\151\192\192\192\192\192\192\192'

-- One tuning: the gate as it is then, and whether it is another than before.
local function tune_one(t, rows, said)
    local name, expect, declared, tuned, closed_for, note = unpack(said)
    local gate = rows[name]
    if expect >= 0 and expect ~= (gate and gate.version or 0) then return gate, false end
    local before = gate or { declared = '', tuned = '', closed = 0, note = '', paused = false, version = 0 }
    local closed = before.closed
    if closed_for >= 0 then closed = closed_for > 0 and t.now + closed_for or 0 end
    local wanted = { 0, declared or before.declared, tuned or before.tuned, closed, note or before.note }
    for place = 2, 3 do
        if wanted[place] == SILENT then wanted[place] = '' end
    end
    if wanted[2] == before.declared and wanted[3] == before.tuned and closed == before.closed and wanted[5] == before.note then
        return gate, true
    end
    t.rank = t.rank + 1
    wanted[1] = t.rank
    local packed = pack(wanted)
    gate = gates.row(packed)
    rows[name], t.tuned[name] = gate, t.tuned[name] or before
    call('HSET', t.k.gates, name, packed)
    local data = '{}'
    if gate.paused ~= before.paused then
        data = '{"paused":' .. tostring(gate.paused) .. '}'
    elseif closed_for >= 0 and closed ~= before.closed then
        data = '{"closed_for":' .. format('%d', closed_for) .. '}'
    end
    news(t, 'gate_changed', '', name, '', '', data)
    return gate, true
end

-- Units are counted only while there is a limit: anew when there is one again.
local function count_anew(t, rows)
    local wanted = {}
    for name, before in pairs(t.tuned) do
        if rows[name].limit > 0 and (before.limit or 0) <= 0 then wanted[name] = true end
    end
    local sums = next(wanted) and gates.count(t, wanted) or {}
    for name, before in pairs(t.tuned) do
        local gate, tally = rows[name], gates.tally(t, name)
        if wanted[name] then tally[1], tally.dirty = sums[name] or 0, true end
        if gate.limit <= 0 and (before.limit or 0) > 0 then tally[1], tally.dirty = 0, true end
        -- What a slower rate was charged must not count beyond the new one's burst.
        local latest = t.now * 1000 + gate.burst * gate.every
        local changed = gate.every ~= before.every or gate.burst ~= before.burst
        if gate.every > 0 and changed and tally[2] > latest then tally[2], tally.dirty = latest, true end
    end
end

-- What may go on now, or rings at another time than before.
local function open_tuned(t, rows)
    for name, before in pairs(t.tuned) do
        local gate, kind, of = rows[name], string.match(name, '^(%l+):(.*)$')
        call('ZREM', t.k.openings, 'g' .. name)
        t.freed[name] = 'all'
        if kind == 'queue' then
            gates.note_queue(t, of)
            if gate.key_limit ~= before.key_limit or gate.key_every ~= before.key_every or gate.key_burst ~= before.key_burst then
                t.freed['keys:' .. of] = 'all'
            end
        end
    end
end

local function tune(keys, args)
    local t, list, infos = begin(keys, args), {}, {}
    local rows, said = gates.all(t), cmsgpack.unpack(args[3])
    t.tuned = {}
    for i, one in ipairs(said) do
        local gate, done = tune_one(t, rows, one)
        infos[i] = { one[1], gate, done }
    end
    if next(t.tuned) then
        t.due_before = next_due(t)
        gates.stamp(t, rows)
        count_anew(t, rows)
        open_tuned(t, rows)
    end
    close_step(t)
    for _, one in ipairs(infos) do add_gate(t, list, one[1], one[2] and rows[one[1]], one[3]) end
    gates.forget(t, rows, t.tuned)
    return list
end

register('tune', tune)
register('gates', gates_of, 'no-writes')
