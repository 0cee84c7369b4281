-- Stored procedures, in the one form SQLite has them: a temporary view whose INSTEAD OF trigger is the body. The inserted
-- row is the argument list.
--
-- Why: the driver gives up Python's lock at every step of every statement and must win it back from a busy event loop,
-- which can take milliseconds. A procedure is one step, whatever it does and to however many jobs. Batches come as one
-- JSON text. Being temporary, procedures belong to the connection: the file carries no code that could be out of date.

-- Jobs that change state in the current step, with what is written about them. Filled by `settle` and `shift`.
CREATE TEMP TABLE moved (
    job INTEGER PRIMARY KEY,
    i INTEGER NOT NULL,                         -- its place in the argument
    id TEXT, task TEXT, queue TEXT,
    was INTEGER, goes INTEGER, hold INTEGER, place INTEGER, due INTEGER,
    attempt INTEGER, snoozes INTEGER, crashes INTEGER, max_crashes INTEGER,
    event TEXT, delay INTEGER, reason TEXT, result TEXT, error TEXT, fingerprint TEXT,
    keep TEXT,                                  -- name of the bucket it is filed in; NULL: it has not ended, or has a node
    watched INTEGER,
    node INTEGER,
    held INTEGER,                               -- the hold it had
    number INTEGER, lane TEXT, terms TEXT
);
CREATE TEMP TABLE erased (
    job INTEGER PRIMARY KEY, queue TEXT, state INTEGER, bucket INTEGER, logged INTEGER, node INTEGER
);
CREATE TEMP TABLE sums (task TEXT, queue TEXT, event TEXT, was INTEGER, goes INTEGER, many INTEGER);
CREATE TEMP TABLE filed (job INTEGER PRIMARY KEY, i INTEGER, keep TEXT);
CREATE TEMP TABLE cuts (bucket INTEGER PRIMARY KEY, place INTEGER);

-- What `settle` and `shift` say of a job that becomes ready:
--   hold   2 if it must run alone, but not before it has had its strict lane (place = 0: it is new there); 3 if it has a
--          lane, by its terms or because its task is gated
--   place  kept in strict lanes; else by priority and rank; with ageing by the instant, as if it had come earlier or later

