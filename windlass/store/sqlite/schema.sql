-- The file's tables. Everything that moves jobs is in steps.sql, which lives in the connection, not in the file.
--
-- States and holds are small integers (windlass/store/machine/codes.py). Instants are milliseconds of the store's clock,
-- 0 for "never". Most columns of most jobs are 0, 1 or NULL, which SQLite keeps in no space at all.

-- One row: the schema's version. The other columns were the clock's up to schema 4: a process of that time that still
-- runs reads them, and is told to go by the first thing it writes.
CREATE TABLE windlass (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    last INTEGER NOT NULL,
    shift INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    schedules INTEGER NOT NULL DEFAULT 0
);
CREATE TRIGGER windlass_outdated BEFORE UPDATE OF last ON windlass BEGIN
    SELECT RAISE(ABORT, 'the file was migrated by a newer Windlass: restart this process with that version');
END;

-- One row: the clock (last instant seen and its shift against the host's clock), the counter that ranks, turns and
-- versions are made of, and the number that changes with what workers heed. It is written by every transaction, so it is kept
-- tiny and on a page of its own.
CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL,
    shift INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    heeded INTEGER NOT NULL
);

CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,                      -- place in order of acceptance
    state INTEGER NOT NULL,
    hold INTEGER NOT NULL DEFAULT 0,            -- 1: set aside, 2: runs alone (also while it runs), 3: in a lane
    place INTEGER NOT NULL DEFAULT 0,           -- until it ends: place in ready order; then: place in finished order
    worker INTEGER NOT NULL DEFAULT 0,          -- workers.n while it runs
    seq INTEGER NOT NULL DEFAULT 0,
    run INTEGER NOT NULL DEFAULT 1,
    epoch INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    snoozes INTEGER NOT NULL DEFAULT 0,
    cancel INTEGER NOT NULL DEFAULT 0,
    watched INTEGER NOT NULL DEFAULT 0,         -- 1: look into watches when it ends
    logged INTEGER NOT NULL DEFAULT 0,          -- how many lines it has logged; 0: do not look into lines
    bucket INTEGER NOT NULL DEFAULT 0,          -- buckets.n once it has ended
    node INTEGER NOT NULL DEFAULT 0,            -- nodes.n; 0: it has nothing to do with any graph
    priority INTEGER NOT NULL,
    version INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    crash_delay INTEGER NOT NULL,
    expire_to INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0,
    aside_at INTEGER NOT NULL DEFAULT 0,
    number INTEGER NOT NULL DEFAULT 0,          -- its number in a resequenced lane
    lane TEXT,                                  -- the lane its terms give it; NULL: none, or that of its task while gated
    terms TEXT,                                 -- core.terms.Terms; NULL: it has none
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    keep_done TEXT,
    keep_failed TEXT,
    reason TEXT NOT NULL DEFAULT '',
    fingerprint TEXT NOT NULL DEFAULT '',
    progress TEXT,
    payload TEXT NOT NULL,
    meta TEXT NOT NULL,
    result TEXT,
    error TEXT
);

-- A job is in the id index and in at most two others: the one of its state, and its expiry where it has one.
CREATE UNIQUE INDEX jobs_id ON jobs (id);
CREATE INDEX jobs_ready ON jobs (queue, hold, place, priority) WHERE state = 2;
CREATE INDEX jobs_aside ON jobs (queue, task, version, place) WHERE state = 2 AND hold = 1;
CREATE INDEX jobs_due ON jobs (due_at) WHERE state = 1;
CREATE INDEX jobs_expiry ON jobs (expires_at) WHERE expires_at > 0 AND state < 3;
CREATE INDEX jobs_running ON jobs (worker, cancel, hold) WHERE state = 3;
CREATE INDEX jobs_lane ON jobs (queue, coalesce(lane, 't' || task), number, place) WHERE state = 2 AND hold = 3;
CREATE INDEX jobs_keyed ON jobs (queue, lane) WHERE state = 3 AND lane IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (bucket, place) WHERE bucket > 0;
CREATE INDEX jobs_given_up ON jobs (state) WHERE state > 5;
CREATE INDEX jobs_failed_task ON jobs (task, n) WHERE state = 5;
CREATE INDEX jobs_failed_fingerprint ON jobs (fingerprint, n) WHERE state = 5;

-- How many jobs of each queue are in each state, exact at every commit; and how many events of each kind there ever were,
-- of the jobs of a task in a queue. Both are written by nearly every transaction, so they share a table and its pages.
CREATE TABLE counts (
    task TEXT NOT NULL,                         -- '': of states
    queue TEXT NOT NULL,
    what NOT NULL,                              -- a state, or a kind of events
    many INTEGER NOT NULL,
    PRIMARY KEY (task, queue, what)
) WITHOUT ROWID;

