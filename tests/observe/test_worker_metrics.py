"""``windlass worker --metrics`` with real processes: what happened is what is told, whatever process it happened in."""

from __future__ import annotations

import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from typing import Any

import psutil
import pytest

from tests.observe import shop as tasks
from tests.observe.metric_kit import APP, Numbers, Port, Shop, names_in, scrape
from tests.worker.helpers import soon, within
from windlass.core.packages import pip_install
from windlass.errors import JobFailed
from windlass.observe.grafana import make_dashboard
from windlass.observe.metrics import store_metrics, worker_metrics
from windlass.observe.names import STORE, WORKER

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="several processes need POSIX")

PLACES = {"on_loop": "loop", "in_thread": "thread", "in_process": "process"}


async def call(shop: Shop, name: str, times: int, **args: Any) -> list[Any]:
    """So many jobs, and what came of them."""
    async with tasks.caller(shop.url) as app:
        handles = [await app.tasks[name].enqueue(**args) for _ in range(times)]
        return [await within(handle, 60) for handle in handles]


def things(numbers: Numbers) -> dict[str, float]:
    return {key[1]: value for key, value in numbers.items() if key[0] == "shop_things_total"}


def runs(numbers: Numbers) -> dict[tuple[str, str], float]:
    """By task and outcome."""
    found = {key: value for key, value in numbers.items() if key[0] == "windlass_worker_runs_total"}
    return {(key[3], key[1]): value for key, value in found.items()}


async def test_counts_are_what_happened_in_every_place_and_process(shop: Shop) -> None:
    port = shop.worker("--processes", "2", "--children", "1")
    pids = {name: {*await call(shop, name, 6, n=2)} for name in PLACES}
    async with tasks.caller(shop.url) as app:
        handle = await app.tasks["failing"].enqueue()
        with pytest.raises(JobFailed):
            await within(handle, 60)
    wanted = {"loop": 12.0, "thread": 12.0, "process": 12.0}
    numbers = port.until(lambda numbers: things(numbers) == wanted and len(runs(numbers)) == 5)
    assert runs(numbers) == {
        ("on_loop", "succeeded"): 6, ("in_thread", "succeeded"): 6, ("in_process", "succeeded"): 6,
        ("failing", "retried"): 2, ("failing", "failed"): 1,
    }  # fmt: skip
    for name in ("wait", "run", "job"):
        assert numbers[f"windlass_worker_{name}_seconds_count", "default", "on_loop"] == 6
        assert numbers[f"windlass_worker_{name}_seconds_bucket", "+Inf", "default", "on_loop"] == 6
    assert numbers["windlass_worker_run_seconds_count", "bad", "failing"] == 3
    assert numbers["windlass_worker_job_seconds_count", "bad", "failing"] == 1
    assert numbers["windlass_worker_slots",] == 200
    assert numbers["windlass_worker_memory_bytes",] > 10_000_000
    # Each process has set it to the same: the sum of those that did, and the largest.
    assert numbers["shop_level",] == 2 * len(pids["on_loop"])
    assert numbers["shop_most",] == 7


async def test_what_a_killed_process_counted_stays(shop: Shop) -> None:
    port = shop.worker("--processes", "2", "--children", "1")
    for name in PLACES:
        await call(shop, name, 10)
    before = port.until(lambda numbers: things(numbers) == dict.fromkeys(PLACES.values(), 10.0))
    supervisor = psutil.Process(port.process.pid)
    victim = supervisor.children()[0]
    os.kill(victim.pid, signal.SIGKILL)
    after = port.until(lambda numbers: numbers["windlass_worker_process_deaths_total",] == 1)
    counted = [key for key in before if key[0].endswith(("_total", "_count", "_sum", "_bucket"))]
    assert {key: after[key] for key in counted if after.get(key, -1) < before[key]} == {}
    port.until(lambda numbers: numbers["windlass_worker_processes",] == 2)
    await call(shop, "on_loop", 5)
    port.until(lambda numbers: things(numbers) == {"loop": 15.0, "thread": 10.0, "process": 10.0})
    assert supervisor.is_running()


async def test_what_a_killed_child_counted_stays(lite: Shop) -> None:
    port = lite.worker("--children", "1")
    (pid,) = await call(lite, "in_process", 1)
    port.until(lambda numbers: things(numbers).get("process") == 1)
    os.kill(pid, signal.SIGKILL)
    soon(lambda: "an idle process child died" in lite.log())
    (other,) = await call(lite, "in_process", 1)
    assert other != pid
    port.until(lambda numbers: things(numbers)["process"] == 2)


async def test_replaced_processes_say_their_last_word(lite: Shop) -> None:
    """Each process ends after a few jobs, sooner than it would tell by itself."""
    port = lite.worker("--processes", "2", "--max-jobs", "3", "--children", "1")
    for name in PLACES:
        await call(lite, name, 10)
    numbers = port.until(lambda numbers: things(numbers) == dict.fromkeys(PLACES.values(), 10.0))
    assert sum(runs(numbers).values()) == 30
    assert numbers["windlass_worker_process_deaths_total",] == 0