-- settle(worker, now, ranks, done, failed, gated, moves)
--   worker       workers.n of the claims' holder
--   now, ranks   the transaction's instant, and the first free rank
--   done, failed prefixes of the default buckets; the queue's name completes them
--   gated        [task, …] whose gates have something to say
--   moves        [[id, run, epoch, seq, to, event, delay, attempt, crashes, snoozes, yields, result, error, reason,
--                  fingerprint, keep_done, keep_failed], …], shorter where the tail is empty
-- Applies the moves whose fence holds, adds them up, and leaves them in `moved`, numbered as in the argument.
CREATE TEMP VIEW settle (worker, now, ranks, done, failed, gated, moves)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER settle_body INSTEAD OF INSERT ON settle BEGIN
    DELETE FROM moved;
    INSERT OR IGNORE INTO moved
    SELECT
        n, i, id, task, queue, 3, goes,
        CASE WHEN goes <> 2 THEN 0
             WHEN crashes > 0 AND crashes = max_crashes - 1 AND NOT (strict AND place = 0) THEN 2
             WHEN lane IS NOT NULL OR (NEW.gated <> '[]' AND task IN (SELECT value FROM json_each(NEW.gated))) THEN 3
             ELSE 0 END,
        CASE WHEN goes > 3 THEN NEW.ranks + i
             WHEN goes <> 2 OR ((event = 'released' OR strict) AND place > 0) THEN place
             WHEN strict THEN (4 << 56) + NEW.ranks + i
             WHEN terms IS NOT NULL AND terms ->> 9 > 0
                 THEN (4 << 56) + (1 << 48) + NEW.now + (5 - priority) * (terms ->> 9)
             ELSE ((9 - priority) << 56) + NEW.ranks + i END,
        CASE WHEN goes = 1 THEN NEW.now + delay WHEN event = 'released' THEN due_at ELSE 0 END,
        attempt, snoozes, crashes, max_crashes, event, CASE WHEN event IN ('retried', 'snoozed') THEN delay END,
        reason, result, error, fingerprint,
        CASE WHEN node THEN NULL
             WHEN goes = 5 THEN coalesce(move_failed, keep_failed, NEW.failed || queue)
             WHEN goes > 3 THEN coalesce(move_done, keep_done, NEW.done || queue) END,
        watched, node, hold, number, lane, terms
    FROM (
        SELECT
            m.key AS i, j.n, j.id, j.task, j.queue, j.place, j.priority, j.max_crashes, j.watched, j.keep_done,
            j.keep_failed, j.node, j.due_at,
            j.hold, j.number, j.lane, j.terms, j.lane IS NOT NULL AND substr(j.lane, 1, 1) IN ('o', 's') AS strict,
            iif(j.cancel AND m.value ->> 10, 6, m.value ->> 4) AS goes,
            iif(j.cancel AND m.value ->> 10, 'cancelled', m.value ->> 5) AS event,
            iif(j.cancel AND m.value ->> 10, j.reason, m.value ->> 13) AS reason,
            m.value ->> 6 AS delay, m.value ->> 7 AS attempt, m.value ->> 8 AS crashes, m.value ->> 9 AS snoozes,
            m.value ->> 11 AS result, m.value ->> 12 AS error, m.value ->> 14 AS fingerprint,
            iif(m.value ->> 10, NULL, nullif(m.value ->> 15, '')) AS move_done,
            nullif(m.value ->> 16, '') AS move_failed
        FROM jsonb_each(NEW.moves) AS m CROSS JOIN jobs AS j ON j.id = m.value ->> 0
        WHERE j.state = 3 AND j.worker = NEW.worker
            AND j.run = m.value ->> 1 AND j.epoch = m.value ->> 2 AND j.seq = m.value ->> 3
        LIMIT -1 OFFSET 0  -- keeps the two queries apart: merged, each use of a column above would look into the JSON
    );
    INSERT INTO apply VALUES (NEW.now);
END;

-- shift(now, ranks, done, failed, gated, rows): the store's own moves, of jobs that are known to be where they should be.
--   rows  [[n, to, due, stays, reason, error, fingerprint, crashes, max_crashes, result], …], shorter without a result
--         stays: keeps its place in the ready order, as it does in a strict lane anyway, and when it was due; error NULL: keeps the error it has
CREATE TEMP VIEW shift (now, ranks, done, failed, gated, rows) AS SELECT NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER shift_body INSTEAD OF INSERT ON shift BEGIN
    DELETE FROM moved;
    INSERT INTO moved
    SELECT
        n, i, id, task, queue, state, goes,
        CASE WHEN goes <> 2 THEN 0
             WHEN crashes > 0 AND crashes = max_crashes - 1 AND NOT (strict AND place = 0) THEN 2
             WHEN lane IS NOT NULL OR (NEW.gated <> '[]' AND task IN (SELECT value FROM json_each(NEW.gated))) THEN 3
             ELSE 0 END,
        CASE WHEN goes > 3 THEN NEW.ranks + i
             WHEN goes <> 2 OR ((stays OR strict) AND place > 0) THEN place
             WHEN strict THEN (4 << 56) + NEW.ranks + i
             WHEN terms IS NOT NULL AND terms ->> 9 > 0
                 THEN (4 << 56) + (1 << 48) + NEW.now + (5 - priority) * (terms ->> 9)
             ELSE ((9 - priority) << 56) + NEW.ranks + i END,
        iif(goes = 2 AND stays, due_at, due), attempt, snoozes, crashes, max_crashes, NULL, NULL, reason, result, error, fingerprint,
        CASE WHEN node THEN NULL
             WHEN goes = 5 THEN coalesce(keep_failed, NEW.failed || queue)
             WHEN goes > 3 THEN coalesce(keep_done, NEW.done || queue) END,
        watched, node, hold, number, lane, terms
    FROM (
        SELECT
            r.key AS i, j.n, j.id, j.task, j.queue, j.state, j.place, j.priority, j.attempt, j.snoozes, j.watched,
            j.keep_done, j.keep_failed, j.node, j.due_at, r.value ->> 9 AS result,
            j.hold, j.number, j.lane, j.terms, j.lane IS NOT NULL AND substr(j.lane, 1, 1) IN ('o', 's') AS strict,
            r.value ->> 1 AS goes, r.value ->> 2 AS due, r.value ->> 3 AS stays, r.value ->> 4 AS reason,
            r.value ->> 5 AS error, r.value ->> 6 AS fingerprint, r.value ->> 7 AS crashes, r.value ->> 8 AS max_crashes
        FROM jsonb_each(NEW.rows) AS r CROSS JOIN jobs AS j ON j.n = r.value ->> 0
        LIMIT -1 OFFSET 0
    );
    INSERT INTO apply VALUES (NEW.now);
