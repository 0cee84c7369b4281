"""``windlass celery``: a project written for Celery, its imports changed and nothing else, run by real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.celery.kit import soon
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and several processes need POSIX")

ROOT = Path(__file__).parents[2]

# As it stands in a project that uses Celery; `celery` is the word that is changed.
PROJECT = {
    "proj/__init__.py": "",
    "proj/celery.py": """
import os
from celery import Celery

app = Celery("proj", broker=os.environ["BROKER"], backend="rpc://", include=["proj.tasks"])
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    result_serializer="json",
    timezone="Europe/Moscow",
    enable_utc=True,
    task_track_started=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_expires=3600,
    task_routes={"proj.tasks.mail*": {"queue": "mail"}},
    worker_concurrency=2,
)
""",
    "proj/tasks.py": """
import os
from celery import Task, chain, chord, group, shared_task
from celery.exceptions import MaxRetriesExceededError, SoftTimeLimitExceeded
from celery.utils.log import get_task_logger
from proj.celery import app

logger = get_task_logger(__name__)

class Recording(Task):
    autoretry_for = (ConnectionError,)
    retry_kwargs = {"max_retries": 3, "countdown": 0}

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        print(f"on_failure {type(exc).__name__} {args}")

@app.task
def add(x, y):
    return x + y

@app.task
def xsum(numbers):
    return sum(numbers)

@app.task(bind=True, base=Recording)
def unsteady(self, until):
    logger.info("try %d", self.request.retries)
    if self.request.retries < until:
        raise ConnectionError("away")
    return self.request.retries

@app.task(bind=True, max_retries=2, default_retry_delay=0)
def by_hand(self):
    try:
        raise OSError("no luck")
    except OSError as exc:
        raise self.retry(exc=exc)

@shared_task
def log_error(request, exc, traceback):
    print(f"errback {request.task} {exc!r}", flush=True)

@shared_task(ignore_result=True)
def mail(to):
    print(f"mail to {to} by {os.getpid()}")

@app.task(bind=True)
def fan_out(self, n):
    return self.replace(chord([add.s(i, i) for i in range(n)], xsum.s()))
""",
    "client.py": """
import json
from celery import chain, chord, group
from celery.result import AsyncResult
from proj.tasks import add, by_hand, fan_out, log_error, mail, unsteady, xsum

said = {}
said["add"] = add.delay(4, 4).get(timeout=30)
said["chain"] = (add.s(2, 2) | add.s(4) | add.s(8))().get(timeout=30)
said["group"] = group(add.s(i, i) for i in range(10))().get(timeout=30)
said["chord"] = chord((add.s(i, i) for i in range(10)), xsum.s())().get(timeout=30)
said["unsteady"] = unsteady.delay(2).get(timeout=30)
said["fan_out"] = (fan_out.s(5) | add.s(1))().get(timeout=30)
result = by_hand.apply_async(link_error=log_error.s())
try:
    result.get(timeout=30)
except OSError as exc:
    said["by_hand"] = repr(exc)
said["state"] = AsyncResult(result.id).state
try:
    unsteady.delay(9).get(timeout=30)
except ConnectionError as exc:
    said["gave_up"] = repr(exc)
mail.delay("you")
print(json.dumps(said))
""",
}
EXPECTED = {
    "add": 8, "chain": 16, "group": [i + i for i in range(10)], "chord": 90, "unsteady": 2, "fan_out": 21,
    "by_hand": "OSError('no luck')", "state": "FAILURE", "gave_up": "ConnectionError('away')",
}  # fmt: skip


class Project:
    """A folder with a project in it, and processes that do not outlive the test."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "CELERY_"))}
        self.env |= {"PYTHONPATH": str(ROOT), "BROKER": "sqlite:///jobs.db?durability=normal"}
        self._running: list[subprocess.Popen[bytes]] = []
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(re.sub(r"^(from|import) celery\b", r"\1 windlass.celery", text, flags=re.MULTILINE))

    def __call__(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def celery(self, *args: str, code: int = 0) -> str:
        done = self("-m", "windlass", "celery", *args, code=code)
        return done.stdout + done.stderr

    def start(self, *args: str, out: str = "out") -> subprocess.Popen[bytes]:
        with open(self.folder / out, "wb") as file:
            command = [sys.executable, "-m", "windlass", "celery", *args]
            process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=file, stderr=file)
        self._running.append(process)
        return process

    def output(self, out: str = "out") -> str:
        return (self.folder / out).read_text()

    def end(self) -> None:
        for process in self._running:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path, PROJECT)
    yield project
    project.end()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_project_runs_by_changing_its_imports(project: Project, store: str, request: pytest.FixtureRequest) -> None:
    if store == "redis":
        server: RedisServer = request.getfixturevalue("redis7")
        project.env["BROKER"] = f"{server.url}?prefix=celery{time.time_ns()}"
    worker = project.start("-A", "proj", "worker", "-l", "INFO", "-Q", "celery,mail")
    said: dict[str, Any] = json.loads(project("client.py").stdout)
    assert said == EXPECTED
    soon(lambda: "mail to you" in project.output())
    stop(worker)
    text = project.output()
    assert "2 jobs at once, 2 child processes" in text
    assert "errback proj.tasks.by_hand OSError('no luck')" in text
    assert "on_failure ConnectionError [9]" in text
    assert re.search(r"INFO    proj\.tasks: try 2  \[proj\.tasks\.unsteady [0-9a-f-]{36} attempt 3\]", text)
    assert re.search(r"Task proj\.tasks\.add\[[0-9a-f-]{36}\] succeeded in [0-9.]+s: 8", text)


