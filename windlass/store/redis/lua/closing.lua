-- The end of every step that changes something: what it collected is written, told and counted.

local function write_rows(t)
    local heads = {}
    for id in pairs(t.dirty) do
        local size = #heads
        heads[size + 1], heads[size + 2] = id, pack(t.rows[id])
    end
    call_many('HSET', t.k.heads, heads)
    for id, worker in pairs(t.stamped) do
        -- It has a head now, which counts alone.
        if t.dirty[id] and t.rows[id][STATE] == RUNNING then call('HSET', t.p .. 'held:' .. worker, id, '') end
    end
end

local function write_counts(t)
    local key = t.k.counts
    for queue, states in pairs(t.counts) do
        for state, by in pairs(states) do
            if by ~= 0 then call('HINCRBY', key, state .. queue, format('%d', by)) end
        end
    end
end

-- The end of every step that changes something.
local function close_step(t)
    tell_ended(t)
    flush(t)
    for bucket, by in pairs(t.weights) do
        if call('HINCRBY', t.k.weights, bucket, format('%d', by)) <= 0 then call('HDEL', t.k.weights, bucket) end
    end
    local left = CHUNK
    for bucket in pairs(t.touched) do left = left - prune(t, bucket, max(0, min(PRUNE_STEP, left))) end
    if #t.todos > 0 then graphs.work(t) end  -- what was pruned with a workflow
    flow.open(t)
    flow.wake(t)
    graphs.wake(t)
    tell_ended(t)
    flush(t)
    graphs.write(t)
    flow.write(t)
    if next(t.faults) then faults.write(t) end
    write_rows(t)
    write_counts(t)
    record(t)
    write_numbers(t)
end
