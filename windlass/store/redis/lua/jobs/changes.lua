-- change(settings, now, action, allowed, argument, reason, filter, id, id, …)
--   allowed    for each state '1' or '0': whether the action applies to it; others are skipped with its name as the reason
--   argument   queue for move, priority for reprioritise, for edit see wire/jobs.py: terms and payload, 'at delay' for reschedule
--   filter     '' or the query that found these jobs, see `fits`: one that no longer fits is passed over
-- Answers MessagePack: [changed ids, skipped ids, why each was skipped].

local EVENTS = { cancel = 'cancelled', retry = 'replayed', delete = 'deleted' }
local ACTIONS = {}

function ACTIONS.cancel(t, id, h, _, reason) graphs.cancel_job(t, id, h, reason ~= '' and reason or 'cancelled') end

function ACTIONS.retry(t, id, h) graphs.retry_job(t, id, h) end

function ACTIONS.promote(t, id, h)
    unplace(t, id, h)
    make_ready(t, id, h)
    wake_for(t, h)
end

function ACTIONS.reschedule(t, id, h, times)
    local at, delay = string.match(times, '^(%d+) (%d+)$')
    local due = max(tonumber(at), tonumber(delay) > 0 and t.now + tonumber(delay) or 0)
    if due <= t.now and h[STATE] == READY then return end
    unplace(t, id, h)
    if due > t.now then
        t.due_before = t.due_before or next_due(t)
        return make_scheduled(t, id, h, due)
    end
    make_ready(t, id, h)
    wake_for(t, h)
end

function ACTIONS.move(t, id, h, queue)
    unplace(t, id, h)
    if h[TERMS] and h[STATE] <= RUNNING then flow.leave(t, id, h, true) end
    h[RANK] = 0
    count(t, h[QUEUE], h[STATE], -1)
    h[QUEUE] = queue
    count(t, queue, h[STATE], 1)
    if h[STATE] == READY then
        make_ready(t, id, h)
        wake_for(t, h)
    elseif h[STATE] == SCHEDULED then
        add(t, 'due', h[DUE], id)
    end
    touch(t, id)
end

function ACTIONS.reprioritise(t, id, h, priority)
    local terms = flow.terms(h)
    h[PRIORITY] = tonumber(priority)
    if h[STATE] == READY and not (h[HOLD] == LANE and terms and terms.strict) then  -- where it does not count
        unplace(t, id, h)
        flush(t)
        make_ready(t, id, h)
    end
    touch(t, id)
end

-- New terms stand in the head: those a body came with go.
function ACTIONS.edit(t, id, h, said)
    local size = struct.unpack('>i4', said)
    local raw, start = call('HGET', t.k.jobs, id), 5 + max(size, 0)
    local from, _, _, _, _, _, ends = read_body(raw)
    if size >= 0 then
        h[TERMS] = size > 0 and sub(said, 5, 4 + size)
        if ends then raw = sub(raw, 1, ends) end
        touch(t, id)
    end
    local _, meta = payload_of(raw, from)
    call('HSET', t.k.jobs, id, sub(raw, 1, from) .. binary(sub(said, start)) .. meta)
end

function ACTIONS.delete(t, id) graphs.delete_jobs(t, { id }) end

-- An action on a graph's id: false, or why not.
local function change_graph(t, id, g, action, reason)
    if action == 'cancel' and g[G.STATE] == WAITING then
        graphs.stop(t, id, 'cancel', reason ~= '' and reason or 'cancelled', '')
    elseif action == 'retry' and (g[G.STATE] == FAILED or g[G.STATE] == CANCELLED) then
        graphs.retry_all(t, id)
    elseif action == 'delete' and g[G.STATE] ~= WAITING then
        unfile(t, id, row(t, id))
        graphs.drop(t, id, 'all')
        graphs.delete_jobs(t, { id })
    else
        return STATES[g[G.STATE]]
    end
    return false
end

