"""How the figures were taken, in words, for the head of each page."""

_COMMON = """
How it was measured: every system in its own environment, all on this machine in one run. Each scenario ran in rounds,
every round measuring all contenders in rotated order; a ratio is taken within a round, and the table gives the median
of the rounds with the smallest and largest. Backlogs are filled before the worker starts; the worker is a new process,
started with the system's own command (never forked from the harness), and the clock runs from the first executed job
to the last, stamped by the jobs themselves in shared memory.
"""

SQLITE = f"""{_COMMON}
*Full* syncs every commit (`synchronous=FULL`; Huey `fsync=True`). *Relaxed* does not: Windlass uses `NORMAL`, which
keeps the file whole after a power cut, while Huey with `fsync=False` and django-tasks-db use `OFF`, which may not, and
Celery's filesystem transport syncs nothing. Pollers were set to look every 0.2 to 5 ms, their idle processor time is
given. Bare queues have no tasks, results, retries or workers; they are listed and not counted as best peer. Slow
systems were given fewer jobs.
"""

REDIS = f"""{_COMMON}
Every measurement has a server of its own without persistence (`--save "" --appendonly no`), started for it on a free
port, empty or with the backlog; server, worker and client share this machine's cores. A job has one integer argument
and returns it. In a full run all systems get the same number of jobs; a quick run gives slow ones fewer. Results that
are kept are kept for an hour (BullMQ: at most 100,000, as Windlass). Every executed job is counted and a trial that
lost or repeated one is a failure.

The Python systems run with hiredis, and with uvloop where their tasks are coroutines. arq polls every 10 ms instead of
every 500. taskiq's list broker forgets a job when a worker takes it. RQ runs in `SimpleWorker`, which does not fork.
Callers of Huey, taskiq, arq and saq look for a result every 0.1 to 0.5 ms; Celery, dramatiq, streaq, RQ and BullMQ
tell the caller, as Windlass does. In "half load" a second client keeps the worker at half the rate at which it has just
drained a backlog, each system at its own.
"""