END;

-- apply(now): writes `moved` into the jobs, keeps the counts, files and prunes what has ended. Jobs with a node are filed
-- later, by `file`: others may depend on them.
CREATE TEMP VIEW apply (now) AS SELECT NULL;
CREATE TEMP TRIGGER apply_body INSTEAD OF INSERT ON apply BEGIN
    INSERT OR IGNORE INTO buckets (name, most, age, size)
    SELECT DISTINCT keep, iif(keep GLOB '*|*|*', CAST(keep AS INTEGER), -1),  -- damaged, it must not drop anything
        CAST(substr(keep, instr(keep, '|') + 1) AS INTEGER), 0
    FROM moved WHERE keep IS NOT NULL;
    UPDATE jobs SET
        state = m.goes, hold = m.hold, place = m.place, worker = 0,
        due_at = iif(m.goes > 3, jobs.due_at, m.due),
        attempt = m.attempt, snoozes = m.snoozes, crashes = m.crashes, max_crashes = m.max_crashes,
        cancel = iif(m.goes > 3, 0, cancel), watched = iif(m.goes > 3, 0, jobs.watched),
        finished_at = iif(m.goes > 3, NEW.now, finished_at), bucket = iif(m.goes > 3, coalesce(m.bucket, 0), 0),
        reason = iif(m.goes > 3, coalesce(m.reason, ''), jobs.reason),
        result = iif(m.goes > 3, m.result, jobs.result),
        fingerprint = iif(m.error IS NULL, jobs.fingerprint, coalesce(m.fingerprint, '')),
        error = coalesce(m.error, jobs.error)
    FROM (SELECT moved.*, buckets.n AS bucket FROM moved LEFT JOIN buckets ON buckets.name = moved.keep) AS m
    WHERE jobs.n = +m.job;
    -- They are sorted once, and by what differs most: there are few kinds of them, however many there are.
    DELETE FROM sums;
    INSERT INTO sums SELECT task, queue, event, was, goes, count(*) FROM moved GROUP BY task, queue, goes, was, event;
    INSERT INTO counts SELECT '', queue, was, -sum(many) FROM sums WHERE true GROUP BY queue, was
        ON CONFLICT DO UPDATE SET many = counts.many + excluded.many;
    INSERT INTO counts SELECT '', queue, goes, sum(many) FROM sums WHERE true GROUP BY queue, goes
        ON CONFLICT DO UPDATE SET many = counts.many + excluded.many;
    INSERT INTO counts SELECT task, queue, event, many FROM sums WHERE event IS NOT NULL AND task <> ''
        ON CONFLICT DO UPDATE SET many = counts.many + excluded.many;
    UPDATE buckets SET size = size + m.more
    FROM (SELECT keep, count(*) AS more FROM moved WHERE keep IS NOT NULL GROUP BY keep) AS m
    WHERE name = m.keep;
    -- What watchers are told must be whole though the record may be pruned in this very step.
    UPDATE moved SET error = (SELECT error FROM jobs WHERE n = moved.job)
    WHERE watched AND goes > 3 AND error IS NULL;
    INSERT INTO prune
    -- By its name, which is what was looked for: a damaged number must not drop anything.
    SELECT NEW.now, n, iif(CAST(name AS INTEGER) < 0, 0, size - CAST(name AS INTEGER)),
        CAST(substr(name, instr(name, '|') + 1) AS INTEGER), 1000 FROM buckets
    WHERE name IN (SELECT DISTINCT keep FROM moved);
