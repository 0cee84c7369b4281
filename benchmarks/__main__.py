"""The command line: `python -m benchmarks [--quick] [--only drain,latency] [--peers huey] [--write-docs]`."""

import argparse
import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime

from benchmarks import peers, scenarios
from benchmarks.harness import envs, machine, paths, space
from benchmarks.harness.plan import FULL, QUICK
from benchmarks.harness.process import Failure, ask
from benchmarks.harness.runner import Runner
from benchmarks.peers.model import Contender
from benchmarks.report import publish


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Windlass beside its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and jobs, about five minutes")
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


def _environments(wanted: list[str], runner: Runner) -> None:
    """Fills the runner's environments; what cannot be installed is skipped with its reason."""
    for peer in peers.ALL:
        if wanted and peer.name not in wanted and peer is not peers.WINDLASS:
            continue
        try:
            environment = envs.prepare(peer)
            probe = Contender(peer.name, peer, peer.stores[0], peer.pools[0])
            with space.fresh() as folder:
                runner.record.versions[peer.name] = ask(environment, probe, folder, "versions", {})
            runner.environments[peer.name] = environment
        except (envs.Unavailable, Failure) as reason:
            runner.record.skipped[peer.name] = str(reason)
            print(f"skipped {peer.name}: {reason}", flush=True)


def main() -> int:
    arguments = _arguments()
    if arguments.render:
        return publish.again(arguments.render, arguments.write_docs)
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds:
        rounds = arguments.rounds
        plan = replace(plan, rounds=rounds, minor_rounds=min(rounds, plan.minor_rounds), growth_rounds=rounds)
    if arguments.no_scout:
        plan = replace(plan, scout=False)
    chosen = scenarios.build(plan)
    if arguments.list:
        print("scenarios:", ", ".join(scenario.name for scenario in chosen))
        print("peers:", ", ".join(peers.BY_NAME))
        return 0
    if arguments.only:
        chosen = [one for one in chosen if any(f"{one.name}:".startswith(f"{name}:") for name in arguments.only)]
    unknown = [name for name in arguments.peers if name not in peers.BY_NAME]
    if unknown or not chosen:
        print(f"nothing to measure: unknown {unknown or arguments.only}; see --list", file=sys.stderr)
        return 2
    started = machine.describe()
    space.forget_backlogs()
    runner = Runner(plan, {}, lambda line: print(line, flush=True))
    try:
        _environments(arguments.peers, runner)
        for scenario in chosen:
            runner.run(scenario)
    finally:
        space.forget_backlogs()
    run = {"machine": started, "plan": asdict(plan), "quick": arguments.quick, **asdict(runner.record)}
    paths.RESULTS.mkdir(exist_ok=True)
    file = paths.RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
    file.write_text(json.dumps(run, indent=1))
    publish.write(run, file.with_suffix(""), arguments.write_docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
