"""Workers as pages show them: slots and claims taken ahead apart; what was ordered beside what is so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.kit import World, bearer, dashboard, hand, visiting
from windlass import Windlass
from windlass.console import Console
from windlass.core.access import make_access
from windlass.operate.standing import Slots, slots_of
from windlass.store.jobs import Presence
from windlass.store.reads import WorkerInfo
from windlass.web.template_filters import asked_of


@pytest.mark.parametrize(
    ("claims", "load", "slots"),
    [
        (23, {}, Slots(20, 3)),
        (23, {"running": 20, "held": 23}, Slots(20, 3)),
        (7, {"running": 7, "held": 7}, Slots(7, 0)),
        (7, {"running": 0, "held": 0}, Slots(7, 0)),  # claimed since its last beat
        (100, {"running": 1, "held": 100}, Slots(1, 0)),  # one batch
        (0, {"running": 3, "held": 9}, Slots(0, 0)),
        (23, {"running": "many", "held": None}, Slots(20, 3)),
    ],
)
def test_jobs_in_slots_and_jobs_taken_ahead(claims: int, load: dict[str, Any], slots: Slots) -> None:
    presence = Presence(id="w", queues=[], declares={}, concurrency=20, load=load)
    assert slots_of(WorkerInfo(presence=presence, beat_age=0, alive=True, running=claims, idle=False)) == slots


async def test_the_page_never_shows_more_busy_slots_than_there_are(app: Windlass, world: World) -> None:
    await app.tasks["mail.send"].map([f"u{n}" for n in range(9)]).enqueue()  # type: ignore[attr-defined]
    await world.worker.claim(9)
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        text = (await visitor.get("/workers")).text
        assert "4 of 4 slots busy" in text
        assert "/ 4" not in text
        overview = (await visitor.get("/api/overview")).json()
    assert (overview["busy"], overview["slots"]) == (4, 4)
    [row] = await Console(app).workers()
    assert row.busy == 4
    assert row.ahead == row.running - 4 > 0


async def test_orders_that_a_worker_has_not_heard_yet(app: Windlass, world: World) -> None:
    console = Console(app, make_access("ann", ["*"]))
    [row] = await console.workers()
    assert (row.actions, asked_of(row)) == (("quiet", "stop"), "")
    row = await console.quiet_worker("worker-1", "a slow disk")
    assert row.actions == ("resume", "stop")
    [row] = await console.workers()
    assert (row.ordered, row.order_reason, asked_of(row)) == ("quiet", "a slow disk", "told to go quiet")
    async with visiting(dashboard(app, {"ann": ["*"], "bob": ["read"]})) as visitor:
        text = (await visitor.get("/workers", headers=bearer("ann"))).text
        assert "told to go quiet" in text
        assert "a slow disk" in text
        assert "/resume" in text
        seen = (await visitor.get("/workers", headers=bearer("bob"))).text
        assert "/resume" not in seen
        assert "told to go quiet" in seen
    await console.stop_worker("worker-1")
    row = await console.worker("worker-1")
    assert (row.actions, asked_of(row)) == ((), "told to stop")


async def test_who_sees_some_of_its_queues_only_is_offered_no_orders(app: Windlass, world: World) -> None:
    other = hand(world.store, app, "worker-2", ["mail"])
    await other.start()
    console = Console(app, make_access("bob", ["*"], ["mail"]))
    assert {row.id: row.actions for row in await console.workers()} == {
        "worker-1": (), "worker-2": ("quiet", "stop"),
    }  # fmt: skip