END;

-- prune(now, bucket, excess, age, bound): drops what is beyond a bucket's count (all of it) and past its age (up to
-- bound).
--   excess  by how many jobs the bucket is over its count; 0 or less for none
--   age     its limit in milliseconds, -1 for none
CREATE TEMP VIEW prune (now, bucket, excess, age, bound) AS SELECT NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER prune_body INSTEAD OF INSERT ON prune BEGIN
    DELETE FROM cuts;
    INSERT INTO cuts SELECT NEW.bucket, max(
        coalesce(iif(NEW.excess > 0, (
            SELECT place FROM jobs WHERE bucket = NEW.bucket AND bucket > 0 ORDER BY place LIMIT 1 OFFSET NEW.excess - 1
        )), 0),
        -- One look at the oldest is all it costs while nothing is too old.
        coalesce(iif(NEW.age >= 0 AND NEW.now >= NEW.age + (
            SELECT finished_at FROM jobs WHERE bucket = NEW.bucket AND bucket > 0 ORDER BY place LIMIT 1
        ), (
            SELECT max(place) FROM (
                SELECT place, finished_at FROM jobs WHERE bucket = NEW.bucket AND bucket > 0
                ORDER BY place LIMIT NEW.bound
            ) WHERE finished_at + NEW.age <= NEW.now
        )), 0));
    INSERT INTO erased
    SELECT n, queue, state, jobs.bucket, logged, node
    FROM cuts CROSS JOIN jobs ON jobs.bucket = cuts.bucket AND jobs.bucket > 0 AND jobs.place <= cuts.place
    WHERE cuts.place > 0;
    INSERT INTO erase SELECT 1 WHERE EXISTS (SELECT 1 FROM erased);
END;

-- file(now, ranks, done, failed, jobs): puts ended jobs with a node into their buckets, as the last of them, and prunes
-- these.
--   jobs  [n, …]
CREATE TEMP VIEW file (now, ranks, done, failed, jobs) AS SELECT NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER file_body INSTEAD OF INSERT ON file BEGIN
    DELETE FROM filed;
    INSERT INTO filed
    SELECT j.n, e.key, CASE WHEN j.state = 5 THEN coalesce(j.keep_failed, NEW.failed || j.queue)
                            ELSE coalesce(j.keep_done, NEW.done || j.queue) END
    FROM json_each(NEW.jobs) AS e CROSS JOIN jobs AS j ON j.n = e.value
    WHERE j.bucket = 0 AND j.state > 3;
    INSERT OR IGNORE INTO buckets (name, most, age, size)
    SELECT DISTINCT keep, CAST(keep AS INTEGER), CAST(substr(keep, instr(keep, '|') + 1) AS INTEGER), 0 FROM filed;
    UPDATE jobs SET bucket = f.bucket, place = NEW.ranks + f.i
    FROM (SELECT job, i, buckets.n AS bucket FROM filed JOIN buckets ON name = keep) AS f
    WHERE jobs.n = +f.job;
    UPDATE buckets SET size = size + f.more
    FROM (SELECT keep, count(*) AS more FROM filed GROUP BY keep) AS f
    WHERE name = f.keep;
    INSERT INTO prune
    -- By its name, which is what was looked for: a damaged number must not drop anything.
    SELECT NEW.now, n, iif(CAST(name AS INTEGER) < 0, 0, size - CAST(name AS INTEGER)),
        CAST(substr(name, instr(name, '|') + 1) AS INTEGER), 1000 FROM buckets
    WHERE name IN (SELECT DISTINCT keep FROM filed);
