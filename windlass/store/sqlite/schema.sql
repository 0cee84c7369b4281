-- The file's tables. Everything that moves jobs is in steps.sql, which lives in the connection, not in the file.
--
-- States and holds are small integers (windlass/store/sqlite/codes.py). Instants are milliseconds of the store's clock,
-- 0 for "never". Most columns of most jobs are 0, 1 or NULL, which SQLite keeps in no space at all.

-- One row: the schema's version, the clock (last instant seen and its shift against the host's clock) and the counter
-- that ranks are made of. It is written by every transaction, so it is kept tiny and on a page of its own.
CREATE TABLE windlass (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    last INTEGER NOT NULL,
    shift INTEGER NOT NULL,
    ranks INTEGER NOT NULL
);

CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,                      -- place in order of acceptance
    state INTEGER NOT NULL,
    hold INTEGER NOT NULL DEFAULT 0,            -- 1: set aside, 2: runs alone (also while it runs)
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
    logged INTEGER NOT NULL DEFAULT 0,          -- how many lines it has logged; 0: do not look into logs
    bucket INTEGER NOT NULL DEFAULT 0,          -- buckets.n once it has ended
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
CREATE INDEX jobs_ready ON jobs (queue, hold, place) WHERE state = 2;
CREATE INDEX jobs_aside ON jobs (queue, task, version, place) WHERE state = 2 AND hold = 1;
CREATE INDEX jobs_due ON jobs (due_at) WHERE state = 1;
CREATE INDEX jobs_expiry ON jobs (expires_at) WHERE expires_at > 0 AND state < 3;
CREATE INDEX jobs_running ON jobs (worker, cancel, hold) WHERE state = 3;
CREATE INDEX jobs_finished ON jobs (bucket, place) WHERE bucket > 0;
CREATE INDEX jobs_failed_task ON jobs (task, n) WHERE state = 5;
CREATE INDEX jobs_failed_fingerprint ON jobs (fingerprint, n) WHERE state = 5;

-- How many jobs of each queue are in each state, exact at every commit.
CREATE TABLE counts (
    queue TEXT NOT NULL,
    state INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) WITHOUT ROWID;

-- Retention (core/keep.py): a bucket's limits, read off its name, and how many jobs are filed in it.
CREATE TABLE buckets (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    most INTEGER NOT NULL,
    age INTEGER NOT NULL,
    size INTEGER NOT NULL
);

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

-- Where names listen: the path of a datagram socket. `follows`: wants a wake-up at every event.
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

CREATE TABLE logs (
    job INTEGER NOT NULL,
    i INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, i)
) WITHOUT ROWID;

-- One row per write; `groups` is the JSON of core/event.py.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    groups TEXT NOT NULL
);
