-- From schema 4: cells, shelves and schedules become items, what jobs have logged becomes lines, and there are logs of records.

CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL,
    shift INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    heeded INTEGER NOT NULL
);
INSERT INTO clock SELECT 1, last, shift, ranks, schedules FROM windlass;

ALTER TABLE logs RENAME TO lines;

CREATE TABLE items (
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    until INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
CREATE INDEX items_until ON items (until) WHERE until > 0;

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

-- Each item needs a version larger than all before; those of cells were given by the same counter and may stay.
INSERT INTO items (shelf, key, version, until, body)
SELECT shelf, key, (SELECT ranks FROM clock) + row_number() OVER (ORDER BY shelf, key), until, body FROM shelves;
INSERT INTO items (shelf, key, version, until, body)
SELECT
    CASE WHEN name LIKE 'lock:%' THEN 'locks'
         WHEN name LIKE 'once:%' THEN 'once'
         WHEN name LIKE 'windlass:notices:%' THEN 'notices'
         WHEN name LIKE 'windlass:schedules:%' THEN 'schedules.declared'
         ELSE 'cells' END,
    CASE WHEN name LIKE 'lock:%' OR name LIKE 'once:%' THEN substr(name, 6)
         WHEN name LIKE 'windlass:notices:%' THEN substr(name, 18)
         WHEN name LIKE 'windlass:schedules:%' THEN substr(name, 20)
         ELSE name END,
    version, iif(name = 'windlass:notices:book', 0, until), value
FROM cells;
INSERT INTO items (shelf, key, version, until, body)
SELECT 'schedules', name, version, 0, CAST(json_object(
    'plan', json(CAST(body AS TEXT)), 'next_slot', next_slot, 'paused', paused, 'fired', fired, 'last_slot', last_slot,
    'last_at', last_at, 'last_job', last_job) AS BLOB)
FROM schedules WHERE json_valid(CAST(body AS TEXT));
UPDATE clock SET ranks = ranks + (SELECT count(*) FROM shelves);
DROP TABLE cells;
DROP TABLE shelves;
DROP TABLE schedules;

UPDATE windlass SET schema = 5;
CREATE TRIGGER windlass_outdated BEFORE UPDATE OF last ON windlass BEGIN
    SELECT RAISE(ABORT, 'the file was migrated by a newer Windlass: restart this process with that version');
END;