END;

-- erase(one): removes the jobs listed in `erased`, their logs and watches, and empties the list.
CREATE TEMP VIEW erase (one) AS SELECT NULL;
CREATE TEMP TRIGGER erase_body INSTEAD OF INSERT ON erase BEGIN
    INSERT INTO counts SELECT '', queue, state, -count(*) FROM erased WHERE true GROUP BY queue, state
        ON CONFLICT DO UPDATE SET many = many + excluded.many;
    UPDATE buckets SET size = size - e.less
    FROM (SELECT bucket, count(*) AS less FROM erased WHERE bucket > 0 GROUP BY bucket) AS e
    WHERE buckets.n = e.bucket;
    DELETE FROM lines WHERE job IN (SELECT job FROM erased WHERE logged > 0);
    DELETE FROM watches WHERE job IN (SELECT job FROM erased WHERE bucket = 0);
    DELETE FROM jobs WHERE n IN (SELECT job FROM erased);
    INSERT INTO untie SELECT 1 WHERE EXISTS (SELECT 1 FROM erased WHERE node > 0);
    DELETE FROM erased;
END;

-- untie(one): the nodes of the jobs listed in `erased` go, and the graphs that were kept only because one of these awaits
-- them: the todo that prunes them (6) is put up.
CREATE TEMP VIEW untie (one) AS SELECT NULL;
CREATE TEMP TRIGGER untie_body INSTEAD OF INSERT ON untie BEGIN
    INSERT INTO todos (op, graph, node, cursor)
    SELECT 6, g.n, 0, g.n
    FROM erased AS e CROSS JOIN nodes AS v ON v.n = e.node CROSS JOIN graphs AS g ON g.id = v.awaits
    WHERE e.node > 0 AND v.awaits <> '' AND g.state > 3 AND g.bucket = 0;
    UPDATE graphs SET state = -2, id = NULL WHERE n IN (
        SELECT g.n
        FROM erased AS e CROSS JOIN nodes AS v ON v.n = e.node CROSS JOIN graphs AS g ON g.id = v.awaits
        WHERE e.node > 0 AND v.awaits <> '' AND g.state > 3 AND g.bucket = 0
    );
    DELETE FROM links WHERE n IN (SELECT node FROM erased WHERE node > 0);
    DELETE FROM nodes WHERE n IN (SELECT node FROM erased WHERE node > 0);
END;

-- weave(nodes, joins, graphs): what a step changed of graphs.
--   nodes   [[n, open, broken, replaced, watched, edges, culprit, awaits], …]
--   joins   [[n, state, run, finished_at, reason, result, error], …]
--   graphs  [[n, state, opened, succeeded, failed, cancelled, skipped, looked_at, looked, finished_at, stopping, reason,
--             culprit, bucket, place], …]
CREATE TEMP VIEW weave (nodes, joins, graphs) AS SELECT NULL, NULL, NULL;
CREATE TEMP TRIGGER weave_body INSTEAD OF INSERT ON weave BEGIN
    UPDATE nodes SET open = c.value ->> 1, broken = c.value ->> 2, replaced = c.value ->> 3, watched = c.value ->> 4,
        edges = c.value ->> 5, culprit = c.value ->> 6, awaits = c.value ->> 7
    FROM jsonb_each(NEW.nodes) AS c WHERE nodes.n = c.value ->> 0;
    UPDATE nodes SET state = c.value ->> 1, run = c.value ->> 2, finished_at = c.value ->> 3, reason = c.value ->> 4,
        result = c.value ->> 5, error = c.value ->> 6
    FROM jsonb_each(NEW.joins) AS c WHERE nodes.n = c.value ->> 0;
    UPDATE graphs SET state = c.value ->> 1, opened = c.value ->> 2, succeeded = c.value ->> 3, failed = c.value ->> 4,
        cancelled = c.value ->> 5, skipped = c.value ->> 6, looked_at = c.value ->> 7, looked = c.value ->> 8,
        finished_at = c.value ->> 9, stopping = c.value ->> 10, reason = c.value ->> 11, culprit = c.value ->> 12,
        bucket = c.value ->> 13, place = c.value ->> 14
    FROM jsonb_each(NEW.graphs) AS c WHERE graphs.n = c.value ->> 0;
