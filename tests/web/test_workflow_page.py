"""A workflow's pages: many jobs alike are one box, what failed is named and drawn apart, time has its own view."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.web.kit import Page, bearer, dashboard, hand, make_app, visiting
from windlass import Windlass, chain, chord, group
from windlass.console import Console
from windlass.console.waterfall import MOST_BARS, critical_path, waterfall
from windlass.console.workflow_layout import ROW
from windlass.console.workflow_replies import WorkflowDetail
from windlass.console.workflows import FOLDED, MOST_OPEN
from windlass.core.job import ErrorInfo, Job, State
from windlass.core.lifecycle import Failed, Succeeded
from windlass.workflows.picture import Drawn, Folding, drawing


async def a_chord(app: Windlass, width: int, failing: int = -1) -> str:
    """So many charges and one more after them, worked off; the charge of this number fails."""
    worker = hand((await app.client()).store, app)
    await worker.start()
    charge = app.tasks["bill.charge"]
    flow = await chord([charge.si(n) for n in range(width)], charge.si(width)).enqueue()
    error = ErrorInfo(type="bank.CardDeclined", message="card declined", fingerprint="f1")
    while claims := await worker.claim(100):
        for claim in claims:
            number = int(re.findall(rb"\d+", claim.payload)[0])
            await worker.settle(claim, Failed(error) if number == failing else Succeeded(b"1"))
    return flow.id


def summary(view: WorkflowDetail) -> list[tuple[str, int, bool]]:
    return [(node.state, node.folded, node.culprit) for node in view.nodes]


@pytest.mark.parametrize(("width", "boxes"), [(FOLDED - 1, FOLDED), (FOLDED, 2), (40, 2)])
async def test_wide_groups_are_folded_from_eight(any_app: Windlass, width: int, boxes: int) -> None:
    id = await a_chord(any_app, width)
    view = await Console(any_app).workflow(id)
    assert len(view.nodes) == boxes
    if boxes == 2:
        assert summary(view) == [("succeeded", width, False), ("succeeded", 0, False)]
        [only] = view.groups
        assert (only.count, only.states, only.open) == (width, {"succeeded": width}, False)
        whole = await Console(any_app).workflow(id, [only.key])
        assert len(whole.nodes) == width + 1
        assert whole.groups[0].open
        assert len(whole.bars) == width + 1


async def test_the_job_that_failed_is_drawn_apart_and_named(any_app: Windlass) -> None:
    id = await a_chord(any_app, 12, failing=7)
    view = await Console(any_app).workflow(id)
    assert summary(view) == [("succeeded", 11, False), ("failed", 0, True), ("skipped", 0, False)]
    assert view.nodes[1].id == view.row.culprit
    assert [node.took is not None for node in view.nodes] == [True, True, False]
    assert [(bar.folded, bar.culprit) for bar in view.bars if bar.start] in (
        [(11, False), (0, True)],
        [(0, True), (11, False)],
    )
    async with visiting(dashboard(any_app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        text = (await visitor.get(f"/workflows/{id}")).text
        told = text[text.index('id="reason"') : text.index("</p>", text.index('id="reason"'))]
        assert "CardDeclined: card declined" in told
        assert f"/jobs/{view.row.culprit}" in told
        assert "#culprit" in told
        assert 'id="culprit"' in text
        assert "× 11" in text


async def test_groups_are_unfolded_and_folded_by_links(app: Windlass) -> None:
    id = await a_chord(app, 20, failing=3)
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        for view in ("", "?view=time"):
            shown = Page((await visitor.get(f"/workflows/{id}{view}")).text)
            unfold = next(link for link in shown.links if "open=" in link)
            assert ("view=time" in unfold) == bool(view)
            open = (await visitor.get(unfold)).text
            assert ">Fold</a>" in open
            count = open.count('class="critical"') + open.count('<li class=""') if view else open.count('class="node ')
            assert count >= 21
        assert (await visitor.get(f"/workflows/{id}?open=nothing&open=else&view=sideways")).status_code == 200


async def test_a_large_workflow_is_bounded_when_it_is_unfolded(app: Windlass) -> None:
    id = await a_chord(app, 300, failing=250)
    folded = await Console(app).workflow(id)
    view = await Console(app).workflow(id, [folded.groups[0].key])
    assert len(view.nodes) == MOST_OPEN + 2
    assert [node.folded for node in view.nodes if node.folded] == [300 - MOST_OPEN]
    assert any(node.culprit for node in view.nodes)
    rows: dict[float, int] = {}
    for node in view.nodes:
        rows[node.y] = rows.get(node.y, 0) + 1
    assert max(rows.values()) == ROW


async def test_a_workflow_under_way_has_both_views(app: Windlass) -> None:
    worker = hand((await app.client()).store, app)
    await worker.start()
    charge = app.tasks["bill.charge"]
    flow = await chain(charge.si(1), group(charge.si(2), charge.si(3))).enqueue()
    await worker.claim(1)
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        for path in (f"/workflows/{flow.id}", f"/workflows/{flow.id}?view=time"):
            assert (await visitor.get(path)).status_code == 200
    bars = (await Console(app).workflow(flow.id)).bars
    assert [(bar.state, bool(bar.start), bool(bar.wait)) for bar in bars] == [
        ("running", True, True), ("waiting", False, False), ("waiting", False, False),
    ]  # fmt: skip


# -- over time


def ran(id: str, start: int, end: int, state: State = State.SUCCEEDED) -> Job:
    return Job(
        id=id, task=f"t.{id}", version=1, queue="q", priority=5, state=state, payload=b"{}", meta=b"{}",
        enqueued_at=100, started_at=start, finished_at=end,
    )  # fmt: skip


def boxes(*given: tuple[Job, dict[int, str]]) -> list[Drawn]:
    return [Drawn(job.task, job.state, sources, [job]) for job, sources in given]


def test_the_critical_path_goes_back_from_the_last_end() -> None:
    drawn = boxes(
        (ran("quick", 100, 110), {}),
        (ran("slow", 105, 300), {}),
        (ran("side", 120, 290), {0: ""}),
        (ran("join", 310, 400), {0: "", 1: "", 2: ""}),
        (ran("skipped", 0, 401, State.SKIPPED), {3: ""}),
    )
    bars, cut = waterfall(drawn, [""] * 5, 1_000)
    assert cut == 0
    assert [bar.id for bar in bars if bar.critical] == ["slow", "join"]
    found: dict[str, Any] = {bar.id: (bar.wait, bar.start, bar.end) for bar in bars}
    assert found["slow"] == (100, 105, 300)
    assert found["join"] == (300, 310, 400)  # ready when the slow one had ended
    assert found["skipped"][1:] == (0, 0)
    assert critical_path([], []) == set()


def test_of_too_many_rows_those_are_kept_that_the_end_waited_for() -> None:
    many = boxes(*[(ran(f"j{n}", 100 + n, 500 if n == 290 else 400), {}) for n in range(300)])
    bars, cut = waterfall(many, [""] * 300, 1_000, culprit="j299")
    assert (len(bars), cut) == (MOST_BARS, 300 - MOST_BARS)
    assert {"j290", "j299"} <= {bar.id for bar in bars}
    assert [bar.start for bar in bars] == sorted(bar.start for bar in bars)


async def test_what_others_draw_is_folded_as_before() -> None:
    """Mermaid and DOT show up to sixty boxes apart."""
    app = make_app()
    id = await a_chord(app, 30)
    members = await (await app.client()).store.members(id)
    assert len(drawing(members)) == 31
    assert len(drawing(members, Folding(0, 7))) == 2
    await app.close()
