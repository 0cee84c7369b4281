BEGIN TRANSACTION;
CREATE TABLE buckets (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    most INTEGER NOT NULL,
    age INTEGER NOT NULL,
    size INTEGER NOT NULL
);
INSERT INTO "buckets" VALUES(1,'100000|3600000|q',100000,3600000,1);
INSERT INTO "buckets" VALUES(2,'100000|2592000000|q',100000,2592000000,1);
CREATE TABLE cells (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    until INTEGER NOT NULL,
    value BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO "cells" VALUES('lock:report',31,1800000060000,X'686F6C646572');
INSERT INTO "cells" VALUES('once:charge',32,1800086400000,X'2B31');
INSERT INTO "cells" VALUES('windlass:notices:book',33,2800000000000,X'7B7D');
INSERT INTO "cells" VALUES('windlass:notices:lease',34,1800000006000,X'6D65');
INSERT INTO "cells" VALUES('windlass:schedules:abc',35,1800086400000,X'5B226E696768746C79225D');
CREATE TABLE counts (
    task TEXT NOT NULL,                         -- '': of states
    queue TEXT NOT NULL,
    what NOT NULL,                              -- a state, or a kind of events
    many INTEGER NOT NULL,
    PRIMARY KEY (task, queue, what)
) WITHOUT ROWID;
INSERT INTO "counts" VALUES('','q',0,1);
INSERT INTO "counts" VALUES('','q',1,2);
INSERT INTO "counts" VALUES('','q',2,6);
INSERT INTO "counts" VALUES('','q',3,3);
INSERT INTO "counts" VALUES('','q',4,1);
INSERT INTO "counts" VALUES('','q',5,1);
INSERT INTO "counts" VALUES('t','q','enqueued',14);
INSERT INTO "counts" VALUES('t','q','failed',1);
INSERT INTO "counts" VALUES('t','q','started',5);
INSERT INTO "counts" VALUES('t','q','succeeded',1);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kinds TEXT NOT NULL,
    groups TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,1800000000000,',enqueued,','[["enqueued","",[["ready","t","q"],["ready2","t","q"],["dead","t","q"],["done","t","q"],["running","t","q"]]]]');
