"""Where Windlass spends its time: `python -m benchmarks profile drain|enqueue [--engine redis] [--count N]`.

py-spy watches the worker while it drains a backlog, or the client while it enqueues, from outside and without changing
it. It leaves two files, one for speedscope and one of raw stacks, and prints the functions with most time of their own.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import engines
from benchmarks.harness import backlog, envs, paths, space
from benchmarks.harness.process import Worker, variables
from benchmarks.peers.model import Contender

TOP = 30
COUNTS = {"drain": 200_000, "sync": 30_000, "async": 30_000, "concurrent": 100_000, "bulk": 300_000}
OPERATIONS = {"sync": "enqueue", "async": "enqueue_await", "concurrent": "gather", "bulk": "bulk"}
MORE = {"concurrent": {"width": 100}, "bulk": {"size": 1000}}


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks profile", description="py-spy over Windlass.")
    parser.add_argument("what", choices=("drain", "enqueue"))
    parser.add_argument("--engine", choices=tuple(engines.ALL), default="redis")
    parser.add_argument("--mode", choices=tuple(OPERATIONS), default="concurrent", help="of enqueue")
    parser.add_argument("--kind", choices=("async", "thread"), default="async", help="of task")
    parser.add_argument("--no-results", action="store_true")
    parser.add_argument("--count", type=int, help="jobs")
    parser.add_argument("--rate", type=int, default=500, help="samples per second")
    parser.add_argument("--native", action="store_true", help="C frames too")
    parser.add_argument("--gil", action="store_true", help="only threads that hold the interpreter lock")
    return parser.parse_args(words)


def _contender(arguments: argparse.Namespace) -> Contender:
    peer = next(peer for peer in engines.ALL[arguments.engine].peers if peer.name == "windlass")
    pools = [pool for pool in peer.pools if pool.kind == arguments.kind and pool.copies == 1]
    pool = next((pool for pool in pools if pool.preset or "one" in pool.roles), pools[0])
    return Contender("windlass", peer, peer.stores[0], pool, results=not arguments.no_results)


def _spy(arguments: argparse.Namespace, raw: Path, *target: str) -> list[str]:
    found = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if not found:
        raise SystemExit("py-spy is not installed: pip install py-spy")
    extra = [f"--{name}" for name in ("native", "gil") if getattr(arguments, name)]
    # Raw stacks are what everything else is made from; --threads keeps the heartbeat's apart from the pump's.
    form = [
        "--format",
        "raw",
        "--function",
        "--threads",
        "--nonblocking",
        "--rate",
        str(arguments.rate),
        "--output",
        str(raw),
    ]
    return [found, "record", *form, *extra, *target]


def _drain(arguments: argparse.Namespace, contender: Contender, raw: Path) -> None:
    environment, count = envs.prepare(contender.peer), arguments.count or COUNTS["drain"]
    with (
        backlog.ready(environment, contender, count) as place,
        Worker(environment, contender, place) as worker,
    ):
        spy = subprocess.Popen(_spy(arguments, raw, "--pid", str(worker.pids[0])), stdout=subprocess.DEVNULL)
        totals = worker.wait_for(count)
        print(f"drained {count:,} jobs, {(count - 1) / (totals.last_ns - totals.first_ns) * 1e9:,.0f}/s while watched")
        spy.send_signal(2)  # as Ctrl-C, on which it writes what it has
        spy.wait(60)


def _enqueue(arguments: argparse.Namespace, contender: Contender, raw: Path) -> None:
    environment, count = envs.prepare(contender.peer), arguments.count or COUNTS[arguments.mode]
    words = json.dumps({"count": count, **MORE.get(arguments.mode, {})})
    command = [*environment.client(contender.peer.app), OPERATIONS[arguments.mode], words]
    with space.fresh(contender) as place:
        done = subprocess.run(
            _spy(arguments, raw, "--", *command),
            env=variables(environment, contender, place),
            cwd=paths.REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    print(f"enqueued {count:,} jobs, {arguments.mode}: {_rate(done.stdout)} while watched")


def _rate(output: str) -> str:
    line = next((line for line in output.splitlines() if line.startswith("{")), "{}")
    return f"{json.loads(line).get('rate', 0):,.0f}/s"


def self_times(raw: str) -> Counter[str]:
    """Samples by the function at the top of the stack, from py-spy's raw lines `frame;frame;frame count`."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        found[stack.rpartition(";")[2]] += int(count)
    return found


def speedscope(raw: str, name: str) -> dict[str, object]:
    """The same stacks in speedscope's format, https://www.speedscope.app."""
    frames: dict[str, int] = {}
    samples, weights = [], []
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        samples.append([frames.setdefault(frame, len(frames)) for frame in stack.split(";")])
        weights.append(int(count))
    shared = {"frames": [{"name": frame} for frame in frames]}
    about = {"type": "sampled", "name": name, "unit": "none", "startValue": 0, "endValue": sum(weights)}
    schema = "https://www.speedscope.app/file-format-schema.json"
    return {"$schema": schema, "shared": shared, "profiles": [{**about, "samples": samples, "weights": weights}]}


def _report(raw: Path) -> None:
    text = raw.read_text()
    times = self_times(text)
    total = sum(times.values()) or 1
    print(f"\n  self   samples  function ({total:,} samples)")
    for frame, count in times.most_common(TOP):
        print(f"{count / total:6.1%}  {count:8,}  {frame.replace(str(paths.REPOSITORY) + '/', '')}")
    scope = raw.with_suffix(".speedscope.json")
    scope.write_text(json.dumps(speedscope(text, raw.stem)))
    print(f"\nwritten to {raw.relative_to(paths.REPOSITORY)} and {scope.relative_to(paths.REPOSITORY)}")


def main(words: list[str]) -> int:
    """Profiles one scenario and prints its top list."""
    arguments = _arguments(words)
    contender = replace(_contender(arguments), durability="relaxed")
    paths.RESULTS.mkdir(exist_ok=True)
    raw = paths.RESULTS / f"profile-{arguments.what}-{arguments.engine}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.txt"
    try:
        (_drain if arguments.what == "drain" else _enqueue)(arguments, contender, raw)
        _report(raw)
    finally:
        backlog.forget()
    return 0
