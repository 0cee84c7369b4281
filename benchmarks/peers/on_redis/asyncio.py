"""Python job systems on Redis whose tasks are coroutines. All run on uvloop and hiredis."""

from benchmarks.peers.model import Peer, Pool, Store
from benchmarks.peers.on_redis.common import FILL_DEPENDS, REDIS, counted, pool

_APPS = "benchmarks.apps.on_redis"


def _taskiq(roles: str, jobs: int, workers: int = 1, kind: str = "async") -> Pool:
    words = ("--workers", str(workers), "--max-async-tasks", str(jobs))
    more = ("--max-threadpool-threads", str(jobs)) if kind == "thread" else ()
    quiet = ("--no-parse", "--log-level", "ERROR")
    return pool(roles, " ".join(words), *words, *more, *quiet, kind=kind)


TASKIQ = Peer(
    name="taskiq",
    app="on_redis.taskiq_app",
    command=("{bin}/taskiq", "worker", f"{_APPS}.taskiq_app:broker"),
    # A job taken from the list is lost with its worker; the stream keeps it until it is acknowledged.
    stores=(Store("list", server="redis"), Store("stream", server="redis", preset=False)),
    pools=(
        _taskiq("one quiet", 100),
        _taskiq("one", 20),
        _taskiq("two", 100, workers=2),
        _taskiq("io", 500),
        _taskiq("nap", 20, kind="thread"),
        _taskiq("cpu", 2, workers=2),
    ),
    major=True,
    slow=3,
    clients=("async",),
    fill_depends=FILL_DEPENDS,
    pins="redis-taskiq",
)
ARQ = Peer(
    name="arq",
    app="on_redis.arq_app",
    command=("{bin}/arq", f"{_APPS}.arq_app.Worker"),
    stores=(REDIS,),
    pools=(
        counted("one quiet", 100),
        counted("one", 20),
        counted("two", 100, copies=2),
        counted("io", 500),
        counted("cpu", 2, copies=2),
    ),
    slow=3,
    clients=("async",),
    fill_depends=FILL_DEPENDS,
    pins="redis-arq",
)
SAQ = Peer(
    name="saq",
    app="on_redis.saq_app",
    command=("{bin}/saq", "--quiet", f"{_APPS}.saq_app.worker"),
    stores=(REDIS,),
    pools=(
        counted("one quiet", 20),
        counted("one", 100),
        counted("two", 20, copies=2),
        counted("io", 500),
        counted("nap", 20, kind="thread"),
        counted("cpu", 2, copies=2),
    ),
    slow=2,
    clients=("async",),
    fill_depends=FILL_DEPENDS,
    pins="redis-saq",
)
STREAQ = Peer(
    name="streaq",
    app="on_redis.streaq_app",
    command=("{bin}/streaq", "run", f"{_APPS}.streaq_app:worker"),
    stores=(REDIS,),
    pools=(
        counted("one quiet", 100),
        counted("one", 20),
        counted("two", 100, copies=2),
        counted("io", 500),
        counted("nap", 20, kind="thread"),
        counted("cpu", 2, copies=2),
    ),
    slow=4,
    clients=("async",),
    fill_depends=FILL_DEPENDS,
    pins="redis-streaq",
    bulk=True,
)
