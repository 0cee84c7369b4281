-- The event stream as it is read, where only some kinds are wanted.
local PAGE, MOST_LOOKED, MOST_BYTES = 20, 2000, 250000

-- The groups of an entry that are of these kinds, packed; nil where there is none. Most entries are passed over by how they look: a
-- group begins with its kind.
local function only(packed, kinds, starts)
    local likely = false
    for _, start in ipairs(starts) do likely = likely or string.find(packed, start, 1, true) end
    if not likely then return nil end
    local fine, entry = pcall(cmsgpack.unpack, packed)
    if not fine or type(entry) ~= 'table' or type(entry[2]) ~= 'table' then return nil end
    local groups = {}
    for _, group in ipairs(entry[2]) do
        if type(group) == 'table' and kinds[group[1]] then groups[#groups + 1] = group end
    end
    return #groups > 0 and pack({ entry[1], groups }) or nil
end

-- events(settings, now, from, newest, limit, kind, …): entries behind the place `from`, the oldest first; with newest = '1' before it,
-- the newest first. Answers the place to go on from, or '' at the end of the stream, then place and entry of each.
local function events(keys, args)
    local t, from, limit, kinds, starts = begin(keys, args, true), args[3], tonumber(args[5]), {}, {}
    local command, far = 'XRANGE', '+'
    if args[4] == '1' then command, far = 'XREVRANGE', '-' end
    for i = 6, #args do
        kinds[args[i]] = true
        starts[#starts + 1] = '\150' .. text(args[i])
    end
    local list, looked, bytes = { '' }, 0, 0
    while true do
        local page = call(command, t.k.events, from, far, 'COUNT', PAGE)
        for _, one in ipairs(page) do
            local packed = one[2][2]
            local kept = only(packed, kinds, starts)
            from, looked, bytes = '(' .. one[1], looked + 1, bytes + #packed
            if kept then list[#list + 1], list[#list + 2] = one[1], kept end
            if #list > 2 * limit then return list end
        end
        if #page < PAGE then return list end
        if looked >= MOST_LOOKED or bytes >= MOST_BYTES then
            list[1] = from
            return list
        end
    end
end

register('events', events, 'no-writes')
