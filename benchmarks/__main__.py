"""The command line: `python -m benchmarks [--engine redis] [--quick] [--only drain,latency] [--peers huey]`.

`python -m benchmarks profile drain|enqueue` looks into Windlass instead; see `profile.py`.
`python -m benchmarks dashboard` measures the dashboard over a million jobs; see `dashboard.py`.
"""

import argparse
import json
import signal
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime

from benchmarks import dashboard, engines, profile
from benchmarks.engines import Engine
from benchmarks.harness import backlog, envs, machine, paths, server, space
from benchmarks.harness.plan import Plan
from benchmarks.harness.process import Failure, ask
from benchmarks.harness.runner import Runner
from benchmarks.peers.model import Contender
from benchmarks.report import publish
from benchmarks.scenarios.base import Scenario


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Windlass beside its peers.")
    parser.add_argument("--engine", type=_names, default=list(engines.ALL), metavar="sqlite,redis", help="default: all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and jobs, five minutes or less per engine")
    parser.add_argument(
        "--only",
        type=_names,
        default=[],
        metavar="SCENARIO,...",
        help="a name or its beginning, such as drain or drain:full",
    )
    parser.add_argument("--peers", type=_names, default=[], metavar="PEER,...", help="Windlass always runs")
    parser.add_argument("--rounds", type=int, help="override the number of rounds")
    parser.add_argument("--no-scout", action="store_true", help="measure the preset configurations only")
    parser.add_argument("--write-docs", action="store_true", help="put tables and drawings into docs/benchmarks")
    parser.add_argument("--render", metavar="FILE", help="make the report of an earlier run again")
    parser.add_argument("--list", action="store_true", help="name scenarios and peers, then stop")
    return parser.parse_args()


def _environments(engine: Engine, wanted: list[str], runner: Runner) -> None:
    """Fills the runner's environments; what cannot be installed is skipped with its reason."""
    for peer in engine.peers:
        if wanted and peer.name not in wanted and peer.name != "windlass":
            continue
        try:
            environment = envs.prepare(peer)
            probe = Contender(peer.name, peer, peer.stores[0], peer.pools[0])
            with space.fresh(probe) as place:
                runner.record.versions[peer.name] = ask(environment, probe, place, "versions", {})
            runner.environments[peer.name] = environment
        except (envs.Unavailable, Failure) as reason:
            runner.record.skipped[peer.name] = str(reason)
            print(f"skipped {peer.name}: {reason}", flush=True)


def _plan(engine: Engine, arguments: argparse.Namespace) -> Plan:
    plan = engine.plan(arguments.quick)
    if arguments.rounds:
        rounds = arguments.rounds
        plan = replace(plan, rounds=rounds, minor_rounds=min(rounds, plan.minor_rounds), growth_rounds=rounds)
    if arguments.only:
        plan = replace(plan, without=())  # what is asked for by name is not left out
    return replace(plan, scout=False) if arguments.no_scout else plan


def _chosen(engine: Engine, plan: Plan, only: list[str]) -> list[Scenario]:
    return [
        one for one in engine.build(plan) if not only or any(f"{one.name}:".startswith(f"{name}:") for name in only)
    ]


def _measure(engine: Engine, arguments: argparse.Namespace) -> None:
    """One run of one engine: its record and its report."""
    plan = _plan(engine, arguments)
    started = machine.describe()
    if engine.server:
        try:
            started["server"] = machine.server(server.binary())
        except server.NoServer as reason:
            print(f"skipped {engine.name}: {reason}", flush=True)
            return
    backlog.forget()
    runner = Runner(plan, {}, lambda line: print(line, flush=True))
    try:
        _environments(engine, arguments.peers, runner)
        for scenario in _chosen(engine, plan, arguments.only):
            runner.run(scenario)
    finally:
        backlog.forget()
    about = {"engine": engine.name, "machine": started, "plan": asdict(plan), "quick": arguments.quick}
    paths.RESULTS.mkdir(exist_ok=True)
    file = paths.RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{engine.name}.json"
    file.write_text(json.dumps({**about, **asdict(runner.record)}, indent=1))
    publish.write(json.loads(file.read_text()), file.with_suffix(""), arguments.write_docs)


def _complaint(arguments: argparse.Namespace, chosen: list[Engine]) -> str:
    """What of the arguments names nothing."""
    known = {peer.name for engine in chosen for peer in engine.peers}
    unknown = [name for name in arguments.engine if name not in engines.ALL]
    unknown += [name for name in arguments.peers if name not in known]
    if not any(_chosen(engine, _plan(engine, arguments), arguments.only) for engine in chosen):
        unknown += arguments.only
    return ", ".join(unknown)


def _list(chosen: list[Engine], arguments: argparse.Namespace) -> None:
    for engine in chosen:
        print(f"{engine.name}:")
        print("  scenarios:", ", ".join(scenario.name for scenario in engine.build(_plan(engine, arguments))))
        print("  peers:", ", ".join(peer.name for peer in engine.peers))


def main() -> int:
    # An ordered end instead of a sudden one: servers and workers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if sys.argv[1:2] == ["profile"]:
        return profile.main(sys.argv[2:])
    if sys.argv[1:2] == ["dashboard"]:
        return dashboard.main(sys.argv[2:])
    arguments = _arguments()
    if arguments.render:
        return publish.again(arguments.render, arguments.write_docs)
    chosen = [engine for engine in engines.ALL.values() if engine.name in arguments.engine]
    complaint = _complaint(arguments, chosen)
    if complaint:
        print(f"nothing to measure: unknown {complaint}; see --list", file=sys.stderr)
        return 2
    if arguments.list:
        _list(chosen, arguments)
        return 0
    for engine in chosen:
        if _chosen(engine, _plan(engine, arguments), arguments.only):
            _measure(engine, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