def test_a_worker_without_queues_serves_the_default_one_alone(project: Project) -> None:
    options = ("-P", "threads", "-c", "3", "-n", "w1@%h", "-E", "-O", "fair", "--without-gossip")
    worker = project.start("-A", "proj.celery:app", "worker", *options)
    project("-c", "from proj.tasks import *; mail.delay('nobody'); print(add.delay(1, 2).get(timeout=30))")
    assert re.search(r"queues +celery\n", project.output())
    assert "3 jobs at once" in project.output()
    assert "mail to" not in project.output()
    stop(worker)


def test_limits_and_replacing_by_the_command_line(project: Project) -> None:
    (project.folder / "slow.py").write_text(
        "import os, time\n"
        "from windlass.celery import Celery\n"
        "anything = Celery('slow', broker=os.environ['BROKER'])\n"
        "@anything.task\ndef sleep():\n    time.sleep(60)\n"
        "@anything.task\ndef pid():\n    return os.getpid()\n"
    )
    worker = project.start("-A", "slow", "worker", "-c", "1", "--max-tasks-per-child", "1", "--time-limit", "0.3")
    ask = "from slow import *; print(pid.delay().get(timeout=30))"
    first = project("-c", ask).stdout
    soon(lambda: project("-c", ask).stdout != first)
    said = project("-c", "from slow import *; print(repr(sleep.delay().get(timeout=30, propagate=False)))").stdout
    assert said.startswith("TaskTimeout(")
    stop(worker)


def test_a_hard_limit_kills_what_heeds_nothing_and_harms_nobody_else(project: Project) -> None:
    (project.folder / "deaf.py").write_text(
        "import os, time\n"
        "from windlass.celery import Celery, signals\n"
        "app = Celery('deaf', broker=os.environ['BROKER'])\n"
        "@signals.worker_process_init.connect\ndef began(**kw):\n    print('child', os.getpid(), flush=True)\n"
        "@app.task(time_limit=1, soft_time_limit=0.5)\n"
        "def deaf(path):\n"
        "    while True:\n"
        "        try:\n"
        "            open(path, 'w').write(str(os.getpid()))\n"
        "            time.sleep(60)\n"
        "        except BaseException as error:\n"
        "            print('heard', type(error).__name__, flush=True)\n"
        "@app.task(soft_time_limit=0.5)\n"
        "def soft():\n"
        "    try:\n        time.sleep(60)\n"
        "    except BaseException as error:\n        return type(error).__name__\n"
        "@app.task(bind=True)\n"
        "def calls(self, n):\n"
        "    self.update_state(state='SENT', meta={'n': n})\n"
        "    return [soft.delay().id, self.request.timelimit]\n"
    )
    worker = project.start("-A", "deaf", "worker", "-l", "INFO", "-c", "2", "--pool", "prefork", "-Ofair")
    said = project(
        "-c",
        "from deaf import *; from windlass.celery.exceptions import TimeLimitExceeded\n"
        "result, other = deaf.delay('pid.txt'), calls.delay(3)\n"
        "id, limits = other.get(timeout=60)\n"
        "print(app.AsyncResult(id).get(timeout=60), limits)\n"
        "try:\n    result.get(timeout=60)\nexcept TimeLimitExceeded:\n    print('killed')\n",
    ).stdout
    assert said.split() == ["SoftTimeout", "None", "killed"]
    pid = int((project.folder / "pid.txt").read_text())
    soon(lambda: not psutil.pid_exists(pid))
    assert "heard SoftTimeout" in project.output()
    assert f"child {pid}" in project.output()
    stop(worker)


def test_a_process_that_dies_loses_nothing_unless_it_is_to_run_at_most_once(project: Project) -> None:
    (project.folder / "deadly.py").write_text(
        "import os, signal\n"
        "from windlass.celery import Celery\n"
        "app = Celery('deadly', broker=os.environ['BROKER'])\n"
        "def die(path):\n"
        "    known = os.path.exists(path)\n"
        "    open(path, 'a').write('x')\n"
        "    if not known:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 'survived'\n"
        "late = app.task(name='late')(lambda path: die(path))\n"
        "early = app.task(name='early', acks_late=False)(lambda path: die(path))\n"
    )
    worker = project.start("-A", "deadly", "worker", "-c", "2")
    call = "from deadly import *; print(repr({}.delay({!r}).get(timeout=60, propagate=False)))"
    assert project("-c", call.format("late", "late.txt")).stdout == "'survived'\n"
    assert project("-c", call.format("early", "early.txt")).stdout.startswith("WorkerCrashed(")
    assert (project.folder / "early.txt").read_text() == "x"
    stop(worker)


