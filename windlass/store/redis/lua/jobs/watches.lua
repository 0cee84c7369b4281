-- Waiting for jobs and for events.
local WATCH_SECONDS = 3600

local function log_of(id) return byte(id, 1) == 10 and sub(id, 2) or nil end

-- watch(settings, now, client, id, …): answers MessagePack [finished, missing] and remembers the rest. '*' is every event, a newline and a name
-- behind it every append to a log.
local function watch(keys, args)
    local t, client = begin(keys, args, true), args[3]
    local finished, missing, ids = {}, {}, {}
    local mine = t.p .. 'watching:' .. client
    for i = 4, #args do
        local log = log_of(args[i])
        if log then
            call('SADD', t.p .. 'following:' .. log, client)
            call('SADD', mine, args[i])
        else
            ids[#ids + 1] = args[i]
        end
    end
    load_all(t, ids)
    for _, id in ipairs(ids) do
        local h = id ~= '*' and row(t, id)
        if h and graphs.is_hidden(t, h) then h = nil end
        if id == '*' then
            call('SADD', t.k.followers, client)
            call('HSET', t.meta, 'followed', '1')
        elseif not h then
            missing[#missing + 1] = id
        elseif h[STATE] > RUNNING then
            finished[#finished + 1] = pack_finished(id, h)
        else
            local names = call('HGET', t.k.watched, id) or ''
            if not string.find('\n' .. names, '\n' .. client .. '\n', 1, true) then
                call('HSET', t.k.watched, id, names .. client .. '\n')
            end
            call('SADD', mine, id)
        end
    end
    call('EXPIRE', mine, WATCH_SECONDS)
    return '\146\221' .. struct.pack('>I4', #finished) .. concat(finished) .. list_of(missing)
end

local function forget_watch(t, client, id)
    call('SREM', t.p .. 'watching:' .. client, id)
    local log = log_of(id)
    if log then return call('SREM', t.p .. 'following:' .. log, client) end
    local names = call('HGET', t.k.watched, id)
    if not names then return end
    local left = {}
    for name in string.gmatch(names, '[^\n]+') do
        if name ~= client then left[#left + 1] = name .. '\n' end
    end
    if #left > 0 then call('HSET', t.k.watched, id, concat(left)) else call('HDEL', t.k.watched, id) end
end

-- unwatch(settings, now, client, all, id, …): forgets some of a client's watches, or with all = '1' every one, up to a bound: answers
-- whether there are more.
local function unwatch(keys, args)
    local t, client = begin(keys, args, true), args[3]
    for i = 5, #args do
        if args[i] == '*' then call('SREM', t.k.followers, client) else forget_watch(t, client, args[i]) end
    end
    if args[4] == '1' then
        call('SREM', t.k.followers, client)
        for _, id in ipairs(call('SPOP', t.p .. 'watching:' .. client, CHUNK)) do forget_watch(t, client, id) end
    end
    return call('EXISTS', t.p .. 'watching:' .. client)
end

-- signal(settings, now, name, …): a plain wake-up for whoever listens to these names. Answers nothing.
local function signal(keys, args)
    local t = begin(keys, args, true)
    for i = 3, #args do call('PUBLISH', t.p .. 'to:' .. args[i], '') end
end

register('watch', watch, 'allow-oom')
register('signal', signal, 'allow-oom')
register('unwatch', unwatch, 'allow-oom')
