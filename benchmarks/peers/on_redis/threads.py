"""Python job systems on Redis whose tasks are plain functions, in threads, greenlets or processes."""

from benchmarks.peers.model import Peer, Pool
from benchmarks.peers.on_redis.common import FILL_DEPENDS, REDIS, pool

_APPS = "benchmarks.apps.on_redis"


def _huey(roles: str, kind: str, workers: int, patched: bool = True) -> Pool:
    # No periodic tasks, no health check: what only costs here is off. Workers block in the server, they do not poll.
    words = ("-k", kind, "-w", str(workers))
    label = " ".join(words) + ("" if patched else " (not patched)")
    return pool(roles, label, *words, "-n", "-q", "-C", kind=kind if patched else "")


HUEY = Peer(
    name="huey",
    app="on_redis.huey_app",
    command=("{bin}/huey_consumer", f"{_APPS}.huey_app.huey"),
    stores=(REDIS,),
    pools=(
        _huey("one quiet", "thread", 1),
        _huey("one", "thread", 4),
        _huey("one", "greenlet", 4),
        _huey("one", "greenlet", 16),
        _huey("one", "process", 1),
        _huey("one", "greenlet", 1, patched=False),  # no concurrency, but no thread beside it either
        _huey("two cpu", "process", 2),
        _huey("io", "greenlet", 500),
        _huey("io", "thread", 500),
        _huey("nap", "thread", 20),
    ),
    major=True,
    slow=2,
    fill_depends=FILL_DEPENDS,
    pins="redis-huey",
)


def _dramatiq(roles: str, processes: int, threads: int) -> Pool:
    words = ("--processes", str(processes), "--threads", str(threads))
    return pool(roles, " ".join(words), *words, "--skip-logging")


DRAMATIQ = Peer(
    name="dramatiq",
    app="on_redis.dramatiq_app",
    command=("{bin}/dramatiq", f"{_APPS}.dramatiq_app"),
    stores=(REDIS,),
    pools=(
        _dramatiq("one quiet", 1, 8),
        _dramatiq("one", 1, 4),
        _dramatiq("one", 1, 16),
        _dramatiq("two", 2, 8),
        _dramatiq("io", 1, 500),
        _dramatiq("nap", 1, 20),
        _dramatiq("cpu", 2, 1),
    ),
    slow=3,
    fill_depends=FILL_DEPENDS,
    pins="redis-dramatiq",
)


def _celery(roles: str, kind: str, workers: int) -> Pool:
    words = ("-P", kind, "-c", str(workers))
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")
    return pool(roles, " ".join(words), "worker", *words, *quiet)


CELERY = Peer(
    name="celery",
    app="on_redis.celery_app",
    command=("{bin}/celery", "-A", f"{_APPS}.celery_app"),
    stores=(REDIS,),
    pools=(
        _celery("one quiet", "threads", 4),
        _celery("one", "solo", 1),
        _celery("one", "prefork", 1),
        _celery("two cpu", "prefork", 2),
        _celery("io", "threads", 500),
        _celery("nap", "threads", 20),
    ),
    slow=8,
    fill_depends=FILL_DEPENDS,
    pins="redis-celery",
)
_SIMPLE = ("{bin}/rq", "worker", "-w", "rq.worker.SimpleWorker", "-u", "{BENCH_URL}", "-q")
RQ = Peer(
    name="rq",
    app="on_redis.rq_app",
    command=(*_SIMPLE, "--disable-job-desc-logging", "bench"),
    stores=(REDIS,),
    pools=(pool("one quiet", "SimpleWorker"), pool("two cpu", "SimpleWorker", copies=2)),
    slow=16,
    fill_depends=FILL_DEPENDS,
    pins="redis-rq",
    bulk=True,
)
