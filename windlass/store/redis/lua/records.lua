-- Records: how a job is kept, and how bytes become rows and rows bytes.
--
-- jobs   id -> body   written once: '>I5I6' (number, accepted at), then MessagePack: task, version, queue, priority,
--                     payload, meta. The last two are binary and never looked into.
-- heads  id -> head   what changes: a MessagePack array, the fields below. A job has none as long as it is as it came
--                     in (ready, or running for the first time, all options default): most jobs wait like that, and
--                     cost less memory so.
-- links  id -> what a node of a graph came with, see graphs/nodes.lua.
-- held:<worker>  id -> stamp   what a worker runs; the stamp of a job that has a head is empty.

-- Lua's own libraries are not there yet while this one is loaded: every step begins by making sure of them.
local call, pack, unpack_limit, sub, byte, char, format, concat, floor, min, max
local function borrow()
    if call then return end
    call, pack, unpack_limit = redis.call, cmsgpack.pack, cmsgpack.unpack_limit
    sub, byte, char, format, concat = string.sub, string.byte, string.char, string.format, table.concat
    floor, min, max = math.floor, math.min, math.max
end

local N, AT, TASK, VERSION, QUEUE, PRIORITY, STATE, RUN, EPOCH, SEQ, ATTEMPT, CRASHES, SNOOZES = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
local WORKER, STARTED, RANK, FINISHED, DUE, EXPIRES, EXPIRE_TO, MAX_CRASHES, CRASH_DELAY = 14, 15, 16, 17, 18, 19, 20, 21, 22
local HOLD, ASIDE_AT, CANCEL, LOGGED, KEEP_DONE, KEEP_FAILED, REASON, FINGERPRINT, RESULT, ERROR = 23, 24, 25, 26, 27, 28, 29, 30, 31, 32
-- TERMS: under which a job may start, as it came with them (see flow/terms.lua); false for most. LINKS: of a job that is in a graph or
-- waits for one: an array, see below. False for all others, which is a head's last byte then.
local TERMS, LINKS = 33, 34

local WAITING, SCHEDULED, READY, RUNNING, SUCCEEDED, FAILED, CANCELLED, SKIPPED = 0, 1, 2, 3, 4, 5, 6, 7
local STATES = { [0] = 'waiting', 'scheduled', 'ready', 'running', 'succeeded', 'failed', 'cancelled', 'skipped' }
-- Why a ready job is out of the ready order: not at all, nobody here declares it, it must run alone, or it is in a lane.
local NOT_HELD, ASIDE, SOLO, LANE = 0, 1, 2, 3
-- What may keep a job from coming in or starting; each has a file of its own, and what stands before it may call it.
local flow, gates, lanes, unique = {}, {}, {}, {}
local faults = {}  -- the dead letters, see jobs/faults.lua

-- What a head says of a node's place in its graph. OPENED: it was accepted. OPEN, BROKEN: how many edges that lead to it are not
-- decided, or broken. SOURCE, INJECT: the first edge that brings a value. OUTS: target, on, hasty, …; EDGES: their states, a digit
-- for each. AFTERMATH: 0 or 1, a head's last byte: so a glance tells such a one from others, and nodes from jobs of their own.
local L = {
    GRAPH = 1, OPENED = 2, OPEN = 3, BROKEN = 4, SPARE = 5, SHAPE = 6, CULPRIT = 7, AWAITS = 8, REPLACED = 9, DELAY = 10, AT = 11,
    EXPIRES_IN = 12, SOURCE = 13, INJECT = 14, OUTS = 15, EDGES = 16, AFTERMATH = 17,
}

local PREFIX = 11
local BAND = 2 ^ 49
local MAX_CRASHES_DEFAULT = 3

-- Bytes that are to arrive as bytes: what Lua packs itself arrives as text.
local function binary(s)
    local size = #s
    if size < 256 then return '\196' .. char(size) .. s end
    return '\198' .. struct.pack('>I4', size) .. s
end

local function binary_or_nil(s) return s and binary(s) or '\192' end

local function text_head(size)
    if size < 32 then return char(160 + size) end
    if size < 256 then return '\217' .. char(size) end
    if size < 65536 then return '\218' .. struct.pack('>I2', size) end
    return '\219' .. struct.pack('>I4', size)
end

