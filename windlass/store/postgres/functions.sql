-- What is done to many jobs at once: each function is one round trip. Batches come as one JSON text. The functions live in
-- a schema named by the hash of this text, so that two releases work side by side; they find the tables by the search
-- path of the transaction. All but `plain_*` are called under the machine's lock.

-- Jobs as one row each, wherever they are in their lives.
CREATE VIEW whole AS SELECT
    j.n, j.id, j.task, j.version, j.queue, j.priority, j.payload, j.meta, j.enqueued_at, j.crash_delay, j.expire_to,
    j.keep_done, j.keep_failed, j.node, j.number, j.lane, j.terms,
    coalesce(l.state, e.state) AS state, coalesce(l.hold, 0::smallint) AS hold, coalesce(l.place, e.place) AS place,
    coalesce(l.worker, 0) AS worker, coalesce(l.seq, e.seq) AS seq, coalesce(l.run, e.run) AS run,
    coalesce(l.epoch, e.epoch) AS epoch, coalesce(l.attempt, e.attempt) AS attempt,
    coalesce(l.crashes, e.crashes) AS crashes, coalesce(l.snoozes, e.snoozes) AS snoozes,
    coalesce(l.max_crashes, e.max_crashes) AS max_crashes, coalesce(l.cancel, 0::smallint) AS cancel,
    coalesce(l.watched, 0::smallint) AS watched, coalesce(l.logged, e.logged) AS logged, coalesce(e.bucket, 0) AS bucket,
    coalesce(l.reason, e.reason) AS reason, coalesce(l.fingerprint, e.fingerprint) AS fingerprint,
    coalesce(l.due_at, e.due_at) AS due_at, coalesce(l.expires_at, e.expires_at) AS expires_at,
    coalesce(l.started_at, e.started_at) AS started_at, coalesce(e.finished_at, 0) AS finished_at, e.result,
    CASE WHEN l.n IS NULL THEN e.error ELSE l.error END AS error,
    CASE WHEN l.n IS NULL THEN e.progress ELSE l.progress END AS progress
FROM jobs AS j LEFT JOIN live AS l ON l.n = j.n LEFT JOIN ended AS e ON e.n = j.n;

CREATE FUNCTION numbers(list jsonb) RETURNS SETOF bigint IMMUTABLE LANGUAGE sql ROWS 100 AS $$
    SELECT v::bigint FROM jsonb_array_elements_text(list) AS v
$$;

CREATE FUNCTION names(list jsonb) RETURNS SETOF text IMMUTABLE LANGUAGE sql ROWS 100 AS $$
    SELECT v FROM jsonb_array_elements_text(list) AS v
$$;

-- What `settle` and `shift` say of a job that becomes ready:
--   hold   2 if it must run alone, but not before it has had its strict lane (place = 0: it is new there); 3 if it has a
--          lane, by its terms or because its task is gated
--   place  kept in strict lanes; else by priority and rank; with ageing by the instant, as if it had come earlier or later
CREATE FUNCTION hold_of(goes int, crashes int, max_crashes int, strict boolean, place bigint, lane text, task text,
    gated jsonb) RETURNS smallint IMMUTABLE LANGUAGE sql AS $$
    SELECT (CASE WHEN goes <> 2 THEN 0
        WHEN crashes > 0 AND crashes = max_crashes - 1 AND NOT (strict AND place = 0) THEN 2
        WHEN lane IS NOT NULL OR gated ? task THEN 3
        ELSE 0 END)::smallint
$$;