-- Why an action that fits a member's state must not be; most may.
local function why_not_member(t, id, h, action)
    local place = h[LINKS]
    if action == 'retry' and h[STATE] == SKIPPED then return 'skipped; retry ' .. place[L.CULPRIT] .. ' instead' end
    if action == 'retry' and place[L.OPEN] == 0 and place[L.BROKEN] > place[L.SPARE] and not graphs.refuses(t, h) then
        return STATES[h[STATE]] .. '; retry ' .. graphs.first_blame(t, id) .. ' instead'
    end
    -- With todos it may be under way again in a moment, and this be a member it waits for.
    local graph = place[L.GRAPH]
    if action == 'delete' and (graphs.is_under_way(t, graph) or (graphs.row(t, graph) and graphs.has_todo(t, graph))) then
        return 'its workflow is under way'
    end
    return nil
end

-- One change on one id: false, or why not.
local function act(t, id, h, action, allowed, argument, reason)
    if not h or is_join(h) or graphs.is_hidden(t, h) then return 'no such job' end
    if h[LINKS] and h[LINKS][L.OPENED] == 0 then graphs.open_nodes(t, { id }) end  -- it is wanted before its turn comes
    if byte(allowed, h[STATE] + 1) == 48 then return STATES[h[STATE]] end
    local why_not = h[LINKS] and h[LINKS][L.GRAPH] ~= '' and why_not_member(t, id, h, action)
    if why_not then return why_not end
    local terms = action == 'retry' and flow.terms(h)
    if terms and terms.unique ~= '' and not (h[LINKS] and h[LINKS][L.GRAPH] ~= '') then
        local held = unique.held(t, terms.unique)
        if held and held[1] ~= id then return 'unique key held by ' .. held[1] end
        unique.take(t, terms.unique, id, h[AT], terms.window)
    end
    if action == 'retry' and graphs.refuses(t, h) then  -- with all the others, in their order
        graphs.retry_all(t, h[LINKS][L.GRAPH])
        return false
    end
    if EVENTS[action] and h[STATE] ~= RUNNING then job_news(t, EVENTS[action], '', id, h, reason_data(reason)) end
    ACTIONS[action](t, id, h, argument, reason)
    return false
end

local function exists(t, id) return call('HEXISTS', t.k.jobs, id) + call('HEXISTS', t.k.heads, id) > 0 end

-- For an edit, the one action that needs a body: a head alone is not enough.
local function put_aside_damaged(t, ids)
    local bodies = call_many('HMGET', t.k.jobs, ids)
    for i, id in ipairs(ids) do
        if row(t, id) and not read_body(bodies[i]) then mend(t, id) end
    end
end

local function change(keys, args)
    local t, action, allowed, argument, reason = begin(keys, args), args[3], args[4], args[5], args[6]
    local filter = args[7] ~= '' and cmsgpack.unpack(args[7])
    local changed, skipped, why, ids = {}, {}, {}, {}
    for i = 8, #args do ids[#ids + 1] = args[i] end
    load_all(t, ids)
    if action == 'retry' then  -- in the order they were accepted
        local places = {}
        for i, id in ipairs(ids) do places[id] = { (row(t, id) or {})[N] or 0, places[id] and places[id][2] or i } end
        table.sort(ids, function(a, b)
            local x, y = places[a], places[b]
            return x[1] < y[1] or (x[1] == y[1] and x[2] < y[2])
        end)
    end
    if action == 'edit' then put_aside_damaged(t, ids) end
    for _, id in ipairs(ids) do
        local h = row(t, id)
        if not h and exists(t, id) then
            mend(t, id)
            h = row(t, id)
        end
        -- One that was found and changed since is not what was asked for any more.
        if not (h and filter) or fits(h, filter) then
            local g, why_not = h and is_join(h) and graphs.row(t, id), nil
            if g and g[G.REAL] == 1 then
                why_not = change_graph(t, id, g, action, reason)
            else
                why_not = act(t, id, h, action, allowed, argument, reason)
            end
            if why_not then
                skipped[#skipped + 1], why[#why + 1] = id, why_not
            else
                changed[#changed + 1] = id
            end
        end
    end
    graphs.work(t)
    graphs.wake(t)
    close_step(t)
    graphs.wake_any(t)
    return pack({ changed, skipped, why })
end

register('change', change, 'allow-oom')