END;

-- uproot(jobs, nodes, graphs): removes jobs with their nodes, nodes that are no jobs, and graphs; each [n, …]
CREATE TEMP VIEW uproot (jobs, nodes, graphs) AS SELECT NULL, NULL, NULL;
CREATE TEMP TRIGGER uproot_body INSTEAD OF INSERT ON uproot BEGIN
    INSERT INTO erased SELECT n, queue, state, bucket, logged, node FROM jobs
    WHERE n IN (SELECT value FROM json_each(NEW.jobs));
    INSERT INTO erase SELECT 1 WHERE EXISTS (SELECT 1 FROM erased);
    DELETE FROM watches WHERE job IN (SELECT -value FROM json_each(NEW.nodes));
    DELETE FROM nodes WHERE n IN (SELECT value FROM json_each(NEW.nodes));
    DELETE FROM links WHERE n IN (SELECT value FROM json_each(NEW.nodes));
    DELETE FROM parts WHERE n IN (SELECT value FROM json_each(NEW.nodes));
    DELETE FROM graphs WHERE n IN (SELECT value FROM json_each(NEW.graphs));
END;

-- granted(worker, seq, now, jobs): ready jobs are this worker's now. jobs: [n, …]
CREATE TEMP VIEW granted (worker, seq, now, jobs) AS SELECT NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER granted_body INSTEAD OF INSERT ON granted BEGIN
    UPDATE jobs SET
        state = 3, hold = iif(hold = 2, 2, 0), worker = NEW.worker, seq = NEW.seq, epoch = epoch + 1, started_at = NEW.now
    WHERE n IN (SELECT value FROM json_each(NEW.jobs));
END;

-- relane(lanes): what became of lanes that were looked at, or that jobs joined or left. Their heads are read anew; open
-- ones without any go.
--   lanes  [[queue, name, state, turn, gate, units, opens, holder, expected, stood, stood_at, until], …]
CREATE TEMP VIEW relane (lanes) AS SELECT NULL;
CREATE TEMP TRIGGER relane_body INSTEAD OF INSERT ON relane BEGIN
    INSERT INTO lanes (
        queue, name, state, turn, gate, units, opens, holder, expected, stood, stood_at, until, head, band
    )
    SELECT
        e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3, e.value ->> 4, e.value ->> 5, e.value ->> 6,
        e.value ->> 7, e.value ->> 8, e.value ->> 9, e.value ->> 10, e.value ->> 11, coalesce(h.n, 0),
        coalesce(iif(substr(e.value ->> 1, 1, 1) IN ('o', 's'), 4, h.place >> 56), 0)
    FROM jsonb_each(NEW.lanes) AS e LEFT JOIN jobs AS h ON h.n = (
        SELECT n FROM jobs
        WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0 AND coalesce(lane, 't' || task) = e.value ->> 1
        ORDER BY number, place LIMIT 1
    )
    WHERE true
    ON CONFLICT (queue, name) DO UPDATE SET
        state = excluded.state, turn = excluded.turn, gate = excluded.gate, units = excluded.units,
        opens = excluded.opens, holder = excluded.holder, expected = excluded.expected, stood = excluded.stood,
        stood_at = excluded.stood_at, until = excluded.until, head = excluded.head, band = excluded.band;
    DELETE FROM lanes WHERE state = 0 AND head = 0;
END;