async def test_numbers_that_no_pipe_holds_at_once_arrive(lite: Shop) -> None:
    port = lite.worker("--processes", "2")
    for _ in range(4):
        await call(lite, "many", 1, n=5_000)
    port.until(lambda numbers: sum(value for key, value in numbers.items() if key[0] == "shop_many_total") == 20_000)
    port.process.terminate()
    assert port.process.wait(20) == 0


async def test_a_collector_that_fails_takes_no_numbers_back(lite: Shop) -> None:
    port = lite.worker()
    await call(lite, "on_loop", 3)
    port.until(lambda numbers: things(numbers) == {"loop": 3.0})
    await call(lite, "spoil", 1)
    numbers = port.until(lambda numbers: ("spoil", "succeeded") in runs(numbers))
    assert things(numbers) == {"loop": 3.0}
    assert lite.log().count("a collector of the app's metrics fails") == 1


def test_gauges_are_of_the_living(lite: Shop) -> None:
    port = lite.worker("--processes", "2")
    victim = psutil.Process(port.process.pid).children()[0]
    victim.kill()
    port.until(lambda numbers: numbers["windlass_worker_processes",] == 1 and numbers["windlass_worker_slots",] == 100)
    port.until(lambda numbers: numbers["windlass_worker_processes",] == 2)


async def test_one_process_serves_itself_and_ends_in_order(lite: Shop) -> None:
    port = lite.worker()
    await call(lite, "on_loop", 3)
    port.until(lambda numbers: things(numbers) == {"loop": 3.0})
    port.process.terminate()
    assert port.process.wait(20) == 0


def test_there_is_one_page(lite: Shop) -> None:
    port = lite.worker()
    with pytest.raises(urllib.error.HTTPError, match="404") as missing:
        urllib.request.urlopen(port.url.replace("/metrics", "/"), timeout=10)
    missing.value.close()


def test_clients_that_hang_keep_nobody_from_being_served(lite: Shop) -> None:
    port = lite.worker("--processes", "2")
    host, number = port.url.removeprefix("http://").removesuffix("/metrics").split(":")
    hanging = [socket.create_connection((host, int(number))) for _ in range(4)]
    try:
        assert port.get()["windlass_worker_processes",] == 2
    finally:
        for connection in hanging:
            connection.close()
    port.process.terminate()
    assert port.process.wait(20) == 0


async def test_every_metric_is_told_and_those_in_the_dashboard_exist(shop: Shop) -> None:
    port: Port = shop.worker()
    async with tasks.caller(shop.url) as app:
        await within(await app.tasks["one"].enqueue(n=1), 60)
        await within(await app.tasks["on_loop"].enqueue(), 60)
        own = port.until(lambda numbers: ("on_loop", "succeeded") in runs(numbers))
        text = await store_metrics(app)
    told = {
        line.split()[2] for line in (text.decode() + port.text()).splitlines() if line.startswith("# TYPE windlass_")
    }
    assert told == STORE.keys() | WORKER.keys()
    used = {name for panel in make_dashboard()["panels"] for target in panel.get("targets", ()) for name in
            names_in(target["expr"])}  # fmt: skip
    assert used - {key[0] for key in own} - {name for name in STORE if name in told} == set()
    assert scrape(text)["windlass_gate_limit", "task", "one"] == 1


async def test_an_embedded_worker_tells_on_demand() -> None:
    app = tasks.caller("memory://")
    async with app, app.worker() as worker:
        await within(await app.tasks["on_loop"].enqueue())
        soon_told = scrape(worker_metrics(worker))
        assert runs(soon_told) == {("on_loop", "succeeded"): 1}
        assert things(soon_told)["loop"] >= 1
        assert things(scrape(worker_metrics(worker, registry=None))) == {}


# -- mistakes


@pytest.mark.parametrize("value", ["http", "99999", ":9100", "host:", "::1:9100", "-1"])
def test_a_wrong_port_is_named(lite: Shop, value: str) -> None:
    said = lite.run("worker", APP, "--metrics", value, code=2).stderr
    assert "is no port: write one such as 9100" in said


@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_a_port_that_is_taken_is_named(lite: Shop, more: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = lite.run("worker", APP, "--metrics", str(port), *more, code=2).stderr
    assert f"metrics cannot be served at 127.0.0.1:{port}: Address already in use" in said


@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_what_to_install_is_said(lite: Shop, more: tuple[str, ...]) -> None:
    (lite.folder / "prometheus_client.py").write_text("raise ImportError('not here')")
    said = lite.run("worker", APP, "--metrics", "0", *more, code=2).stderr
    assert f"--metrics needs more packages: {pip_install('telemetry')}" in said


def test_without_the_option_nothing_is_imported(lite: Shop) -> None:
    (lite.folder / "plain.py").write_text(
        "import sys\nfrom windlass import Windlass\napp = Windlass('plain', 'sqlite:///plain.db?durability=normal')\n"
        "@app.task\nasync def loaded() -> list[str]:\n"
        "    return sorted(name for name in sys.modules if name.startswith(('prometheus', 'windlass.observe')))\n"
    )
    lite.start("worker", "plain:app")
    answer = lite.run("enqueue", "plain:app", "plain.loaded", "--wait", "20", "--json").stdout
    assert '"result":[]' in answer.replace(" ", "")
