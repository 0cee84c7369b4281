-- Workflows under way are looked at now and then: one that nothing will ever move is put right.
do
    local WORK, MANY = 500, 100

    local function is_alive(t, h)
        if h[LINKS][L.AFTERMATH] == 1 then return false end
        if h[STATE] >= SCHEDULED and h[STATE] <= RUNNING then return true end
        local awaited = h[STATE] == WAITING and h[LINKS][L.AWAITS] or ''
        return awaited ~= '' and (graphs.is_under_way(t, awaited) or graphs.has_todo(t, awaited))
    end

    -- Looks at a page of a graph's nodes, in a circle that begins where the last live one was. True: nothing in it is alive, and
    -- nothing will ever happen. False: it is well. Nil: there is more to look at.
    local function audit(t, id, g, size)
        if graphs.has_todo(t, id) then
            g[G.LOOKED] = 0  -- what was looked at may be released by that
            graphs.touch(t, id)
            return false
        end
        if g[G.LOOKED] == 0 or g[G.STAMP] ~= g[G.LOOKED_STAMP] then g[G.LOOKED], g[G.LOOKED_STAMP] = 0, g[G.STAMP] end
        local ids = graphs.page(t, id, g[G.LOOKED_FROM], min(size, g[G.NODES] - g[G.LOOKED]))
        graphs.touch(t, id)
        for place, one in ipairs(ids) do
            local h = row(t, one)
            if h and h[LINKS] and is_alive(t, h) then
                g[G.LOOKED], g[G.LOOKED_FROM] = 0, g[G.LOOKED_FROM] + place - 1
                return false
            end
        end
        g[G.LOOKED], g[G.LOOKED_FROM] = g[G.LOOKED] + #ids, g[G.LOOKED_FROM] + #ids
        if g[G.LOOKED_FROM] >= g[G.NODES] or #ids == 0 then g[G.LOOKED_FROM] = 0 end
        if g[G.LOOKED] < g[G.NODES] and #ids > 0 then return nil end
        g[G.LOOKED] = 0
        return true
    end

    -- Looks at workflows under way whose time for it has come; answers those that hung, which are put right.
    function graphs.audit_due(t)
        local repaired, left = {}, WORK
        local ids = call('ZRANGEBYSCORE', t.k.working, '-inf', t.now, 'LIMIT', 0, MANY)
        graphs.load(t, ids)
        for _, id in ipairs(ids) do
            local g = graphs.row(t, id)
            if left <= 0 then break end
            if not g or g[G.STATE] ~= WAITING then
                graphs.list(t, 'working', id, false)
            else
                local hangs = audit(t, id, g, left)
                left = left - min(left, g[G.NODES])
                if hangs ~= nil then graphs.list(t, 'working', id, t.now + t.settings.audit_every) end
                if hangs then
                    repaired[#repaired + 1] = id
                    news(t, 'workflow_repaired', '', id, g[G.NAME], '')
                    if g[G.OPENED] < g[G.NODES] then graphs.todo(t, 'open', id) end
                    graphs.todo(t, 'repair', id, 0, 0)
                end
            end
        end
        return repaired
    end

    -- What was staged and forgotten.
    function graphs.drop_stale(t)
        for _, id in ipairs(call('ZRANGEBYSCORE', t.k.staging, '-inf', t.now - t.settings.staged_for, 'LIMIT', 0, 20)) do
            graphs.drop(t, id, 'all')
        end
    end
end