-- turned(worker, seq, now, jobs, lanes, plain): lanes had their turns: what they gave, as `granted`, and what became of
-- them, as `relane`; plain orders of queues had these.
--   plain  [[queue, turn], …]
CREATE TEMP VIEW turned (worker, seq, now, jobs, lanes, plain)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER turned_body INSTEAD OF INSERT ON turned BEGIN
    INSERT INTO granted SELECT NEW.worker, NEW.seq, NEW.now, NEW.jobs WHERE NEW.jobs <> '[]';
    INSERT INTO relane SELECT NEW.lanes WHERE NEW.lanes <> '[]';
    INSERT INTO turns SELECT value ->> 0, value ->> 1 FROM json_each(NEW.plain) WHERE true
        ON CONFLICT (queue) DO UPDATE SET turn = excluded.turn;
END;

-- exchanged(worker, seq, now, idle, reserved, refused, jobs): what an exchange ends with: its claims, and the worker's row.
CREATE TEMP VIEW exchanged (worker, seq, now, idle, reserved, refused, jobs)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER exchanged_body INSTEAD OF INSERT ON exchanged BEGIN
    INSERT INTO granted SELECT NEW.worker, NEW.seq, NEW.now, NEW.jobs WHERE NEW.jobs <> '[]';
    UPDATE workers SET seq = NEW.seq, idle = NEW.idle, reserved = NEW.reserved, refused = NEW.refused
    WHERE n = NEW.worker;
END;

-- accept(now, jobs): new jobs whose ids are known to be free.
--   jobs  [[id, task, version, queue, priority, payload, meta, state, place, due, expires, expire_to, max_crashes,
--           crash_delay, keep_done, keep_failed], …]
CREATE TEMP VIEW accept (now, jobs) AS SELECT NULL, NULL;
CREATE TEMP TRIGGER accept_body INSTEAD OF INSERT ON accept BEGIN
    INSERT INTO jobs (
        id, task, version, queue, priority, payload, meta, state, place, due_at, expires_at, expire_to, max_crashes,
        crash_delay, keep_done, keep_failed, enqueued_at
    )
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
        NEW.now
    FROM jsonb_each(NEW.jobs);
END;

-- admit(now, jobs): the same for jobs of graphs, jobs with terms and jobs of tasks with gates.
--   jobs  as those of `accept`, and behind that node, hold, number, lane, terms
CREATE TEMP VIEW admit (now, jobs) AS SELECT NULL, NULL;
CREATE TEMP TRIGGER admit_body INSTEAD OF INSERT ON admit BEGIN
    INSERT INTO jobs (
        id, task, version, queue, priority, payload, meta, state, place, due_at, expires_at, expire_to, max_crashes,
        crash_delay, keep_done, keep_failed, node, hold, number, lane, terms, enqueued_at
    )
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
        value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20, NEW.now
    FROM jsonb_each(NEW.jobs);
END;

-- finish(now, shift, ranks, heeded, counts, kinds, news, kept): what every writing transaction ends with.
--   counts  [[task, queue, state or kind, change], …], without the events that `settle` has added up
--   kinds   of the news: ',kind,kind,'
--   news    groups of events, [] for none; at most `kept` entries stay
CREATE TEMP VIEW finish (now, shift, ranks, heeded, counts, kinds, news, kept)
AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
CREATE TEMP TRIGGER finish_body INSTEAD OF INSERT ON finish BEGIN
    UPDATE clock SET last = NEW.now, shift = NEW.shift, ranks = NEW.ranks, heeded = NEW.heeded;
    INSERT INTO counts SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(NEW.counts) WHERE true
        ON CONFLICT DO UPDATE SET many = many + excluded.many;
    INSERT INTO events (at, kinds, groups) SELECT NEW.now, NEW.kinds, NEW.news WHERE NEW.news <> '[]';
    DELETE FROM events WHERE NEW.news <> '[]' AND seq <= (SELECT max(seq) FROM events) - NEW.kept;
END;