local function text(s) return text_head(#s) .. s end

-- Whether bytes are UTF-8: one name in a reply that is not would make the whole reply unreadable.
local function is_text(s)
    if not string.find(s, '[\128-\255]') then return true end
    for _, valid in ipairs({
        '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
        '\244[\128-\143][\128-\191][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
        '\237[\128-\159][\128-\191]', '[\194-\223][\128-\191]',
    }) do
        s = string.gsub(s, valid, ' ')
    end
    return not string.find(s, '[\128-\255]')
end

-- Where the binary value at an offset begins and ends; nil where there is none.
local function binary_at(s, at)
    local tag, from, size = byte(s, at + 1), nil, nil
    if tag == 196 then
        from, size = at + 2, byte(s, at + 2)
    elseif tag == 197 and at + 3 <= #s then
        from, size = at + 3, struct.unpack('>I2', s, at + 2)
    elseif tag == 198 and at + 5 <= #s then
        from, size = at + 5, struct.unpack('>I4', s, at + 2)
    end
    if size and from + size <= #s then return from, from + size end
    return nil
end

-- A body's small parts, or nil where it is damaged anywhere: from, task, version, queue, priority. `from` is where the
-- payload begins. Of a job that came in with terms that need no head: these, as they are written, and where the rest ends.
local function read_body(raw)
    if not raw or #raw <= PREFIX then return nil end
    local fine, from, task, version, queue, priority = pcall(unpack_limit, raw, 4, PREFIX)
    if not fine or type(task) ~= 'string' or type(version) ~= 'number' or type(queue) ~= 'string' or type(priority) ~= 'number' then
        return nil
    end
    local _, ends = binary_at(raw, from)
    if ends then _, ends = binary_at(raw, ends) end
    if not ends then return nil end
    if ends == #raw then return from, task, version, queue, priority end
    local starts, last = binary_at(raw, ends)
    if last ~= #raw then return nil end
    return from, task, version, queue, priority, sub(raw, starts + 1, last), ends
end

-- A node's body is written before it is accepted, and has no number: such a one always has a head.
local function is_numbered(raw) return byte(raw, 5) ~= 0 or sub(raw, 1, 5) ~= '\0\0\0\0\0' end

-- A body's payload, and what is behind it as it is written.
local function payload_of(raw, from)
    local starts, ends = binary_at(raw, from)
    return sub(raw, starts + 1, ends), sub(raw, ends + 1)
end

local function new_body(n, at, parts) return struct.pack('>I5I6', n, at) .. parts end

-- The head of a job that has none: as it came in, with its place in the ready order.
local function fresh_head(raw, rank)
    local from, task, version, queue, priority, terms = read_body(raw)
    if not from then return nil end
    local n, at = struct.unpack('>I5I6', raw)
    return {
        n, at, task, version, queue, priority, READY, 1, 0, 0, 0, 0, 0,
        '', 0, rank, 0, 0, 0, CANCELLED, MAX_CRASHES_DEFAULT, 0,
        NOT_HELD, 0, 0, 0, '', '', '', '', false, false, terms or false, false,
    }
end

-- A stamp is what is known of a job that runs as it came in: the start of its body, its terms if it has some, padding, then '>dI6I6'
-- (rank, started, exchange). It spares the writing of a head that would be written again a moment later. The padding makes it longer than
-- the server packs into a list: such a small hash would be searched from its beginning for each of its fields.
local PADDING = '............................'

-- A stamp's small parts like those of a body, or nil where it is damaged.
local function read_stamp(stamp)
    if #stamp <= PREFIX then return nil end
    local fine, from, task, version, queue, priority = pcall(unpack_limit, stamp, 4, PREFIX)
    if not fine or type(task) ~= 'string' or type(version) ~= 'number' or type(queue) ~= 'string' or type(priority) ~= 'number' then
        return nil
    end
    if from + #PADDING + 20 == #stamp then return from, task, version, queue, priority end
    local starts, ends = binary_at(stamp, from)
    if not ends or ends + #PADDING + 20 ~= #stamp then return nil end
    return from, task, version, queue, priority, sub(stamp, starts + 1, ends)
end

local function head_of_stamp(stamp, worker)
    local from, task, version, queue, priority, terms = read_stamp(stamp)
    if not from then return nil end
    local n, at = struct.unpack('>I5I6', stamp)
    local rank, started, seq = struct.unpack('>dI6I6', stamp, #stamp - 19)
    return {
        n, at, task, version, queue, priority, RUNNING, 1, 1, seq, 0, 0, 0,
        worker, started, rank, 0, 0, 0, CANCELLED, MAX_CRASHES_DEFAULT, 0,
        NOT_HELD, 0, 0, 0, '', '', '', '', false, false, terms or false, false,
    }
end

local read_head
do
    local function check_links(l)
        local _ = l[L.OPENED] + l[L.OPEN] + l[L.BROKEN] + l[L.SPARE] + l[L.SHAPE] + l[L.REPLACED] + l[L.DELAY] + l[L.AT]
            + l[L.EXPIRES_IN] + l[L.INJECT] + l[L.AFTERMATH]
        _ = l[L.GRAPH] .. l[L.CULPRIT] .. l[L.AWAITS] .. l[L.SOURCE] .. l[L.EDGES]
        _ = 1 / (#l[L.OUTS] == 3 * #l[L.EDGES] and 1 or nil)
    end

    -- Fails, or answers nil, where a head has no number or no text in a place where everyone relies on one.
    local function check_head(h)
        local _ = h[N] + h[AT] + h[VERSION] + h[PRIORITY] + h[RUN] + h[EPOCH] + h[SEQ] + h[ATTEMPT] + h[CRASHES] + h[SNOOZES] + h[STARTED]
            + h[RANK] + h[FINISHED] + h[DUE] + h[EXPIRES] + h[MAX_CRASHES] + h[CRASH_DELAY] + h[HOLD] + h[ASIDE_AT] + h[CANCEL] + h[LOGGED]
        _ = h[TASK] .. h[QUEUE] .. h[WORKER] .. h[KEEP_DONE] .. h[KEEP_FAILED] .. h[REASON] .. h[FINGERPRINT]
        _ = #(h[RESULT] or '') + #(h[ERROR] or '')
        if h[LINKS] then check_links(h[LINKS]) end
        if h[TERMS] and not flow.terms(h) then return nil end
        return STATES[h[STATE]] and STATES[h[EXPIRE_TO]]
    end

    function read_head(raw)
        local fine, h = pcall(cmsgpack.unpack, raw)
        if fine and type(h) == 'table' and #h == LINKS then
            local sound, known = pcall(check_head, h)
            if sound and known then return h end
        end
        return nil
    end
end

-- Whether there is nothing to go by: the record cannot be read, or it is without a head and in no index that would explain that.
local function is_lost(h) return not h or (h[STATE] == READY and h[RANK] == 0) end

-- A join is no job: nobody claims it, and nothing counts it.
local function is_join(h) return h[TASK] == '' end

local function runs_alone(h) return h[CRASHES] > 0 and h[CRASHES] == h[MAX_CRASHES] - 1 end

local call_many
do
    -- A redis command with more values than Lua can spread at once.
    local SPREAD = 2000
    function call_many(command, key, values)
        local size = #values
        if size <= SPREAD then
            if size > 0 then return call(command, key, unpack(values)) end
            return {}
        end
        local all = {}
        for from = 1, size, SPREAD do
            local part = call(command, key, unpack(values, from, min(from + SPREAD - 1, size)))
            if type(part) == 'table' then
                for i = 1, #part do all[#all + 1] = part[i] end
            end
        end
        return all
    end
end

local function list_of(values)
    if #values == 0 then return '\144' end
    local parts = {}
    for i, value in ipairs(values) do parts[i] = text(value) end
    return '\221' .. struct.pack('>I4', #parts) .. concat(parts)
end

-- A query: [queue, states, task, fingerprint, worker, since, until, newest first]; states is false, or for each whether it is
-- wanted; '' and 0 want anything.
local function fits(h, q)
    return (q[1] == '' or h[QUEUE] == q[1])
        and (not q[2] or q[2][h[STATE] + 1])
        and (q[3] == '' or h[TASK] == q[3])
        and (q[4] == '' or h[FINGERPRINT] == q[4])
        and (q[5] == '' or h[WORKER] == q[5])
        and (q[6] == 0 or h[AT] >= q[6])
        and (q[7] == 0 or h[AT] < q[7])
end