CREATE FUNCTION place_of(goes int, stays boolean, place bigint, strict boolean, priority int, rank bigint, ageing bigint,
    now bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
    SELECT CASE WHEN goes > 3 THEN rank
        WHEN goes <> 2 OR ((stays OR strict) AND place > 0) THEN place
        WHEN strict THEN (4::bigint << 56) + rank
        WHEN ageing > 0 THEN (4::bigint << 56) + (1::bigint << 48) + now + (5 - priority) * ageing
        ELSE ((9 - priority)::bigint << 56) + rank END
$$;

CREATE FUNCTION is_strict(lane text) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$
    SELECT lane IS NOT NULL AND left(lane, 1) IN ('o', 's')
$$;

-- settle(worker, now, ranks, done, failed, gated, moves)
--   worker       workers.n of the claims' holder
--   now, ranks   the transaction's instant, and the first free rank
--   done, failed prefixes of the default buckets; the queue's name completes them
--   gated        [task, …] whose gates have something to say
--   moves        [[id, run, epoch, seq, to, event, delay, attempt, crashes, snoozes, yields, result, error, reason,
--                  fingerprint, keep_done, keep_failed], …], shorter where the tail is empty
-- Applies the moves whose fence holds, adds them up, and leaves them in `moved`, numbered as in the argument.
CREATE FUNCTION settle(w bigint, now bigint, ranks bigint, done text, failed text, gated jsonb, moves jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM moved;
    INSERT INTO moved (job, i, was, goes, hold, held, watched, attempt, snoozes, crashes, max_crashes, place, due, delay,
        node, number, id, task, queue, lane, event, reason, result, error, fingerprint, keep, terms)
    SELECT
        n, i, 3, goes, hold_of(goes, crashes, max_crashes, strict, place, lane, task, gated), hold, watched, attempt,
        snoozes, crashes, max_crashes,
        place_of(goes, event = 'released', place, strict, priority, ranks + i, ageing, now),
        CASE WHEN goes = 1 THEN now + delay WHEN event = 'released' THEN due_at ELSE 0 END,
        CASE WHEN event IN ('retried', 'snoozed') THEN delay END, node, number, id, task, queue, lane, event, reason,
        result, error, fingerprint,
        CASE WHEN node > 0 THEN NULL
             WHEN goes = 5 THEN coalesce(move_failed, keep_failed, failed || queue)
             WHEN goes > 3 THEN coalesce(move_done, keep_done, done || queue) END,
        terms
    FROM (
        SELECT DISTINCT ON (j.n)
            (m.i - 1)::int AS i, j.n, j.id, j.task, j.queue, l.place, l.priority, l.max_crashes, l.watched, j.keep_done,
            j.keep_failed, j.node, l.due_at, l.hold, j.number, j.lane, j.terms, is_strict(j.lane) AS strict,
            coalesce((j.terms ->> 9)::bigint, 0) AS ageing,
            CASE WHEN beaten THEN 6 ELSE (v ->> 4)::int END AS goes,
            CASE WHEN beaten THEN 'cancelled' ELSE v ->> 5 END AS event,
            CASE WHEN beaten THEN l.reason ELSE v ->> 13 END AS reason,
            (v ->> 6)::bigint AS delay, (v ->> 7)::int AS attempt, (v ->> 8)::int AS crashes, (v ->> 9)::int AS snoozes,
            v ->> 11 AS result, v ->> 12 AS error, v ->> 14 AS fingerprint,
            CASE WHEN (v ->> 10)::int = 0 THEN nullif(v ->> 15, '') END AS move_done,
            nullif(v ->> 16, '') AS move_failed
        FROM jsonb_array_elements(moves) WITH ORDINALITY AS m (v, i)
        JOIN jobs AS j ON j.id = v ->> 0
        JOIN live AS l ON l.n = j.n
        CROSS JOIN LATERAL (SELECT l.cancel > 0 AND (v ->> 10)::int = 1 AS beaten) AS b
        WHERE l.state = 3 AND l.worker + 0 = w
            AND l.run = (v ->> 1)::int AND l.epoch = (v ->> 2)::int AND l.seq = (v ->> 3)::bigint
        ORDER BY j.n, m.i
    ) AS found;
    PERFORM apply(now);
END
$$;

-- shift(now, ranks, done, failed, gated, shifts): the store's own moves, of jobs that are known to be where they should be.
--   shifts  [[n, to, due, stays, reason, error, fingerprint, crashes, max_crashes, result], …], shorter without a result
--           stays: keeps its place in the ready order, as it does in a strict lane anyway, and when it was due; error
--           NULL: keeps the error it has
CREATE FUNCTION shift(now bigint, ranks bigint, done text, failed text, gated jsonb, shifts jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM moved;
    INSERT INTO moved (job, i, was, goes, hold, held, watched, attempt, snoozes, crashes, max_crashes, place, due, delay,
        node, number, id, task, queue, lane, event, reason, result, error, fingerprint, keep, terms)
    SELECT
        n, i, was, goes, hold_of(goes, crashes, max_crashes, strict, place, lane, task, gated), hold, watched, attempt,
        snoozes, crashes, max_crashes, place_of(goes, stays, place, strict, priority, ranks + i, ageing, now),
        CASE WHEN goes = 2 AND stays THEN due_at ELSE due END, NULL, node, number, id, task, queue, lane, NULL, reason,
        result, error, fingerprint,
        CASE WHEN node > 0 THEN NULL
             WHEN goes = 5 THEN coalesce(keep_failed, failed || queue)
             WHEN goes > 3 THEN coalesce(keep_done, done || queue) END,
        terms
    FROM (
        SELECT
            (r.i - 1)::int AS i, j.n, j.id, j.task, j.queue, coalesce(l.state, e.state) AS was,
            CASE WHEN l.n IS NULL THEN e.place ELSE l.place END AS place,
            j.priority, coalesce(l.attempt, e.attempt) AS attempt, coalesce(l.snoozes, e.snoozes) AS snoozes,
            coalesce(l.watched, 0) AS watched, j.keep_done, j.keep_failed, j.node, coalesce(l.due_at, e.due_at) AS due_at,
            v ->> 9 AS result, coalesce(l.hold, 0) AS hold, j.number, j.lane, j.terms, is_strict(j.lane) AS strict,
            coalesce((j.terms ->> 9)::bigint, 0) AS ageing,
            (v ->> 1)::int AS goes, (v ->> 2)::bigint AS due, (v ->> 3)::int <> 0 AS stays, v ->> 4 AS reason,
            v ->> 5 AS error, v ->> 6 AS fingerprint, (v ->> 7)::int AS crashes, (v ->> 8)::int AS max_crashes
        FROM jsonb_array_elements(shifts) WITH ORDINALITY AS r (v, i)
        JOIN jobs AS j ON j.n = (v ->> 0)::bigint
        LEFT JOIN live AS l ON l.n = j.n
        LEFT JOIN ended AS e ON e.n = j.n
    ) AS found;
    PERFORM apply(now);
END
$$;

-- apply(now): writes `moved` into the jobs, keeps the counts, files and prunes what has ended. Jobs with a node are filed
-- later, by `file`: others may depend on them.
CREATE FUNCTION apply(now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO buckets (name, most, age, size)
    SELECT DISTINCT keep, split_part(keep, '|', 1)::bigint, split_part(keep, '|', 2)::bigint, 0
    FROM moved WHERE keep IS NOT NULL
    ON CONFLICT DO NOTHING;
    -- What ended before and begins again.
    WITH back AS (
        DELETE FROM ended AS e USING moved AS m WHERE m.was > 3 AND e.n = m.job RETURNING e.*
    )
    INSERT INTO live (n, place, due_at, expires_at, started_at, seq, node, number, run, epoch, attempt, crashes, snoozes,
        max_crashes, version, logged, state, hold, priority, units, queue, task, lane, breaker, reason, fingerprint, error,
        progress)
    SELECT b.n, m.place, m.due, b.expires_at, b.started_at, b.seq, b.node, j.number, b.run, b.epoch, m.attempt, m.crashes,
        m.snoozes, m.max_crashes, j.version, b.logged, m.goes, m.hold, j.priority, coalesce((j.terms ->> 6)::int, 1),
        j.queue, j.task, j.lane, nullif(j.terms ->> 7, ''), '',
        CASE WHEN m.error IS NULL THEN b.fingerprint ELSE coalesce(m.fingerprint, '') END, coalesce(m.error, b.error),
        b.progress
    FROM back AS b JOIN moved AS m ON m.job = b.n JOIN jobs AS j ON j.n = b.n;
    UPDATE live AS l SET
        state = m.goes, hold = m.hold, place = m.place, worker = 0, due_at = m.due, attempt = m.attempt,
        snoozes = m.snoozes, crashes = m.crashes, max_crashes = m.max_crashes,
        fingerprint = CASE WHEN m.error IS NULL THEN l.fingerprint ELSE coalesce(m.fingerprint, '') END,
        error = coalesce(m.error, l.error)
    FROM moved AS m WHERE l.n = m.job AND m.goes < 4 AND m.was < 4;
    WITH gone AS (
        DELETE FROM live AS l USING moved AS m WHERE l.n = m.job AND m.goes > 3 RETURNING l.*
    )
    INSERT INTO ended (n, place, due_at, expires_at, started_at, finished_at, seq, node, run, epoch, attempt, crashes,
        snoozes, max_crashes, logged, bucket, state, queue, task, reason, fingerprint, result, error, progress)
    SELECT g.n, m.place, g.due_at, g.expires_at, g.started_at, now, g.seq, g.node, g.run, g.epoch, m.attempt, m.crashes,
        m.snoozes, m.max_crashes, g.logged, coalesce(b.n, 0), m.goes, g.queue, g.task, coalesce(m.reason, ''),
        CASE WHEN m.error IS NULL THEN g.fingerprint ELSE coalesce(m.fingerprint, '') END, m.result,
        coalesce(m.error, g.error), g.progress
    FROM gone AS g JOIN moved AS m ON m.job = g.n LEFT JOIN buckets AS b ON b.name = m.keep;
    INSERT INTO counts
    SELECT task, queue, what, sum(many) FROM (
        SELECT '' AS task, queue, was::text AS what, -count(*) AS many FROM moved GROUP BY queue, was
        UNION ALL SELECT '', queue, goes::text, count(*) FROM moved GROUP BY queue, goes
        UNION ALL SELECT task, queue, event, count(*) FROM moved WHERE event IS NOT NULL AND task <> ''
            GROUP BY task, queue, event
    ) AS sums GROUP BY task, queue, what ORDER BY task, queue, what
    ON CONFLICT (task, queue, what) DO UPDATE SET many = counts.many + excluded.many;
    UPDATE buckets SET size = size + m.more
    FROM (SELECT keep, count(*) AS more FROM moved WHERE keep IS NOT NULL GROUP BY keep) AS m
    WHERE name = m.keep;
    -- What watchers are told must be whole though the record may be pruned in this very step.
    UPDATE moved SET error = (SELECT error FROM ended WHERE n = moved.job)
    WHERE watched = 1 AND goes > 3 AND error IS NULL;
    PERFORM prune(now, n, CASE WHEN most < 0 THEN 0 ELSE size - most END, age, 1000) FROM buckets
    WHERE name IN (SELECT DISTINCT keep FROM moved);
END
$$;

-- prune(now, bucket, excess, age, bound): drops what is beyond a bucket's count (all of it) and past its age (up to
-- bound). Answers how many jobs went.
--   excess  by how many jobs the bucket is over its count; 0 or less for none
--   age     its limit in milliseconds, -1 for none
CREATE FUNCTION prune(now bigint, b integer, excess bigint, age bigint, bound bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    cut bigint := 0;
    oldest bigint;
    past bigint;
BEGIN
    IF excess > 0 THEN
        SELECT place INTO cut FROM ended WHERE bucket = b AND bucket > 0 ORDER BY place OFFSET excess - 1 LIMIT 1;
    END IF;
    IF age >= 0 THEN
        -- One look at the oldest is all it costs while nothing is too old.
        SELECT finished_at INTO oldest FROM ended WHERE bucket = b AND bucket > 0 ORDER BY place LIMIT 1;
        IF oldest + age <= now THEN
            SELECT max(place) INTO past FROM (
                SELECT place, finished_at FROM ended WHERE bucket = b AND bucket > 0 ORDER BY place LIMIT bound
            ) AS first WHERE finished_at + age <= now;
            cut := greatest(coalesce(cut, 0), past);
        END IF;
    END IF;
    IF coalesce(cut, 0) = 0 THEN
        RETURN 0;
    END IF;
    INSERT INTO erased SELECT n, queue, state, bucket, logged, node FROM ended
    WHERE bucket = b AND bucket > 0 AND place <= cut;
    RETURN erase();
END
$$;

-- file(now, ranks, done, failed, jobs): puts ended jobs with a node into their buckets, as the last of them, and prunes
-- these. Jobs: [n, …]
CREATE FUNCTION file(now bigint, ranks bigint, done text, failed text, filed jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    keeps text[];
BEGIN
    SELECT array_agg(DISTINCT keep) INTO keeps FROM to_file(done, failed, filed);
    INSERT INTO buckets (name, most, age, size)
    SELECT keep, split_part(keep, '|', 1)::bigint, split_part(keep, '|', 2)::bigint, 0 FROM unnest(keeps) AS keep
    ON CONFLICT DO NOTHING;
    WITH f AS (
        SELECT t.n, t.i, t.keep, b.n AS bucket FROM to_file(done, failed, filed) AS t JOIN buckets AS b ON b.name = t.keep
    ), put AS (
        UPDATE ended SET bucket = f.bucket, place = ranks + f.i FROM f WHERE ended.n = f.n RETURNING f.bucket
    )
    UPDATE buckets SET size = size + p.more FROM (SELECT bucket, count(*) AS more FROM put GROUP BY bucket) AS p
    WHERE n = p.bucket;
    PERFORM prune(now, n, CASE WHEN most < 0 THEN 0 ELSE size - most END, age, 1000) FROM buckets
    WHERE name = ANY (keeps);
END
$$;

CREATE FUNCTION to_file(done text, failed text, filed jsonb) RETURNS TABLE (n bigint, i bigint, keep text)
STABLE LANGUAGE sql AS $$
    SELECT e.n, f.i, CASE WHEN e.state = 5 THEN coalesce(j.keep_failed, failed || e.queue)
                          ELSE coalesce(j.keep_done, done || e.queue) END
    FROM jsonb_array_elements_text(filed) WITH ORDINALITY AS f (v, i)
    JOIN ended AS e ON e.n = f.v::bigint JOIN jobs AS j ON j.n = e.n
    WHERE e.bucket = 0
$$;

-- erase(): removes the jobs listed in `erased`, their logs and watches, and empties the list. Answers how many.
CREATE FUNCTION erase() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    many bigint;
BEGIN
    INSERT INTO counts SELECT '', queue, state::text, -count(*) FROM erased GROUP BY queue, state ORDER BY queue, state
    ON CONFLICT (task, queue, what) DO UPDATE SET many = counts.many + excluded.many;
    UPDATE buckets SET size = size - e.less
    FROM (SELECT bucket, count(*) AS less FROM erased WHERE bucket > 0 GROUP BY bucket) AS e
    WHERE buckets.n = e.bucket;
    DELETE FROM lines WHERE job IN (SELECT job FROM erased WHERE logged > 0);
    DELETE FROM watches WHERE job IN (SELECT job FROM erased WHERE bucket = 0);
    DELETE FROM live WHERE n IN (SELECT job FROM erased);
    DELETE FROM ended WHERE n IN (SELECT job FROM erased);
    DELETE FROM jobs WHERE n IN (SELECT job FROM erased);
    GET DIAGNOSTICS many = ROW_COUNT;
    IF EXISTS (SELECT 1 FROM erased WHERE node > 0) THEN
        PERFORM untie();
    END IF;
    DELETE FROM erased;
    RETURN many;
END
$$;

-- untie(): the nodes of the jobs listed in `erased` go, and the graphs that were kept only because one of these awaits
-- them: the todo that prunes them (6) is put up.
CREATE FUNCTION untie() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH doomed AS (
        UPDATE graphs AS g SET state = -2, id = NULL
        FROM erased AS e JOIN nodes AS v ON v.n = e.node
        WHERE e.node > 0 AND v.awaits <> '' AND g.id = v.awaits AND g.state > 3 AND g.bucket = 0
        RETURNING g.n
    )
    INSERT INTO todos (op, graph, node, cursor) SELECT 6, n, 0, n FROM doomed;
    DELETE FROM links WHERE n IN (SELECT node FROM erased WHERE node > 0);
    DELETE FROM nodes WHERE n IN (SELECT node FROM erased WHERE node > 0);
END
$$;

-- weave(nodes, joins, graphs): what a step changed of graphs.
--   nodes   [[n, open, broken, replaced, watched, edges, culprit, awaits], …]
--   joins   [[n, state, run, finished_at, reason, result, error], …]
--   graphs  [[n, state, opened, succeeded, failed, cancelled, skipped, looked_at, looked, finished_at, stopping, reason,
--             culprit, bucket, place], …]
CREATE FUNCTION weave(changed jsonb, joined jsonb, wholes jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes SET open = (v ->> 1)::bigint, broken = (v ->> 2)::bigint, replaced = (v ->> 3)::smallint,
        watched = (v ->> 4)::smallint, edges = v ->> 5, culprit = v ->> 6, awaits = v ->> 7
    FROM jsonb_array_elements(changed) AS v WHERE n = (v ->> 0)::bigint;
    UPDATE nodes SET state = (v ->> 1)::smallint, run = (v ->> 2)::int, finished_at = (v ->> 3)::bigint, reason = v ->> 4,
        result = v ->> 5, error = v ->> 6
    FROM jsonb_array_elements(joined) AS v WHERE n = (v ->> 0)::bigint;
    UPDATE graphs SET state = (v ->> 1)::smallint, opened = (v ->> 2)::bigint, succeeded = (v ->> 3)::bigint,
        failed = (v ->> 4)::bigint, cancelled = (v ->> 5)::bigint, skipped = (v ->> 6)::bigint,
        looked_at = (v ->> 7)::bigint, looked = (v ->> 8)::bigint, finished_at = (v ->> 9)::bigint, stopping = v ->> 10,
        reason = v ->> 11, culprit = v ->> 12, bucket = (v ->> 13)::int, place = (v ->> 14)::bigint
    FROM jsonb_array_elements(wholes) AS v WHERE n = (v ->> 0)::bigint;
END
$$;

-- uproot(jobs, nodes, graphs): removes jobs with their nodes, nodes that are no jobs, and graphs; each [n, …]
CREATE FUNCTION uproot(gone_jobs jsonb, gone_nodes jsonb, gone_graphs jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    others bigint[] := ARRAY(SELECT v::bigint FROM jsonb_array_elements_text(gone_nodes) AS v);
BEGIN
    INSERT INTO erased SELECT j.n, j.queue, coalesce(l.state, e.state), coalesce(e.bucket, 0),
        coalesce(l.logged, e.logged), j.node
    FROM jobs AS j LEFT JOIN live AS l ON l.n = j.n LEFT JOIN ended AS e ON e.n = j.n
    WHERE j.n IN (SELECT v::bigint FROM jsonb_array_elements_text(gone_jobs) AS v);
    IF FOUND THEN
        PERFORM erase();
    END IF;
    DELETE FROM watches WHERE job IN (SELECT -o FROM unnest(others) AS o);
    DELETE FROM nodes WHERE n = ANY (others);
    DELETE FROM links WHERE n = ANY (others);
    DELETE FROM parts WHERE n = ANY (others);
    DELETE FROM graphs WHERE n IN (SELECT v::bigint FROM jsonb_array_elements_text(gone_graphs) AS v);
END
$$;

-- granted(worker, seq, now, jobs): ready jobs are this worker's now. jobs: [n, …]
CREATE FUNCTION granted(w bigint, s bigint, now bigint, given jsonb) RETURNS void LANGUAGE sql AS $$
    UPDATE live SET state = 3, hold = CASE WHEN hold = 2 THEN 2 ELSE 0 END, worker = w, seq = s, epoch = epoch + 1,
        started_at = now
    WHERE n IN (SELECT v::bigint FROM jsonb_array_elements_text(given) AS v)
$$;

-- relane(lanes): what became of lanes that were looked at, or that jobs joined or left. Their heads are read anew; open
-- ones without any go.
--   lanes  [[queue, name, state, turn, gate, units, opens, holder, expected, stood, stood_at, until], …]
CREATE FUNCTION relane(changed jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO lanes AS known (
        queue, name, state, turn, gate, units, opens, holder, expected, stood, stood_at, until, head, band
    )
    SELECT
        v ->> 0, v ->> 1, (v ->> 2)::smallint, (v ->> 3)::bigint, v ->> 4, (v ->> 5)::int, (v ->> 6)::bigint,
        (v ->> 7)::bigint, (v ->> 8)::bigint, (v ->> 9)::bigint, (v ->> 10)::bigint, (v ->> 11)::bigint,
        coalesce(h.n, 0), CASE WHEN h.n IS NULL THEN 0 WHEN is_strict(v ->> 1) THEN 4 ELSE h.place >> 56 END
    FROM jsonb_array_elements(changed) AS v
    LEFT JOIN LATERAL (
        SELECT n, place FROM live
        WHERE state = 2 AND hold = 3 AND queue = v ->> 0 AND coalesce(lane, 't' || task) = v ->> 1
        ORDER BY number, place LIMIT 1
    ) AS h ON true
    ON CONFLICT (queue, name) DO UPDATE SET
        state = excluded.state, turn = excluded.turn, gate = excluded.gate, units = excluded.units,
        opens = excluded.opens, holder = excluded.holder, expected = excluded.expected, stood = excluded.stood,
        stood_at = excluded.stood_at, until = excluded.until, head = excluded.head, band = excluded.band;
    DELETE FROM lanes WHERE state = 0 AND head = 0;
END
$$;

-- turned(worker, seq, now, jobs, lanes, plain): lanes had their turns: what they gave, as `granted`, and what became of
-- them, as `relane`; plain orders of queues had these.
--   plain  [[queue, turn], …]
CREATE FUNCTION turned(w bigint, s bigint, now bigint, given jsonb, changed jsonb, plain jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF given <> '[]' THEN
        PERFORM granted(w, s, now, given);
    END IF;
    IF changed <> '[]' THEN
        PERFORM relane(changed);
    END IF;
    INSERT INTO turns SELECT v ->> 0, (v ->> 1)::bigint FROM jsonb_array_elements(plain) AS v
    ON CONFLICT (queue) DO UPDATE SET turn = excluded.turn;
END
$$;

-- exchanged(worker, seq, now, idle, reserved, refused, jobs): what an exchange ends with: its claims, and the worker's row.
CREATE FUNCTION exchanged(w bigint, s bigint, now bigint, i bigint, r bigint, no text, given jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF given <> '[]' THEN
        PERFORM granted(w, s, now, given);
    END IF;
    UPDATE workers SET seq = s, idle = i::smallint, reserved = r, refused = no WHERE n = w;
END
$$;

-- admit(now, jobs): new jobs whose ids are known to be free.
--   jobs  [[id, task, version, queue, priority, payload, meta, state, place, due, expires, expire_to, max_crashes,
--           crash_delay, keep_done, keep_failed, node, hold, number, lane, terms], …], shorter where none has terms or a
--         node, and terms as text
CREATE FUNCTION admit(now bigint, fresh jsonb) RETURNS void LANGUAGE sql AS $$
    WITH new AS MATERIALIZED (
        SELECT v, i, (v ->> 20)::jsonb AS terms FROM jsonb_array_elements(fresh) WITH ORDINALITY AS f (v, i)
    ), kept AS (
        INSERT INTO jobs (node, enqueued_at, crash_delay, number, version, priority, expire_to, id, task, queue, lane,
            keep_done, keep_failed, payload, meta, terms)
        SELECT coalesce((v ->> 16)::bigint, 0), now, (v ->> 13)::bigint, coalesce((v ->> 18)::bigint, 0),
            (v ->> 2)::int, (v ->> 4)::smallint, (v ->> 11)::smallint, v ->> 0, v ->> 1, v ->> 3, v ->> 19, v ->> 14,
            v ->> 15, v ->> 5, v ->> 6, terms
        FROM new ORDER BY i
        RETURNING n, id
    )
    INSERT INTO live (n, place, due_at, expires_at, node, number, max_crashes, version, state, hold, priority, units,
        queue, task, lane, breaker)
    SELECT k.n, (v ->> 8)::bigint, (v ->> 9)::bigint, (v ->> 10)::bigint, coalesce((v ->> 16)::bigint, 0),
        coalesce((v ->> 18)::bigint, 0), (v ->> 12)::int, (v ->> 2)::int, (v ->> 7)::smallint,
        coalesce((v ->> 17)::smallint, 0), (v ->> 4)::smallint, coalesce((terms ->> 6)::int, 1), v ->> 3, v ->> 1,
        v ->> 19, nullif(terms ->> 7, '')
    FROM kept AS k JOIN new ON new.v ->> 0 = k.id
$$;

-- finish(now, shift, ranks, heeded, counts, kinds, news, kept): what every writing transaction ends with.
--   counts  [[task, queue, state or kind, change], …], without the events that `settle` has added up
--   kinds   of the news: ',kind,kind,'
--   news    groups of events, [] for none; at most `kept` entries stay
CREATE FUNCTION finish(now bigint, moved_by bigint, top bigint, heed bigint, changes jsonb, said text, news text,
    kept bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    UPDATE clock SET last = now, shift = moved_by, ranks = top, heeded = heed
    WHERE (last, shift, ranks, heeded) <> (now, moved_by, top, heed);
    INSERT INTO counts SELECT v ->> 0, v ->> 1, v ->> 2, sum((v ->> 3)::bigint) FROM jsonb_array_elements(changes) AS v
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (task, queue, what) DO UPDATE SET many = counts.many + excluded.many;
    IF news <> '[]' THEN
        SELECT coalesce(max(seq), 0) + 1 INTO newest FROM events;
        INSERT INTO events VALUES (newest, now, said, news);
        DELETE FROM events WHERE seq <= newest - kept;
    END IF;
END
$$;

-- again(jobs): ended jobs begin a new run; they are where they were until they are moved. Jobs that have not ended are as
-- they are, but for their counters.
CREATE FUNCTION again(list jsonb) RETURNS void LANGUAGE sql AS $$
    UPDATE ended SET run = run + 1, attempt = 0, crashes = 0, snoozes = 0, finished_at = 0, expires_at = 0, place = 0,
        bucket = 0, result = NULL, progress = NULL, reason = '', fingerprint = ''
    WHERE n IN (SELECT numbers(list));
    UPDATE live SET run = run + 1, attempt = 0, crashes = 0, snoozes = 0, expires_at = 0, place = 0, progress = NULL,
        reason = '', fingerprint = ''
    WHERE n IN (SELECT numbers(list));
$$;
