"""Alert rules: what each fires on and what not, judged by promtool, and how thresholds are written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from tests.observe.metric_kit import check_exprs, check_rules, names_in, promtool
from windlass.cli.main import cli
from windlass.errors import ConfigError
from windlass.observe.alerts import Thresholds, as_values, as_yaml, make_alerts, parse_queue, parse_threshold
from windlass.observe.grafana import make_dashboard
from windlass.observe.names import EVERY

QUEUES = dict(parse_queue(text, Thresholds()) for text in ("emails:ready=500,oldest=1m,failures=2", "a.b:dead=off"))
RULES = make_alerts(Thresholds(), QUEUES)


class Case(NamedTuple):
    """Series over time, a minute each value, and the alerts that fire at a minute, with the queue they are of."""

    series: dict[str, str]
    at: int
    fires: list[tuple[str, str]]
    every: str = "15s"


UP = {'windlass_store_up{job="w",instance="1"}': "1x80"}


def ready(queue: str, instance: str = "1") -> str:
    return f'windlass_queue_jobs{{job="w",instance="{instance}",queue="{queue}",state="ready"}}'


def of(metric: str, queue: str, instance: str = "1", task: str = "t") -> str:
    task = f',task="{task}"' if metric.endswith("_total") else ""
    return f'{metric}{{job="w",instance="{instance}",queue="{queue}"{task}}}'


DEAD, LOST, FAILED = "windlass_dead_letters_total", "windlass_jobs_lost_total", "windlass_job_failures_total"
OLDEST, SERVED = "windlass_queue_oldest_ready_seconds", "windlass_queue_workers"

CASES = {
    "a backlog": Case({ready("q"): "10001x80"}, 6, [("WindlassBacklog", "q")]),
    "a backlog that is not old": Case({ready("q"): "0x20 10001x60"}, 6, []),
    "a backlog that is allowed": Case({ready("q"): "10000x80"}, 6, []),
    "a backlog seen by two dashboards": Case({ready("q"): "6000x80", ready("q", "2"): "6000x80"}, 6, []),
    "a backlog of a queue with its own threshold": Case(
        {ready("emails"): "501x80"}, 6, [("WindlassBacklog", "emails")]
    ),
    "a queue whose name only looks like another": Case({ready("axb"): "10001x80"}, 6, [("WindlassBacklog", "axb")]),
    "an old job": Case({of(OLDEST, "q"): "301x80"}, 1, [("WindlassOldJob", "q")]),
    "a job that is not old": Case({of(OLDEST, "q"): "300x80"}, 1, []),
    "an old job of a queue with its own threshold": Case(
        {of(OLDEST, "emails"): "61x80"}, 1, [("WindlassOldJob", "emails")]
    ),
    "failures": Case({of(FAILED, "q"): "0+3x80"}, 5, [("WindlassFailures", "q")]),
    "failures of several tasks": Case(
        {of(FAILED, "q", task="a"): "0+2x80", of(FAILED, "q", task="b"): "0+2x80"}, 5, [("WindlassFailures", "q")]
    ),
    "failures of a new task": Case({of(FAILED, "q"): "_x15 20x60"}, 4, [("WindlassFailures", "q")]),
    "few failures": Case({of(FAILED, "q"): "0+2x80"}, 5, []),
    "failures seen by two dashboards": Case({of(FAILED, "q"): "0+2x80", of(FAILED, "q", "2"): "0+2x80"}, 5, []),
    "failures of a queue with its own threshold": Case(
        {of(FAILED, "emails"): "0+1x80"}, 5, [("WindlassFailures", "emails")]
    ),
    "a dead letter": Case({of(DEAD, "q"): "7x30 8x50"}, 9, [("WindlassDeadLetters", "q")]),
    "a dead letter that is no news": Case({of(DEAD, "q"): "7x20 8x60"}, 15, []),
    "the first dead letter of a task that was never seen": Case(
        {of(DEAD, "q"): "_x30 1x50"}, 9, [("WindlassDeadLetters", "q")]
    ),
    "old dead letters, seen by the first scrape": Case(
        {of(DEAD, "q"): "_x30 5x50", 'windlass_store_up{job="w",instance="1"}': "_x30 1x50"}, 9, []
    ),
    "a dead letter where nobody wants to know": Case({of(DEAD, "a.b"): "7x30 8x50"}, 9, []),
    "no worker": Case({ready("q"): "1x80", of(SERVED, "q"): "0x80"}, 3, [("WindlassNoWorker", "q")]),
    "no worker and no job": Case({ready("q"): "0x80", of(SERVED, "q"): "0x80"}, 3, []),
    "a worker": Case({ready("q"): "1x80", of(SERVED, "q"): "1x80"}, 3, []),
    "a lost run": Case({of(LOST, "q"): "0x30 1x50"}, 9, [("WindlassRunsLost", "q")]),
    "no lost run": Case({of(LOST, "q"): "3x80"}, 9, []),
    "a blocked loop": Case(
        {'windlass_worker_loop_lag_seconds{job="v",instance="9"}': "0.6x80"}, 3, [("WindlassLoopLag", "")]
    ),
    "a loop that is in time": Case({'windlass_worker_loop_lag_seconds{job="v",instance="9"}': "0.4x80"}, 3, []),
    "a store that is down": Case({'windlass_store_up{job="w",instance="1"}': "0x80"}, 2, [("WindlassStoreDown", "")]),
    "a store that one of two dashboards reaches": Case({'windlass_store_up{job="w",instance="2"}': "0x80"}, 2, []),
    "no scrapes": Case({'windlass_store_up{job="w",instance="1"}': "_x80"}, 6, [("WindlassMetricsMissing", "")]),
}
FIRING = 'count by (queue) (ALERTS{alertname="%s",alertstate="firing"})'
NAMES = sorted({alert.name for alert in RULES})


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rules") / "rules.yml"
    file.write_text(as_yaml(RULES))
    return file


def test_rules_are_in_order(rules: Path) -> None:
    assert f"{len(RULES)} rules found" in check_rules(rules)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires_when_it_should(name: str, rules: Path, tmp_path: Path) -> None:
    case = CASES[name]
    series = [{"series": key, "values": values} for key, values in {**UP, **case.series}.items()]
    wanted = {alert: [queue for fired, queue in case.fires if fired == alert] for alert in NAMES}
    tests = {
        "rule_files": [str(rules)], "evaluation_interval": "15s",
        "tests": [{
            "interval": case.every, "input_series": series, "name": name,
            "promql_expr_test": [
                {"expr": FIRING % alert, "eval_time": f"{case.at}m",
                 "exp_samples": [{"labels": f'{{queue="{queue}"}}' if queue else "{}", "value": 1} for queue in queues]}
                for alert, queues in wanted.items()
            ],
        }],
    }  # fmt: skip
    run_promtool(tests, tmp_path)


def run_promtool(tests: dict[str, Any], folder: Path) -> None:
    file = folder / "tests.json"
    file.write_text(json.dumps(tests))
    answer = subprocess.run([promtool(), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert {fired for case in CASES.values() for fired, _ in case.fires} == set(NAMES)
    assert [] in [case.fires for case in CASES.values()]


def test_rules_speak_of_metrics_that_exist() -> None:
    assert {name for alert in RULES for name in names_in(alert.expr)} <= EVERY.keys()


def test_a_slow_scrape_gets_longer_windows(tmp_path: Path) -> None:
    slow = make_alerts(Thresholds(), {}, every=60)
    failures = next(alert for alert in slow if alert.name == "WindlassFailures")
    assert "[4m]" in failures.expr
    assert failures.expr.endswith("> 40")
    check_exprs([alert.expr for alert in slow], tmp_path)


# -- the command


def alerts(*args: str, code: int = 0) -> str:
    answer = CliRunner().invoke(cli, ["alerts", *args], env={"WINDLASS_APP": None, "WINDLASS_URL": None})
    assert answer.exit_code == code, answer.output
    return answer.output


def test_the_command_prints_rules(tmp_path: Path) -> None:
    text = alerts("--ready", "20", "--oldest", "90", "--queue", "emails:ready=5,dead=off", "--lag", "off")
    (tmp_path / "rules.yml").write_text(text)
    check_rules(tmp_path / "rules.yml")
    assert "> 20" in text
    assert "> 90" in text
    assert 'queue=\\"emails\\"}) > 5' in text
    assert "LoopLag" not in text
    everything = json.loads(alerts("tests.observe.shop:app", "--queue", "once:ready=1", "--json"))
    assert everything["groups"][0]["name"] == "windlass-shop"


def test_off_takes_a_rule_away() -> None:
    names = {alert.name for alert in make_alerts(Thresholds(None, None, None, None), {})}
    assert names.isdisjoint({"WindlassBacklog", "WindlassOldJob", "WindlassFailures", "WindlassDeadLetters"})
    only = make_alerts(Thresholds(ready=None), {"q": Thresholds(ready=3)})
    assert [alert.queue for alert in only if alert.name == "WindlassBacklog"] == ["q"]


def test_both_forms_say_the_same() -> None:
    values = as_values(RULES)["groups"][0]["rules"]
    text = as_yaml(RULES)
    assert all(json.dumps(rule["expr"]) in text for rule in values)
    assert len(values) == text.count("- alert:")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--ready", "many"], "alerts: ready is 'many'; give a whole number, or off"),
        (["--oldest", "soon"], "oldest is 'soon'; give a duration such as 30s, 5m or 1h, or off"),
        (["--lag", "0"], "lag is '0'; give a duration above 0"),
        (["--every", "x"], "--every is 'x'; give a duration"),
        (["--queue", "emails"], "'emails' is no queue with thresholds: write one such as emails:ready=500,oldest=1m"),
        (["--queue", "emails:ready"], "is no queue with thresholds"),
        (["--queue", "emails:redy=5"], "queue emails: unknown threshold 'redy' (did you mean 'ready'?)"),
        (["--queue", "e mails:ready=5"], "queue name 'e mails' is not usable"),
        (["--queue", "q:ready=5", "--queue", "q:dead=1"], "names a queue twice"),
        (["tests.observe.shop:app", "--queue", "onse:ready=5"], "shop declares no queue 'onse' (did you mean 'once'?)"),
    ],
)
def test_mistakes_are_named(args: list[str], said: str) -> None:
    assert said in " ".join(alerts(*args, code=2).split())


def test_thresholds_are_parsed() -> None:
    assert parse_queue("a:b:ready=1", Thresholds())[0] == "a:b"
    assert parse_threshold("oldest", "1h", "x") == 3600
    assert parse_threshold("dead", "off", "x") is None
    with pytest.raises(ConfigError):
        parse_threshold("ready", "1.5", "x")


# -- Grafana


def test_a_dashboard_is_one_that_grafana_reads(tmp_path: Path) -> None:
    answer = CliRunner().invoke(cli, ["grafana", "tests.observe.shop:app"])
    assert answer.exit_code == 0, answer.output
    board = json.loads(answer.output)
    assert (board["title"], board["uid"]) == ("Windlass: shop", "windlass-shop")
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "queue", "task"]
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels if panel["type"] != "row")
    exprs = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    filled = [expr.replace("$__rate_interval", "5m").replace("$queue", ".*").replace("$task", ".*") for expr in exprs]
    assert not any("$" in expr for expr in filled)
    check_exprs(filled, tmp_path)


def test_a_dashboard_has_what_operators_ask_for() -> None:
    used = {name for panel in make_dashboard()["panels"] for target in panel.get("targets", ()) for name in
            names_in(target["expr"])}  # fmt: skip
    wanted = "jobs_settled_total queue_jobs queue_oldest_ready_seconds slots_used jobs_retried_total dead_letters_total"
    wanted += " jobs_deduplicated_total gate_waiting_lanes jobs_lost_total worker_lost_claims_total"
    assert {f"windlass_{name}" for name in wanted.split()} <= used
    assert {f"windlass_worker_{name}_seconds_bucket" for name in ("wait", "run", "job")} <= used
    assert make_dashboard()["title"] == "Windlass"


def test_the_dashboard_of_an_app_with_an_odd_name() -> None:
    assert make_dashboard("My Shop / " + "x" * 60)["uid"] == "windlass-my-shop-" + "x" * 22
