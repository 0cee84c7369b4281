-- The tables of one app, in a schema of its own. What moves jobs is in functions.sql, which has a schema named by its text.
--
-- States and holds are small integers (store/machine/codes.py). Instants are milliseconds of the store's clock, 0 for
-- "never". JSON that only this library reads is text.

-- One row: the schema's version.
CREATE TABLE windlass (
    one integer PRIMARY KEY CHECK (one = 1),
    schema integer NOT NULL
);

-- One row: the clock (last instant seen and its shift against the server's clock), the counter that ranks, turns and
-- versions are made of, and the number that changes with what workers heed.
CREATE TABLE clock (
    one integer PRIMARY KEY CHECK (one = 1),
    last bigint NOT NULL,
    shift bigint NOT NULL,
    ranks bigint NOT NULL,
    heeded bigint NOT NULL
) WITH (fillfactor = 20);

-- Rows by temperature. A job is one row here from acceptance to the end of its record, changed by operators alone...
CREATE TABLE jobs (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- place in order of acceptance
    node bigint NOT NULL DEFAULT 0,             -- nodes.n; 0: it has nothing to do with any graph
    enqueued_at bigint NOT NULL,
    crash_delay bigint NOT NULL,
    number bigint NOT NULL DEFAULT 0,           -- its number in a resequenced lane
    version integer NOT NULL,
    priority smallint NOT NULL,
    expire_to smallint NOT NULL,
    id text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    lane text,                                  -- the lane its terms give it; NULL: none, or that of its task while gated
    keep_done text,
    keep_failed text,
    payload text NOT NULL,
    meta text NOT NULL,
    terms jsonb,                                -- core.terms.Terms; NULL: it has none
    CONSTRAINT jobs_id UNIQUE (id)
);

-- ... and, until it has ended, a narrow row here, which is written whenever it moves. What lanes and gates look for is
-- repeated, so that they read no wide rows.
CREATE TABLE live (
    n bigint PRIMARY KEY,
    place bigint NOT NULL DEFAULT 0,            -- place in ready order
    due_at bigint NOT NULL DEFAULT 0,
    expires_at bigint NOT NULL DEFAULT 0,
    started_at bigint NOT NULL DEFAULT 0,
    aside_at bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    node bigint NOT NULL DEFAULT 0,
    number bigint NOT NULL DEFAULT 0,
    worker bigint NOT NULL DEFAULT 0,           -- workers.n while it runs
    run integer NOT NULL DEFAULT 1,
    epoch integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    snoozes integer NOT NULL DEFAULT 0,
    max_crashes integer NOT NULL,
    version integer NOT NULL,
    logged integer NOT NULL DEFAULT 0,          -- how many lines it has logged; 0: do not look into lines
    state smallint NOT NULL,                    -- 0 waiting, 1 scheduled, 2 ready, 3 running
    hold smallint NOT NULL DEFAULT 0,           -- 1: set aside, 2: runs alone (also while it runs), 3: in a lane
    priority smallint NOT NULL,
    cancel smallint NOT NULL DEFAULT 0,
    watched smallint NOT NULL DEFAULT 0,        -- 1: look into watches when it ends
    units integer NOT NULL DEFAULT 1,           -- what it weighs at gates
    queue text NOT NULL,
    task text NOT NULL,
    lane text,
    breaker text,                               -- the breaker its terms name
    reason text NOT NULL DEFAULT '',            -- of a cancel that was asked for
    fingerprint text NOT NULL DEFAULT '',
    error text,
    progress text
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX live_ready ON live (queue, place) WHERE state = 2 AND hold = 0;
CREATE INDEX live_held ON live (queue, hold, place) WHERE state = 2 AND hold IN (1, 2);
CREATE INDEX live_aside ON live (queue, task, version, place) WHERE state = 2 AND hold = 1;
CREATE INDEX live_lane ON live (queue, coalesce(lane, 't' || task), number, place) WHERE state = 2 AND hold = 3;
CREATE INDEX live_due ON live (due_at) WHERE state = 1;
CREATE INDEX live_expiry ON live (expires_at) WHERE expires_at > 0 AND state < 3;
CREATE INDEX live_running ON live (worker, seq) WHERE state = 3;
CREATE INDEX live_cancelled ON live (worker) WHERE state = 3 AND cancel > 0;
CREATE INDEX live_keyed ON live (queue, lane) WHERE state = 3 AND lane IS NOT NULL;
CREATE INDEX live_by_state ON live (state, n) WHERE state IN (0, 1);

-- Jobs that have ended: what became of them.
CREATE TABLE ended (
    n bigint PRIMARY KEY,
    place bigint NOT NULL,                      -- place in finished order
    due_at bigint NOT NULL DEFAULT 0,
    expires_at bigint NOT NULL DEFAULT 0,
    started_at bigint NOT NULL DEFAULT 0,
    finished_at bigint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    node bigint NOT NULL DEFAULT 0,
    run integer NOT NULL,
    epoch integer NOT NULL,
    attempt integer NOT NULL,
    crashes integer NOT NULL,
    snoozes integer NOT NULL,
    max_crashes integer NOT NULL,
    logged integer NOT NULL DEFAULT 0,
    bucket integer NOT NULL DEFAULT 0,          -- buckets.n
    state smallint NOT NULL,                    -- 4 succeeded, 5 failed, 6 cancelled, 7 skipped
    queue text NOT NULL,
    task text NOT NULL,
    reason text NOT NULL DEFAULT '',
    fingerprint text NOT NULL DEFAULT '',
    result text,
    error text,
    progress text
);
CREATE INDEX ended_bucket ON ended (bucket, place) WHERE bucket > 0;
CREATE INDEX ended_given_up ON ended (state, n) WHERE state > 5;
CREATE INDEX ended_failed_task ON ended (task, n) WHERE state = 5;
CREATE INDEX ended_failed_fingerprint ON ended (fingerprint, n) WHERE state = 5;

-- How many jobs of each queue are in each state, and how many events of each kind there ever were, of the jobs of a task
-- in a queue.
CREATE TABLE counts (
    task text NOT NULL,                         -- '': of states
    queue text NOT NULL,
    what text NOT NULL,                         -- a state, or a kind of events
    many bigint NOT NULL,
    PRIMARY KEY (task, queue, what)
) WITH (fillfactor = 50);

-- Lanes that have ready jobs or that a job has, and what is to be remembered of empty ones.
CREATE TABLE lanes (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn bigint NOT NULL DEFAULT 0,
    head bigint NOT NULL DEFAULT 0,             -- jobs.n of the first of its ready jobs
    holder bigint NOT NULL DEFAULT 0,           -- jobs.n of the job that has it
    opens bigint NOT NULL DEFAULT 0,            -- when time opens it, if it waits at a key's gate or for a number
    expected bigint NOT NULL DEFAULT 1,
    stood bigint NOT NULL DEFAULT 0,            -- jobs.n of the head that waits for a number, and since when
    stood_at bigint NOT NULL DEFAULT 0,
    until bigint NOT NULL DEFAULT 0,            -- empty: when it is forgotten
    units integer NOT NULL DEFAULT 1,           -- what the head weighs, while it waits at a gate
    state smallint NOT NULL,                    -- 0: open, 1: waits at a gate, 2: a job has it, 3: waits for a number,
                                                -- 4: empty
    band smallint NOT NULL DEFAULT 0,           -- 9 - the priority of its head
    queue text NOT NULL,
    name text NOT NULL,
    gate text                                   -- where it waits
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX lanes_name ON lanes (queue, name);
CREATE INDEX lanes_open ON lanes (queue, band, turn) WHERE state = 0;
CREATE INDEX lanes_waiting ON lanes (gate, queue, turn) WHERE state = 1;
CREATE INDEX lanes_void ON lanes (n) WHERE state = 0 AND head = 0;
CREATE INDEX lanes_opens ON lanes (opens) WHERE opens > 0;
CREATE INDEX lanes_empty ON lanes (until) WHERE until > 0;

-- The turn the plain order of a queue last took among its lanes.
CREATE TABLE turns (
    queue text PRIMARY KEY,
    turn bigint NOT NULL
) WITH (fillfactor = 50);

-- Gates that have something to say. What they hold is counted from the running jobs.
CREATE TABLE gates (
    name text PRIMARY KEY,
    version bigint NOT NULL,
    closed_until bigint NOT NULL DEFAULT 0,
    tat bigint NOT NULL DEFAULT 0,              -- of its rate, in microseconds
    need integer NOT NULL DEFAULT 1,            -- of a queue: what the job weighs that found it closed
    opening smallint NOT NULL DEFAULT 0,        -- 1: it was tuned, and lanes that waited are still to be looked at
    declared text NOT NULL,                     -- core.limits.Limits
    tuned text NOT NULL,
    note bytea NOT NULL
) WITH (fillfactor = 50);

-- The rates of keys, as long as they have something to say.
CREATE TABLE keys (
    queue text NOT NULL,
    key text NOT NULL,
    tat bigint NOT NULL,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 50);
CREATE INDEX keys_tat ON keys (tat);

-- Who has a unique key. Its record may be gone while the window lasts.
CREATE TABLE uniques (
    key text PRIMARY KEY,
    job bigint NOT NULL,                        -- jobs.n of the holder; 0: it is over
    successor bigint NOT NULL DEFAULT 0,        -- jobs.n
    until bigint NOT NULL DEFAULT 0,            -- held at least so long
    holder text NOT NULL
);
CREATE INDEX uniques_window ON uniques (until) WHERE job = 0;

-- Items (store/items.py): small values that are not jobs, by shelf and in the order of their keys. until: 0 for never.
CREATE TABLE items (
    shelf text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    until bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (shelf, key)
);
CREATE INDEX items_until ON items (until) WHERE until > 0;

-- Logs (store/items.py): what is known of each, with how much of it is kept (0: all), and their records. `place` is the
-- position of a record in its log, with the log's number above.
CREATE TABLE logs (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    last bigint NOT NULL DEFAULT 0,
    many bigint NOT NULL DEFAULT 0,
    size bigint NOT NULL DEFAULT 0,
    keep_age bigint NOT NULL DEFAULT 0,
    keep_count bigint NOT NULL DEFAULT 0,
    keep_size bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE records (
    place bigint PRIMARY KEY,
    log bigint NOT NULL,
    n bigint NOT NULL,
    at bigint NOT NULL,
    stream text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);
CREATE UNIQUE INDEX records_stream ON records (log, stream, n);
CREATE TABLE followers (
    log text NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (log, name)
);

-- Retention (core/keep.py): a bucket's limits, read off its name, and how many jobs are filed in it. Those of workflows
-- are apart.
CREATE TABLE buckets (
    n integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    most bigint NOT NULL,
    age bigint NOT NULL,
    size bigint NOT NULL
) WITH (fillfactor = 50);

-- Workflows. `n` is a rank, and its nodes have the numbers behind it, in their order: a graph is a range of nodes.
CREATE TABLE graphs (
    n bigint PRIMARY KEY,
    state smallint NOT NULL DEFAULT -1,         -- of its end; -1: staged, -2: being dropped
    nodes bigint NOT NULL,
    size bigint NOT NULL,
    staged bigint NOT NULL DEFAULT 0,           -- how many of its nodes are here
    opened bigint NOT NULL DEFAULT 0,           -- how many of them are accepted
    succeeded bigint NOT NULL DEFAULT 0,        -- its ended jobs, without the aftermath
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    fail_fast smallint NOT NULL,
    looked_at bigint NOT NULL,                  -- staged: when its last part came; under way: when it was audited
    looked bigint NOT NULL DEFAULT 0,           -- how many nodes the audit under way has looked at in vain
    created_at bigint NOT NULL DEFAULT 0,
    finished_at bigint NOT NULL DEFAULT 0,
    bucket integer NOT NULL DEFAULT 0,
    place bigint NOT NULL DEFAULT 0,
    id text,                                    -- NULL while it is being dropped
    stopping text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    culprit text NOT NULL DEFAULT '',
    digest text NOT NULL,
    name text NOT NULL,
    parent text NOT NULL,
    keep_done text NOT NULL,
    keep_failed text NOT NULL,
    meta text NOT NULL
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX graphs_id ON graphs (id);
CREATE INDEX graphs_staged ON graphs (looked_at) WHERE state = -1;
CREATE INDEX graphs_under_way ON graphs (looked_at) WHERE state = 0;
CREATE INDEX graphs_finished ON graphs (bucket, place) WHERE bucket > 0;

-- What a graph needs to know of its jobs and joins. A job's state is in its own row; the columns from `state` on are
-- those of joins.
CREATE TABLE nodes (
    n bigint PRIMARY KEY,
    graph bigint NOT NULL,                      -- graphs.n; 0: a job of its own that waits for a graph
    shape smallint NOT NULL,
    spare bigint NOT NULL,
    aftermath smallint NOT NULL,
    open bigint NOT NULL,                       -- edges to it that are undecided
    broken bigint NOT NULL DEFAULT 0,
    inject smallint NOT NULL,                   -- of the first edge that injects something, with its source
    delay bigint NOT NULL,                      -- these three count from its release
    at bigint NOT NULL,
    expires_in bigint NOT NULL,
    replaced smallint NOT NULL DEFAULT 0,
    watched smallint NOT NULL DEFAULT 0,        -- of joins, and of jobs that are not accepted yet
    id text NOT NULL,
    source text NOT NULL,
    edges text NOT NULL DEFAULT '',             -- a digit for each edge from it (core.links.Edge); empty: all are open
    culprit text NOT NULL DEFAULT '',
    awaits text NOT NULL DEFAULT '',
    state smallint NOT NULL DEFAULT 0,
    run integer NOT NULL DEFAULT 1,
    finished_at bigint NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    result text,
    error text
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX nodes_id ON nodes (id);

-- The edges of a node (core.links), apart because they are long and never change.
CREATE TABLE links (
    n bigint PRIMARY KEY,
    ins text NOT NULL,
    outs text NOT NULL
);

-- Jobs of graphs that are not accepted yet.
CREATE TABLE parts (
    n bigint PRIMARY KEY,                       -- nodes.n
    body jsonb NOT NULL
);

-- What is left to do for graphs, first come, first served.
CREATE TABLE todos (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    op smallint NOT NULL,
    graph bigint NOT NULL,
    node bigint NOT NULL,
    cursor bigint NOT NULL
);
CREATE INDEX todos_graph ON todos (graph);

-- The row an exchange writes is small; what a worker said of itself is beside it. `mark` names the content of its queues
-- and declarations, so that a connection parses them once.
CREATE TABLE workers (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    lease bigint NOT NULL,
    lease_until bigint NOT NULL,
    beat_at bigint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    idle smallint NOT NULL DEFAULT 0,
    dead smallint NOT NULL DEFAULT 0,
    reserved bigint NOT NULL DEFAULT 0,         -- jobs.n of the job it drains for
    mark bigint NOT NULL,
    refused text NOT NULL DEFAULT '[]'          -- what its last exchange was answered, should it ask again
) WITH (fillfactor = 20);
CREATE TABLE presences (
    worker bigint PRIMARY KEY,
    body text NOT NULL
);

-- When the last worker that declared a task of jobs set aside went.
CREATE TABLE undeclared (
    queue text NOT NULL,
    task text NOT NULL,
    version integer NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (queue, task, version)
);

-- Where names listen: a channel of NOTIFY. `follows`: wants a wake-up at every event. What is watched is a job, by its
-- number, or a node that has none, by its own number below zero.
CREATE TABLE mailboxes (
    name text PRIMARY KEY,
    path text NOT NULL,
    follows smallint NOT NULL DEFAULT 0
);
CREATE TABLE watches (
    job bigint NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (job, name)
);
CREATE INDEX watches_name ON watches (name);

CREATE TABLE lines (
    job bigint NOT NULL,
    i integer NOT NULL,
    at bigint NOT NULL,
    level text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job, i)
);

-- One row per write; `groups` is the JSON of core/event.py. What looks for a few kinds reads no more than `kinds`.
CREATE TABLE events (
    seq bigint PRIMARY KEY,
    at bigint NOT NULL,
    kinds text NOT NULL,                        -- ',kind,kind,'
    groups text NOT NULL
);

-- Jobs that change state in the current step, with what is written about them, and jobs that are being removed. Written
-- and read under the machine's lock, and emptied by the next step.
CREATE UNLOGGED TABLE moved (
    job bigint NOT NULL,
    i integer NOT NULL,                         -- its place in the argument
    was smallint, goes smallint, hold smallint,
    held smallint,                              -- the hold it had
    watched smallint,
    attempt integer, snoozes integer, crashes integer, max_crashes integer,
    place bigint, due bigint, delay bigint, node bigint, number bigint,
    id text, task text, queue text, lane text, event text, reason text, result text, error text, fingerprint text,
    keep text,                                  -- name of the bucket it is filed in; NULL: it has not ended, or has a node
    terms jsonb
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE UNLOGGED TABLE erased (
    job bigint NOT NULL, queue text, state smallint, bucket integer, logged integer, node bigint
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
