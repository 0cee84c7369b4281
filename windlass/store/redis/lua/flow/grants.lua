-- Grants: what a claim does with one job that it came upon, and what it says of it.
local new_claiming, claim_part, grant_fresh, grant, set_aside, is_readable, load_places, heads_of, into_lane, ends_instead
do
    -- A claim is an array of 23 values ('\220\0\23'): 15 of the job; five of its graph ('\160\160\0\192\160' where it is in none) and one
    -- that only its worker sets; when it was due, and when it was granted.

    -- One exchange's search for jobs. `parts` becomes the reply, `held` what is written: ids and stamps. `now`: so many of lanes and of
    -- limited queues may be granted.
    function new_claiming(t, w, seq, total, now)
        return {
            t = t, w = w, seq = seq, total = total, now = now < 0 and total or now,
            wanted = now < 0 and total or min(total, now), granted = 0, turned_away = 0, held = {}, parts = {},
            started = {}, emptied = {}, charged = 0, asides = 0, put_off = {},
            -- What all jobs have in common that are claimed as they came in.
            stamp = struct.pack('>I6I6', t.now, seq), claim = '\1\1\207' .. struct.pack('>I8', seq) .. '\0\0\0\207\0\0',
            last = '\192\160\160\0\192\160\192\0' .. struct.pack('>BI8', 207, t.now),
        }
    end

    local function note_grant(c, id, task, queue, stamp)
        local place = 2 * c.granted
        c.granted = c.granted + 1
        c.held[place + 1], c.held[place + 2] = id, stamp
        c.started[place + 1], c.started[place + 2] = task, queue
    end

    function grant_fresh(c, id, raw, from, task, queue, rank, terms, ends)
        local start = sub(raw, 1, from)
        if terms then start = start .. sub(raw, ends + 1) end
        note_grant(c, id, task, queue, start .. PADDING .. struct.pack('>d', rank) .. c.stamp)
        -- In pieces, which the client puts together: Lua would read through every text it makes.
        local parts, size = c.parts, #c.parts
        parts[size + 1], parts[size + 2], parts[size + 3] = '\220\0\23' .. text_head(#id), id, sub(raw, PREFIX + 1, ends or -1)
        parts[size + 4] = c.claim .. sub(raw, 6, PREFIX) .. c.last
    end

    -- What a claim says of a job, its head being right where the body is out of date, and of what its graph brings to it.
    function claim_part(t, id, h, raw, from)
        local place, ends = h[LINKS], h[TERMS] and select(7, read_body(raw)) or -1
        local part = text(id) .. pack(h[TASK], h[VERSION], h[QUEUE], h[PRIORITY]) .. sub(raw, from + 1, ends)
            .. pack(h[RUN], h[EPOCH], h[SEQ], h[ATTEMPT], h[CRASHES], h[SNOOZES], h[AT]) .. binary_or_nil(h[ERROR])
        local times = struct.pack('>BBI8BI8', 192, 207, h[DUE], 207, h[STARTED])
        if not place then return '\220\0\23' .. part .. '\160\160\0\192\160' .. times end
        local given = place[L.SOURCE] ~= '' and graphs.result_at_hand(row(t, place[L.SOURCE]))
        return '\220\0\23' .. part .. text(place[L.GRAPH]) .. text(place[L.SOURCE]) .. char(place[L.INJECT]) .. binary_or_nil(given)
            .. text(place[L.AWAITS]) .. times
    end

    function grant(c, id, h, raw, from)
        local t = c.t
        note_grant(c, id, h[TASK], h[QUEUE], '')
        h[STATE], h[EPOCH], h[SEQ], h[WORKER], h[STARTED] = RUNNING, h[EPOCH] + 1, c.seq, c.w.id, t.now
        h[HOLD] = NOT_HELD
        if h[EXPIRES] > 0 then rem(t, 'expiring', id) end
        touch(t, id)
        c.parts[#c.parts + 1] = claim_part(t, id, h, raw, from)
    end

    function set_aside(t, id, h)
        h[HOLD], h[ASIDE_AT] = ASIDE, t.now
        local group = aside_group(h[QUEUE], h[TASK], h[VERSION])
        add(t, 'aside:' .. group, h[RANK], id)
        call('HSETNX', t.k.asides, group, 0)
        touch(t, id)
        -- Those who are idle are asked once if none of them declares it, not once for each of a thousand jobs.
        if not t.unheard[group] then
            t.unheard[group] = not wake(t, h[QUEUE], 1, function(skills) return takes(skills, h[QUEUE], h[TASK], h[VERSION]) end)
        end
    end

    -- Whether what a claim would say can be read by the worker: names that it declares are sound, others need a look.
    function is_readable(h, queue, task, came_to, skills)
        if h then task, came_to = h[TASK], h[QUEUE] end
        return came_to == queue and (skills.tasks[task] ~= nil or is_text(task))
    end

    -- Reads at once what is needed of the graphs that some of these jobs are in.
    function load_places(t, ids, heads)
        local owners, sources, seen = {}, {}, {}
        for i, id in ipairs(ids) do
            local h = t.rows[id] or (heads[i] and byte(heads[i], -1) ~= 194 and read_head(heads[i]))
            if h and h[LINKS] then
                t.rows[id] = h
                owners[#owners + 1] = h[LINKS][L.GRAPH]
                local source = h[LINKS][L.SOURCE]
                if source ~= '' and not seen[source] then seen[source], sources[#sources + 1] = true, source end
            end
        end
        if #owners > 0 then graphs.load(t, owners) end
        if #sources > 0 then load(t, sources) end
    end

    -- Their heads, without those of rows that this step has read or made before.
    function heads_of(t, ids)
        if not next(t.rows) then return call_many('HMGET', t.k.heads, ids) end
        local missing, places, heads = {}, {}, {}
        for i, id in ipairs(ids) do
            if not t.rows[id] then missing[#missing + 1], places[#places + 1] = id, i end
        end
        for k, head in ipairs(call_many('HMGET', t.k.heads, missing)) do heads[places[k]] = head end
        return heads
    end

    -- A job that is to have a lane goes into it, in its place. It was in the plain order, or set aside, and in no index any more.
    function into_lane(t, id, h, queue, lane, rank)
        if not h then return lanes.join_fresh(t, id, queue, lane, rank, true) end
        t.rows[id] = h
        if h[RANK] == 0 then h[RANK] = rank end
        lanes.join(t, id, h, lane, true)
        touch(t, id)
    end

    -- Whether a job that could start ends instead: its time has passed, or its workflow was stopped. It is in no index any more, or soon.
    function ends_instead(t, id, h)
        local expired = h[EXPIRES] > 0 and h[EXPIRES] <= t.now
        if not expired and not graphs.refuses(t, h) then return false end
        h[HOLD] = NOT_HELD
        if expired then expire(t, id, h) else graphs.refuse(t, id, h) end
        return true
    end
end