-- Lanes that have ready jobs or that a job has, and what is to be remembered of empty ones (lanes.py).
CREATE TABLE lanes (
    n INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,                     -- 0: open, 1: waits at a gate, 2: a job has it, 3: waits for a number,
                                                -- 4: empty
    band INTEGER NOT NULL DEFAULT 0,            -- 9 - the priority of its head
    turn INTEGER NOT NULL DEFAULT 0,
    head INTEGER NOT NULL DEFAULT 0,            -- jobs.n of the first of its ready jobs
    holder INTEGER NOT NULL DEFAULT 0,          -- jobs.n of the job that has it
    units INTEGER NOT NULL DEFAULT 1,           -- what the head weighs, while it waits at a gate
    opens INTEGER NOT NULL DEFAULT 0,           -- when time opens it, if it waits at a key's gate or for a number
    expected INTEGER NOT NULL DEFAULT 1,
    stood INTEGER NOT NULL DEFAULT 0,           -- jobs.n of the head that waits for a number, and since when
    stood_at INTEGER NOT NULL DEFAULT 0,
    until INTEGER NOT NULL DEFAULT 0,           -- empty: when it is forgotten
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    gate TEXT                                   -- where it waits
);
CREATE UNIQUE INDEX lanes_name ON lanes (queue, name);
CREATE INDEX lanes_open ON lanes (queue, band, turn) WHERE state = 0;
CREATE INDEX lanes_waiting ON lanes (gate, queue, turn) WHERE state = 1;
CREATE INDEX lanes_void ON lanes (n) WHERE state = 0 AND head = 0;
CREATE INDEX lanes_opens ON lanes (opens) WHERE opens > 0;
CREATE INDEX lanes_empty ON lanes (until) WHERE until > 0;

-- The turn the plain order of a queue last took among its lanes.
CREATE TABLE turns (
    queue TEXT PRIMARY KEY,
    turn INTEGER NOT NULL
) WITHOUT ROWID;

-- Gates that have something to say (gates.py). What they hold is counted from the running jobs.
CREATE TABLE gates (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    closed_until INTEGER NOT NULL DEFAULT 0,
    tat INTEGER NOT NULL DEFAULT 0,             -- of its rate, in microseconds
    need INTEGER NOT NULL DEFAULT 1,            -- of a queue: what the job weighs that found it closed
    opening INTEGER NOT NULL DEFAULT 0,         -- 1: it was tuned, and lanes that waited are still to be looked at
    declared TEXT NOT NULL,                     -- core.limits.Limits
    tuned TEXT NOT NULL,
    note BLOB NOT NULL
) WITHOUT ROWID;

