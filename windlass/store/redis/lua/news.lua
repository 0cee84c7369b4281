-- News: what happened in a step, as one entry of the event stream, and added up in the totals.

local news
do
    -- Where the block of what was there already goes.
    local function behind_enqueued(t) return t.blocks[1] and t.blocks[1][1][1] == 'enqueued' and 2 or 1 end

    -- Blocks are ordered by the first event of their kind; within one, neighbours of the same task and queue share a group:
    -- [kind, worker, task, queue, ids, data or false], where data is JSON per job.
    local function open_group(t, kind, worker, task, queue, data)
        local name = kind .. '\n' .. worker
        local block = t.blocks[name]
        if not block then
            block = {}
            t.blocks[name] = block
            -- What came in goes first: in a graph it may have ended in the same step.
            table.insert(t.blocks, kind == 'enqueued' and 1 or kind == 'duplicate' and behind_enqueued(t) or #t.blocks + 1, block)
        end
        local group = block[#block]
        if not group or group[3] ~= task or group[4] ~= queue or not data ~= not group[6] then
            group = { kind, worker, task, queue, {}, data and {} or false }
            block[#block + 1] = group
        end
        t.group = group
        return group
    end

    function news(t, kind, worker, id, task, queue, data)
        local group = t.group
        if data or not group or group[6] or group[3] ~= task or group[4] ~= queue or group[1] ~= kind or group[2] ~= worker then
            group = open_group(t, kind, worker, task, queue, data)
        end
        local ids = group[5]
        ids[#ids + 1] = id
        if data then group[6][#ids] = data end
        t.seen = t.seen + 1
    end
end

local function job_news(t, kind, worker, id, h, data) news(t, kind, worker, id, h[TASK], h[QUEUE], data) end

local function reason_data(reason) return reason ~= '' and cjson.encode({ reason = reason }) or nil end

local record
do
    -- What a job says while it runs is not counted, nor are workflows: what theirs have in the place of a task is their name.
    local NOT_COUNTED = {
        progress = true, log = true, workflow_started = true, workflow_succeeded = true, workflow_failed = true,
        workflow_cancelled = true, workflow_repaired = true,
    }

    -- Adds up for ever the events of one block, which are of one kind: by kind, queue and task in one name.
    local function count_events(t, block)
        local kind, queues = block[1][1], {}
        if NOT_COUNTED[kind] then return end
        for i = 1, #block do
            local group = block[i]
            local task, tasks = group[3], queues[group[4]]
            if not tasks then
                tasks = {}
                queues[group[4]] = tasks
            end
            tasks[task] = (tasks[task] or 0) + #group[5]
        end
        for queue, tasks in pairs(queues) do
            for task, sum in pairs(tasks) do
                if task ~= '' then call('HINCRBY', t.k.totals, kind .. '\n' .. queue .. '\n' .. task, format('%d', sum)) end
            end
        end
    end

    function record(t)
        if not t.group then return end
        local groups = {}
        for _, block in ipairs(t.blocks) do
            for _, group in ipairs(block) do groups[#groups + 1] = group end
            count_events(t, block)
        end
        -- An entry is numbered by how many events there were in all, so that trimming by number bounds the memory too.
        local key, kept = t.k.events, t.settings.events_kept
        call('XADD', key, 'MAXLEN', kept, format('%d-0', t.seen), 'e', pack({ t.now, groups }))
        if t.seen > kept * 10 then call('XTRIM', key, 'MINID', format('%d-0', t.seen - kept * 10)) end
        if not t.followed then return end
        local followers = call('SMEMBERS', t.k.followers)
        if #followers == 0 then call('HDEL', t.meta, 'followed') end
        for _, client in ipairs(followers) do
            if not t.told[client] and call('PUBLISH', t.p .. 'to:' .. client, '') == 0 then
                call('SREM', t.k.followers, client)
            end
        end
    end
end
