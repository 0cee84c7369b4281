-- What the end of a job means for its graph, and how a workflow is stopped, filed and dropped.

-- Whatever of a graph has not ended is to be cancelled.
function graphs.stop(t, id, how, reason, culprit)
    local g = graphs.row(t, id)
    if not g or g[G.STOPPING] ~= '' then return end
    g[G.STOPPING], g[G.REASON], g[G.CULPRIT] = how, reason, culprit
    graphs.touch(t, id)
    graphs.todo(t, 'stop', id)
end

-- A job that waits for a graph it has started takes that with it.
function graphs.stop_awaited(t, id, h, was, reason)
    local awaited = was == WAITING and h[LINKS] and h[LINKS][L.AWAITS] or ''
    if awaited == '' or not graphs.is_under_way(t, awaited) then return end
    if reason == 'expired' then reason = h[TASK] .. ' ' .. id .. ' expired' end  -- the job's time has passed, not that of the graph's jobs
    graphs.stop(t, awaited, 'cancel', reason, '')
end

-- What the end of a job means for its graph and for the one it waits for.
function graphs.end_job(t, id, h, was)
    local place, failed = h[LINKS], h[STATE] == FAILED
    graphs.stop_awaited(t, id, h, was, h[REASON] ~= '' and h[REASON] or 'cancelled')
    if place[L.EDGES] ~= '' then graphs.todo(t, 'spread', place[L.GRAPH], id) end
    local g = graphs.of(t, h)
    place[L.CULPRIT] = ''  -- it is to blame itself; whoever gives a node up says otherwise
    if g then
        g[G.STAMP] = g[G.STAMP] + 1
        graphs.touch(t, place[L.GRAPH])
    end
    if not g or place[L.AFTERMATH] == 1 then return file(t, id, name_bucket(t, h, failed)) end
    g[G.ENDED + h[STATE]] = g[G.ENDED + h[STATE]] + 1
end

-- In a bucket of workflows each counts for all of its nodes.
function graphs.weigh(t, bucket, by)
    if string.find(bucket, '^%-?%d+|%-?%d+|#') then t.weights[bucket] = (t.weights[bucket] or 0) + by end
end

-- A workflow that is over is kept as a unit, under its end. One that a job awaits goes with that job's record.
function graphs.file(t, id)
    local g, h = graphs.row(t, id), row(t, id)
    if not g or not h or g[G.REAL] == 0 or g[G.STATE] == WAITING then return end
    local parent = g[G.PARENT] ~= '' and row(t, g[G.PARENT])
    if parent and parent[LINKS] and parent[LINKS][L.AWAITS] == id then return end
    local failed = g[G.STATE] ~= SUCCEEDED
    local bucket = failed and g[G.KEEP_FAILED] or g[G.KEEP_DONE]
    if bucket == '' then bucket = (failed and t.settings.failed or t.settings.done) .. '#workflows' end
    h[KEEP_DONE], h[KEEP_FAILED] = bucket, bucket
    touch(t, id)
    file(t, id, bucket)
    graphs.weigh(t, bucket, g[G.NODES])
end

-- A graph is no more; its nodes go in bounded steps. `which`: 'prune', without a word, and its callbacks stay as long as each is kept;
-- or 'all', as if each was deleted.
function graphs.drop(t, id, which)
    t.rank = t.rank + 1
    graphs.forget(t, id)
    if call('EXISTS', t.p .. 'members:' .. id) == 1 then
        call('RENAME', t.p .. 'members:' .. id, t.p .. 'dropped:' .. format('%d', t.rank))
        graphs.todo(t, 'drop', id, t.rank, which)
    end
end