INSERT INTO "events" VALUES(2,1800000000000,',enqueued,','[["enqueued","",[["later","t","q"]]]]');
INSERT INTO "events" VALUES(3,1800000000000,',enqueued,','[["enqueued","",[["k0","t","q"],["k1","t","q"],["k2","t","q"]]]]');
INSERT INTO "events" VALUES(4,1800000000000,',enqueued,','[["enqueued","",[["u","t","q"]]]]');
INSERT INTO "events" VALUES(5,1800000000000,',gate_changed,','[["gate_changed","",[["queue:mail","","",{}]]]]');
INSERT INTO "events" VALUES(6,1800000000000,',workflow_started,enqueued,','[["workflow_started","",[["g","",""]]],["enqueued","",[["m1","t","q"],["m2","t","q"],["m3","t","q"],["body","t","q"]]]]');
INSERT INTO "events" VALUES(7,1800000000000,',worker_up,','[["worker_up","w1",[[""]]]]');
INSERT INTO "events" VALUES(8,1800000000000,',started,','[["started","w1",[["ready","t","q"],["k0","t","q"],["ready2","t","q"],["dead","t","q"],["done","t","q"]]]]');
INSERT INTO "events" VALUES(9,1800000000000,',progress,log,','[["progress","w1",[["ready","t","q",{"percent":50}]]],["log","w1",[["ready","t","q",["info","one line"]],["ready","t","q",["info","another"]]]]]');
INSERT INTO "events" VALUES(10,1800000000000,',failed,succeeded,','[["succeeded","w1",[["ready","t","q"]]],["failed","w1",[["k0","t","q",{"reason":"no retries left"}]]]]');
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
INSERT INTO "gates" VALUES('queue:mail',12,0,0,0,0,'[2,null,null,null,null,null,null]','[null,null,null,null,null,null,null]',X'');
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
INSERT INTO "graphs" VALUES(13,0,6,4,6,6,0,0,0,0,0,1800000000000,0,1800000000000,0,0,0,'g','','','','2adde8498b6fd0fb588884cccaa046691bca723565be13d7cdd0ce9cfbac5546','','','','','{}');
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
    logged INTEGER NOT NULL DEFAULT 0,          -- how many lines it has logged; 0: do not look into logs
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
INSERT INTO "jobs" VALUES(1,4,0,28,0,1,1,1,0,0,0,0,0,2,1,0,5,1,3,0,6,1800000000000,0,0,1800000000000,1800000000000,0,0,NULL,NULL,'ready','t','q',NULL,NULL,'','','{"percent":50}','{"x":1}','{}','"done"',NULL);
INSERT INTO "jobs" VALUES(2,3,0,288230376151711746,1,1,1,1,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,1800000000000,0,0,0,NULL,NULL,'ready2','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(3,3,0,288230376151711747,1,1,1,1,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,1800000000000,0,0,0,NULL,NULL,'dead','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(4,3,0,288230376151711748,1,1,1,1,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,1800000000000,0,0,0,NULL,NULL,'done','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(5,2,0,288230376151711749,0,0,1,0,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,0,0,0,0,NULL,NULL,'running','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(6,1,0,0,0,0,1,0,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,1800003600000,0,0,0,0,0,NULL,NULL,'later','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(7,5,0,29,0,1,1,1,1,0,0,0,0,0,2,0,5,1,3,0,6,1800000000000,0,0,1800000000000,1800000000000,0,0,'ocustomer','["customer",true,0,60000,0,null,1,"",false,0,"",0,0,0,0,false]','k0','t','q',NULL,NULL,'no retries left','value-error',NULL,'{"x":1}','{}',NULL,'{"type":"builtins.ValueError","message":"oops","traceback":"Traceback …","fingerprint":"value-error"}');
INSERT INTO "jobs" VALUES(8,2,3,288230376151711752,0,0,1,0,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,0,0,0,0,'ocustomer','["customer",true,0,60000,0,null,1,"",false,0,"",0,0,0,0,false]','k1','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(9,2,3,288230376151711753,0,0,1,0,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,0,0,0,0,0,0,'ocustomer','["customer",true,0,60000,0,null,1,"",false,0,"",0,0,0,0,false]','k2','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(10,1,0,0,0,0,1,0,0,0,0,0,0,0,0,0,5,1,3,0,6,1800000000000,1800007200000,0,0,0,0,0,NULL,'["",false,0,60000,0,null,1,"",false,0,"once-a-day",0,0,0,0,false]','u','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(11,2,0,288230376151711764,0,0,1,0,0,0,0,0,0,0,0,14,5,1,3,0,6,1800000000000,0,0,0,0,0,0,NULL,NULL,'m1','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(12,2,0,288230376151711765,0,0,1,0,0,0,0,0,0,0,0,15,5,1,3,0,6,1800000000000,0,0,0,0,0,0,NULL,NULL,'m2','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(13,2,0,288230376151711766,0,0,1,0,0,0,0,0,0,0,0,16,5,1,3,0,6,1800000000000,0,0,0,0,0,0,NULL,NULL,'m3','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
INSERT INTO "jobs" VALUES(14,0,0,0,0,0,1,0,0,0,0,0,0,0,0,18,5,1,3,0,6,1800000000000,0,0,0,0,0,0,NULL,NULL,'body','t','q',NULL,NULL,'','',NULL,'{"x":1}','{}',NULL,NULL);
CREATE TABLE keys (
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    tat INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
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
INSERT INTO "lanes" VALUES(1,0,4,24,8,0,1,0,1,0,0,0,'q','ocustomer',NULL);
CREATE TABLE links (
    n INTEGER PRIMARY KEY,
    ins TEXT NOT NULL,
    outs TEXT NOT NULL
);
INSERT INTO "links" VALUES(14,'[]','[["j",0,false]]');
INSERT INTO "links" VALUES(15,'[]','[["j",0,false]]');
INSERT INTO "links" VALUES(16,'[]','[["j",0,false]]');
INSERT INTO "links" VALUES(17,'[["m1",0,1],["m2",0,1],["m3",0,1]]','[["body",0,false]]');
INSERT INTO "links" VALUES(18,'[["j",0,1]]','[["g",0,false]]');
INSERT INTO "links" VALUES(19,'[["body",0,1]]','[]');
CREATE TABLE logs (
    job INTEGER NOT NULL,
    i INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, i)
) WITHOUT ROWID;
INSERT INTO "logs" VALUES(1,0,1800000000000,'info','one line');
INSERT INTO "logs" VALUES(1,1,1800000000000,'info','another');
CREATE TABLE mailboxes (
    name TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    follows INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
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
INSERT INTO "nodes" VALUES(14,13,0,0,0,0,0,0,0,0,0,0,0,'m1','','0','','',0,1,0,'',NULL,NULL);
INSERT INTO "nodes" VALUES(15,13,0,0,0,0,0,0,0,0,0,0,0,'m2','','0','','',0,1,0,'',NULL,NULL);
INSERT INTO "nodes" VALUES(16,13,0,0,0,0,0,0,0,0,0,0,0,'m3','','0','','',0,1,0,'',NULL,NULL);
INSERT INTO "nodes" VALUES(17,13,2,0,0,3,0,1,0,0,0,0,0,'j','m1','0','','',0,1,0,'',NULL,NULL);
INSERT INTO "nodes" VALUES(18,13,0,0,0,1,0,1,0,0,0,0,0,'body','j','0','','',0,1,0,'',NULL,NULL);
INSERT INTO "nodes" VALUES(19,13,1,0,0,1,0,1,0,0,0,0,0,'g','body','','','',0,1,0,'',NULL,NULL);
CREATE TABLE parts (
    n INTEGER PRIMARY KEY,                      -- nodes.n
    body TEXT NOT NULL
);
CREATE TABLE presences (
    worker INTEGER PRIMARY KEY,
    body TEXT NOT NULL
);
INSERT INTO "presences" VALUES(1,'{"id":"w1","queues":["q"],"declares":{"t":{}},"lease":15000,"host":"","pid":0,"started_at":0,"concurrency":0,"load":{}}');
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    next_slot INTEGER NOT NULL,
    fired INTEGER NOT NULL DEFAULT 0,
    last_slot INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER NOT NULL DEFAULT 0,
    last_job TEXT NOT NULL DEFAULT '',
    paused TEXT NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO "schedules" VALUES('nightly',30,1800086400000,0,0,0,'','',X'7B22706C616E223A317D');
CREATE TABLE shelves (
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    until INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (shelf, key)
) WITHOUT ROWID;
INSERT INTO "shelves" VALUES('audit','0001',1800086400000,X'7B7D');
INSERT INTO "shelves" VALUES('views','mine',0,X'7B226E616D65223A226D696E65227D');
CREATE TABLE todos (
    n INTEGER PRIMARY KEY,
    op INTEGER NOT NULL,
    graph INTEGER NOT NULL,
    node INTEGER NOT NULL,
    cursor INTEGER NOT NULL
);
CREATE TABLE turns (
    queue TEXT PRIMARY KEY,
    turn INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "turns" VALUES('q',27);
CREATE TABLE undeclared (
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue, task, version)
) WITHOUT ROWID;
CREATE TABLE uniques (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,                       -- jobs.n of the holder; 0: it is over
    successor INTEGER NOT NULL DEFAULT 0,       -- jobs.n
    until INTEGER NOT NULL DEFAULT 0,           -- held at least so long
    holder TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "uniques" VALUES('once-a-day',10,0,0,'u');
CREATE TABLE watches (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (job, name)
) WITHOUT ROWID;
CREATE TABLE windlass (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    schema INTEGER NOT NULL,
    last INTEGER NOT NULL,
    shift INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    schedules INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "windlass" VALUES(1,4,1800000000000,0,35,1);
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
INSERT INTO "workers" VALUES(1,'w1',15000,1800000015000,1800000000000,2,0,0,0,54483338053376218,'[]');
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
CREATE UNIQUE INDEX lanes_name ON lanes (queue, name);
CREATE INDEX lanes_open ON lanes (queue, band, turn) WHERE state = 0;
CREATE INDEX lanes_waiting ON lanes (gate, queue, turn) WHERE state = 1;
CREATE INDEX lanes_void ON lanes (n) WHERE state = 0 AND head = 0;
CREATE INDEX lanes_opens ON lanes (opens) WHERE opens > 0;
CREATE INDEX lanes_empty ON lanes (until) WHERE until > 0;
CREATE INDEX keys_tat ON keys (tat);
CREATE INDEX uniques_window ON uniques (until) WHERE job = 0;
CREATE INDEX cells_until ON cells (until);
CREATE INDEX shelves_until ON shelves (until) WHERE until > 0;
CREATE UNIQUE INDEX graphs_id ON graphs (id);
CREATE INDEX graphs_staged ON graphs (looked_at) WHERE state = -1;
CREATE INDEX graphs_under_way ON graphs (looked_at) WHERE state = 0;
CREATE INDEX graphs_finished ON graphs (bucket, place) WHERE bucket > 0;
CREATE UNIQUE INDEX nodes_id ON nodes (id);
CREATE INDEX todos_graph ON todos (graph);
CREATE INDEX watches_name ON watches (name);
COMMIT;
