"""The traced shop as one would run it: an order can be followed from the request to the last job."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.traced_shop.running import Shop, running, wait_for


def spans_of(folder: Path, trace: str) -> list[dict[str, Any]]:
    file = sqlite3.connect(folder / "spans.db", timeout=10)
    if not file.execute("SELECT name FROM sqlite_master WHERE name = 'spans'").fetchall():
        file.close()
        return []
    rows = file.execute("SELECT id, body FROM spans WHERE trace = ?", [trace]).fetchall()
    file.close()
    return [{"id": id, **msgspec.json.decode(body)} for id, body in rows]


def complete(folder: Path, trace: str) -> list[dict[str, Any]]:
    """All spans, once the last has been written."""
    found = spans_of(folder, trace)
    tasks = [span["attributes"].get("windlass.task", "").rpartition(".")[2] for span in runs(found)]
    settled = sum(span["attributes"].get("messaging.batch.message_count", 1) for span in of(found, "settle"))
    whole = sorted(tasks) == ["charge", "charge", "pack", "place_order", "ship"] and settled == 5
    # The server writes when it comes to it, and its request is the last of its spans to end.
    return found if whole and any(not span["parent"] for span in found) else []


def of(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [span for span in found if span["attributes"].get("messaging.operation.type") == kind]


def runs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return of(found, "process")


def follow(shop: Shop, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    id = shop.order("lamp")
    job = msgspec.json.decode(shop.get(f"/jobs/api/jobs/{id}"))
    trace = job["trace_id"]
    assert f'href="/traces/{trace}"' in shop.get(f"/jobs/jobs/{id}"), "the dashboard leads there"
    return trace, wait_for(lambda: complete(folder, trace))


def test_an_order_can_be_followed_from_its_request_to_its_last_job(tmp_path: Path) -> None:
    with running(tmp_path) as shop:
        trace, found = follow(shop, tmp_path)
        page = shop.get(f"/traces/{trace}")
    by_id = {span["id"]: span for span in found}
    (root,) = [span for span in found if not span["parent"]]
    assert (root["service"], root["name"]) == ("web", "POST /orders")
    for span in found:
        assert not span["parent"] or span["parent"] in by_id, f"{span} hangs in the air"
    for span in runs(found):
        assert (span["service"], by_id[span["parent"]]["name"].split()[0]) == ("worker", "send")
    services = {span["service"] for span in of(found, "send")}
    assert services == {"web", "worker"}, "the first is sent by the server, the others by a job"
    outcomes = [span["attributes"]["windlass.outcome"] for span in runs(found) if "payments" in span["name"]]
    assert sorted(outcomes) == ["retried", "succeeded"]
    for text in ("POST /orders", "process orders", "process payments", "charge retried", "check stock", "wrap"):
        assert text in page


def test_its_metrics_are_there_as_well(tmp_path: Path) -> None:
    pytest.importorskip("windlass.observe.metrics", reason="another part of telemetry")
    with running(tmp_path) as shop:
        follow(shop, tmp_path)
        assert "place_order" in shop.get("/jobs/metrics")