-- The rates of keys, as long as they have something to say.
CREATE TABLE keys (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    tat INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX keys_tat ON keys (tat);

-- Who has a unique key. Its record may be gone while the window lasts.
CREATE TABLE uniques (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,                       -- jobs.n of the holder; 0: it is over
    successor INTEGER NOT NULL DEFAULT 0,       -- jobs.n
    until INTEGER NOT NULL DEFAULT 0,           -- held at least so long
    holder TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX uniques_window ON uniques (until) WHERE job = 0;

-- Items (store/items.py): small values that are not jobs, by shelf and in the order of their keys. until: 0 for never.
CREATE TABLE items (
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    until INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
CREATE INDEX items_until ON items (until) WHERE until > 0;

-- Logs (store/items.py): what is known of each, with how much of it is kept (0: all), and their records. `place` is the
-- position of a record in its log, with the log's number above (logs.py).
CREATE TABLE logs (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL DEFAULT 0,
    many INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    keep_age INTEGER NOT NULL DEFAULT 0,
    keep_count INTEGER NOT NULL DEFAULT 0,
    keep_size INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE records (
    place INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    stream TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX records_stream ON records (log, stream, n);
CREATE TABLE followers (
    log TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (log, name)
) WITHOUT ROWID;

-- Retention (core/keep.py): a bucket's limits, read off its name, and how many jobs are filed in it. Those of workflows
-- are apart (retention.py).
CREATE TABLE buckets (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    most INTEGER NOT NULL,
    age INTEGER NOT NULL,
    size INTEGER NOT NULL
);

-- Workflows. The row of one under way is written whenever a job of it ends. `n` is a rank, and its nodes have the numbers
-- behind it, in their order: a graph is a range of nodes, which needs no index.
CREATE TABLE graphs (
    n INTEGER PRIMARY KEY,
    state INTEGER NOT NULL DEFAULT -1,          -- of its end; -1: staged, -2: being dropped
    nodes INTEGER NOT NULL,
    size INTEGER NOT NULL,
    staged INTEGER NOT NULL DEFAULT 0,          -- how many of its nodes are here
    opened INTEGER NOT NULL DEFAULT 0,          -- how many of them are accepted
    succeeded INTEGER NOT NULL DEFAULT 0,       -- its ended jobs, without the aftermath
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    fail_fast INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,                 -- staged: when its last part came; under way: when it was audited
    looked INTEGER NOT NULL DEFAULT 0,          -- how many nodes the audit under way has looked at in vain
    created_at INTEGER NOT NULL DEFAULT 0,
    finished_at INTEGER NOT NULL DEFAULT 0,
    bucket INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0,
    id TEXT,                                    -- NULL while it is being dropped
    stopping TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    culprit TEXT NOT NULL DEFAULT '',
    digest TEXT NOT NULL,
    name TEXT NOT NULL,
    parent TEXT NOT NULL,
    keep_done TEXT NOT NULL,
    keep_failed TEXT NOT NULL,
    meta TEXT NOT NULL
);
CREATE UNIQUE INDEX graphs_id ON graphs (id);
CREATE INDEX graphs_staged ON graphs (looked_at) WHERE state = -1;
CREATE INDEX graphs_under_way ON graphs (looked_at) WHERE state = 0;
CREATE INDEX graphs_finished ON graphs (bucket, place) WHERE bucket > 0;

-- What a graph needs to know of its jobs and joins, in small rows: those of joins are written for every job before them.
-- A job's state is in its own row; the columns from `state` on are those of joins.
CREATE TABLE nodes (
    n INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL,                     -- graphs.n; 0: a job of its own that waits for a graph
    shape INTEGER NOT NULL,
    spare INTEGER NOT NULL,
    aftermath INTEGER NOT NULL,
    open INTEGER NOT NULL,                      -- edges to it that are undecided
    broken INTEGER NOT NULL DEFAULT 0,
    inject INTEGER NOT NULL,                    -- of the first edge that injects something, with its source
    delay INTEGER NOT NULL,                     -- these three count from its release
    at INTEGER NOT NULL,
    expires_in INTEGER NOT NULL,
    replaced INTEGER NOT NULL DEFAULT 0,
    watched INTEGER NOT NULL DEFAULT 0,         -- of joins, and of jobs that are not accepted yet
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    edges TEXT NOT NULL DEFAULT '',             -- a digit for each edge from it (core.links.Edge); empty: all are open
    culprit TEXT NOT NULL DEFAULT '',
    awaits TEXT NOT NULL DEFAULT '',
    state INTEGER NOT NULL DEFAULT 0,
    run INTEGER NOT NULL DEFAULT 1,
    finished_at INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    result TEXT,
    error TEXT
);
CREATE UNIQUE INDEX nodes_id ON nodes (id);

-- The edges of a node (core.links), apart because they are long and never change.
CREATE TABLE links (
    n INTEGER PRIMARY KEY,
    ins TEXT NOT NULL,
    outs TEXT NOT NULL
);

-- Jobs of graphs that are not accepted yet: what becomes of them is in graphs.py.
CREATE TABLE parts (
    n INTEGER PRIMARY KEY,                      -- nodes.n
    body TEXT NOT NULL
);

-- What is left to do for graphs, first come, first served (todos.py).
CREATE TABLE todos (
    n INTEGER PRIMARY KEY,
    op INTEGER NOT NULL,
    graph INTEGER NOT NULL,
    node INTEGER NOT NULL,
    cursor INTEGER NOT NULL
);
CREATE INDEX todos_graph ON todos (graph);

-- The row an exchange writes is small; what a worker said of itself is beside it. `mark` names the content of its queues
-- and declarations, so that a connection parses them once.
CREATE TABLE workers (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    lease INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    seq INTEGER NOT NULL DEFAULT 0,
    idle INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    reserved INTEGER NOT NULL DEFAULT 0,        -- jobs.n of the job it drains for
    mark INTEGER NOT NULL,
    refused TEXT NOT NULL DEFAULT '[]'          -- what its last exchange was answered, should it ask again
);
CREATE TABLE presences (
    worker INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);

-- When the last worker that declared a task of jobs set aside went.
CREATE TABLE undeclared (
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, task, version)
) WITHOUT ROWID;

-- Where names listen: the path of a datagram socket. `follows`: wants a wake-up at every event. What is watched is a job,
-- by its number, or a node that has none, by its own number below zero.
CREATE TABLE mailboxes (
    name TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    follows INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE watches (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (job, name)
) WITHOUT ROWID;
CREATE INDEX watches_name ON watches (name);

CREATE TABLE lines (
    job INTEGER NOT NULL,
    i INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, i)
) WITHOUT ROWID;

-- One row per write; `groups` is the JSON of core/event.py. What looks for a few kinds reads no more than `kinds`, which
-- is before what is long: ',kind,kind,'.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kinds TEXT NOT NULL,
    groups TEXT NOT NULL
);