def test_no_beat_is_needed_and_no_flower(project: Project) -> None:
    (project.folder / "beats.py").write_text(
        "from windlass.celery import Celery\nfrom windlass.celery.schedules import crontab\n"
        "app = Celery('beats', broker='sqlite:///jobs.db')\n"
        "app.task(name='t')(lambda: open('ran.txt', 'a').write('x'))\n"
        "app.conf.beat_schedule = {'nightly': {'task': 't', 'schedule': crontab(hour=3, minute=0)},\n"
        "                          'often': {'task': 't', 'schedule': 0.2}}\n"
    )
    text = project.celery("-A", "beats", "beat", "-l", "info")
    assert "nightly: t <crontab: 0 3 * * *" in text
    assert "No beat process is needed" in text
    assert "`windlass web -A MODULE` serves" in project.celery("-A", "beats", "flower", "--port=5555", code=1)
    worker = project.start("-A", "beats", "worker", "-c", "2", "-B")
    ran = project.folder / "ran.txt"
    soon(lambda: ran.exists() and len(ran.read_text()) >= 2)
    stop(worker)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("worker",), "which app"),
        (("-A", "nothing_here", "worker"), "no module 'nothing_here'"),
        (("-A", "json", "worker"), "json has no Celery app"),
        (("-A", "proj.celery:ap", "worker"), "did you mean 'app'"),
        (("-A", "proj", "worker", "--detach"), "service manager"),
        (("-A", "proj", "worker", "--purge"), "windlass cancel"),
        (("-A", "proj", "worker", "-c", "many"), "no whole number"),
        (("-A", "proj", "worker", "-X", "celery"), "no queue is left"),
        (("-A", "proj", "inspect", "activ"), "did you mean 'active'"),
        (("-A", "proj", "control", "pool_grow", "2"), "--autoscale"),
        (("-A", "proj", "control", "add_consumer"), "add_consumer"),
        (("-A", "proj", "call", "t", "--args", "[1"), "--args"),
        (("-A", "proj", "call", "proj.tasks.add"), "missing a required argument"),
        (("-A", "proj", "events"), "windlass tail"),
        (("-A", "proj", "wroker"), "did you mean 'worker'"),
        (("-A", "proj", "-b", "amqp://", "worker"), "keeps its jobs in a store"),
        (("-A", "proj", "-b", "memory://", "worker"), "lives in one process"),
        (("-A", "proj", "worker", "-P", "gevent"), "use the pool 'threads'"),
        (("-A", "proj", "worker", "--pool=eventlet"), "use the pool 'threads'"),
    ],
)
def test_mistakes_are_explained(project: Project, args: tuple[str, ...], message: str) -> None:
    assert message in project.celery(*args, code=2)


def test_questions_and_orders_by_command(project: Project) -> None:
    assert "no worker is running" in project.celery("-A", "proj", "status", code=1)
    worker = project.start("-A", "proj", "worker", "-c", "1", "-P", "solo")
    [id] = project.celery("-A", "proj", "call", "proj.tasks.add", "-a", "[2]", "-k", '{"y": 3}').splitlines()
    soon(lambda: project.celery("-A", "proj", "status", "-j") != "{}\n")
    assert project("-c", f"from proj.tasks import app; print(app.AsyncResult({id!r}).get(timeout=60))").stdout == "5\n"
    assert project.celery("-A", "proj", "result", id) == "5\n"
    assert "1 node online." in project.celery("-A", "proj", "status")
    assert '["celery.map"' in project.celery("-A", "proj", "inspect", "registered", "-t", "1")
    assert "serves extra" in project.celery("-A", "proj", "control", "add_consumer", "extra")
    assert project.celery("-A", "proj", "call", "proj.tasks.add", "-a", "[1,2]", "--queue", "nobodys")
    assert "Purged 1 task from nobodys" in project.celery("-A", "proj", "purge", "-f", "-Q", "nobodys")
    assert "told to stop" not in project.celery("-A", "proj", "control", "shutdown")
    assert worker.wait(30) == 0


def test_other_commands_find_the_app(project: Project) -> None:
    done = project("-c", "from proj.tasks import add; print(add.delay(1, 2).id)")
    shown = json.loads(project("-m", "windlass", "jobs", "list", "proj.celery", "--json").stdout)
    assert [job["id"] for job in shown["jobs"]] == [done.stdout.strip()]
