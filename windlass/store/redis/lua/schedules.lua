-- Schedules: rows by name, whose bodies nobody here reads. See insert.lua for their firing.
--
-- schedules  hash name -> MessagePack [body, next_slot, paused, version, fired, last_slot, last_at, last_job]
-- timetable  sorted set of their names, in alphabetical order
-- The field `schedules` of `meta` is a number that changes with any of them.

function schedules.packed(t, name) return call('HGET', t.k.schedules, name) end

function schedules.row(t, name)
    local fine, s = pcall(cmsgpack.unpack, schedules.packed(t, name) or '')
    if not fine or type(s) ~= 'table' or #s ~= 8 then return nil end
    return {
        body = s[1], next_slot = s[2], paused = s[3], version = s[4], fired = s[5], last_slot = s[6], last_at = s[7], last_job = s[8],
    }
end

local function changed(t)
    t.rank = t.rank + 1
    t.schedules = t.rank
    call('HSET', t.meta, 'schedules', format('%d', t.rank))
end

function schedules.put(t, name, s)
    local packed = pack({ s.body, s.next_slot, s.paused, s.version, s.fired, s.last_slot, s.last_at, s.last_job })
    call('HSET', t.k.schedules, name, packed)
    call('ZADD', t.k.timetable, 0, name)
    changed(t)
    return packed
end

-- put_schedules(settings, now, puts): puts are MessagePack [[name, body, next_slot, paused, expect], …]. Answers their rows, '' where
-- another version was expected.
local function put_schedules(keys, args)
    local t, list, any = begin(keys, args), {}, false
    for i, said in ipairs(cmsgpack.unpack(args[3])) do
        local name, body, next_slot, paused, expect = unpack(said)
        local s = schedules.row(t, name)
        if expect >= 0 and expect ~= (s and s.version or 0) then
            list[i] = ''
        else
            s = s or { fired = 0, last_slot = 0, last_at = 0, last_job = '' }
            t.rank = t.rank + 1
            s.body, s.next_slot, s.paused, s.version = body, next_slot, paused, t.rank
            list[i] = schedules.put(t, name, s)
            any = true
        end
    end
    commit(t)
    if any then graphs.wake_one(t) end
    return list
end

-- drop_schedules(settings, now, name, …): answers for each whether it was there.
local function drop_schedules(keys, args)
    local t, list, any = begin(keys, args), {}, false
    for i = 3, #args do
        list[#list + 1] = call('HDEL', t.k.schedules, args[i])
        call('ZREM', t.k.timetable, args[i])
        any = any or list[#list] == 1
    end
    if any then changed(t) end
    commit(t)
    if any then graphs.wake_one(t) end
    return list
end

-- schedules(settings, now, after, limit, name, …): these, or a page of all behind a name. Answers the stamp, the store's now, the name to
-- go on from or '', then name and row for each.
local function list_schedules(keys, args)
    local t, limit, names, cursor = begin(keys, args, true), tonumber(args[4]), {}, ''
    for i = 5, #args do names[#names + 1] = args[i] end
    if #names == 0 then
        names = call('ZRANGEBYLEX', t.k.timetable, args[3] == '' and '-' or '(' .. args[3], '+', 'LIMIT', 0, limit + 1)
        if #names > limit then
            names[#names] = nil
            cursor = names[#names]
        end
    end
    local list = { format('%d', t.schedules), format('%d', t.now), cursor }
    for i, packed in ipairs(call_many('HMGET', t.k.schedules, names)) do
        if packed then
            list[#list + 1] = names[i]
            list[#list + 1] = packed
        end
    end
    return list
end

register('put_schedules', put_schedules)
register('drop_schedules', drop_schedules, 'allow-oom')
register('schedules', list_schedules, 'no-writes')
