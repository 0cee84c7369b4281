"""Pictures of workflows: trees and Mermaid graphs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.workflows.handle_kit import Shop, shop, working
from tests.worker.helpers import eventually, within
from windlass import (
    JobFailed,
    State,
    Workflow,
    chain,
    chord,
    flow,
    group,
)
from windlass.workflows.picture import draw_dot, draw_mermaid

__all__ = ["shop", "working"]


# -- pictures


def outline(tree: Any) -> Any:
    """A tree as nested lists of kinds and tasks."""
    name = tree.task or tree.kind
    return [name, *map(outline, tree.children)] if tree.children else name


async def test_the_tree_is_what_was_written(shop: Shop) -> None:
    header = group(shop.add.si(1), shop.add.si(2).on_error(shop.note.s()))
    work = chain(
        shop.add.s(1), group(shop.add.s(1), chain(shop.add.s(1), shop.add.s(2))), chord(header, shop.total.s())
    )
    handle = await work.then(group(shop.note.s(), shop.note.s()))
    assert outline(await handle.tree()) == [
        "workflow",
        [
            "chain",
            "add",
            ["group", "add", ["chain", "add", "add"]],
            ["chord", ["group", "add", ["add", ["on_error", "note"]]], "total"],
            ["then", ["group", "note", "note"]],
        ],
    ]
    wide = await chain(shop.add.s(1), group(shop.add.s(n) for n in range(600)), shop.total.s())
    tree = await wide.tree()
    assert outline(tree) == ["workflow", ["chain", "add", ["group", *["add"] * 600], "total"]]
    assert [node.id for node in tree.walk() if node.id] == [wide.id, *(job.id for job in await wide.jobs())]
    assert outline(await (await flow(shop.add.si(1), [shop.total.si([])])).tree()) == [
        "workflow",
        ["flow", "total", "add"],
    ]
    assert outline(await (await shop.app.submitting.submit_work(group())).tree()) == ["workflow", "group"]


async def test_a_tree_has_states_results_and_errors(working: Shop) -> None:
    handle = await chain(
        group(working.add.si(1), working.charge.si()).keep_errors(), chain(working.charge.si(), working.add.s())
    )
    with pytest.raises(JobFailed):
        await within(handle)
    tree = await handle.tree()
    (top,) = tree.children
    kept, *rest = top.children
    assert (tree.state, top.state, kept.state) == (State.FAILED, State.FAILED, State.SUCCEEDED)
    assert [(node.state, node.result, node.error) for node in kept.children] == [
        (State.SUCCEEDED, 1, ""),
        (State.FAILED, None, "ValueError: no money"),
    ]
    assert [node.state for node in rest] == [State.FAILED, State.SKIPPED]
    assert rest[1].reason == f"charge {rest[0].id} failed"


async def test_a_tree_of_what_is_left(shop: Shop) -> None:
    handle = await chain(shop.add.s(1), shop.add.s(2))
    async with shop.app.worker():
        await within(handle)
    job = (await handle.jobs())[0]
    assert await shop.app.job(job.id).forget()
    assert outline(await handle.tree()) == ["workflow", "add"]


async def _over(handle: Workflow[Any]) -> bool:
    return all(job.state.terminal for job in await handle.jobs())


async def test_a_mermaid_graph(working: Shop) -> None:
    work = chain(
        working.add.s(1), group(working.add.s(1), working.charge.si()), group(working.total.s(), working.total.s())
    )
    handle = await work.on_error(working.note.s())
    with pytest.raises(JobFailed):
        await within(handle)
    await eventually(lambda: _over(handle))
    lines = (await handle.mermaid()).splitlines()
    assert lines[0] == "flowchart TD"
    assert [line.strip() for line in lines[1:] if "classDef" not in line] == [
        'n0["add"]:::succeeded',
        'n1["add"]:::succeeded', "n0 --> n1",
        'n2["charge"]:::failed', "n0 --> n2",
        "n3(( )):::failed", "n1 --> n3", "n2 --> n3",
        'n4["total"]:::skipped', "n3 --> n4",
        'n5["total"]:::skipped', "n3 --> n5",
        "n6(( )):::failed", "n4 --> n6", "n5 --> n6",
        'n7["note"]:::succeeded', "n6 -.->|on error| n7",
    ]  # fmt: skip
    dot = await handle.dot()
    assert 'n6 -> n7 [label="on error", style=dashed];' in dot
    assert 'n3 [label="", shape=circle' in dot


async def test_many_jobs_alike_are_drawn_as_one(shop: Shop) -> None:
    handle = await chord([shop.add.si(n) | shop.add.s(1) for n in range(300)], shop.total.s())
    lines = [line.strip() for line in (await handle.mermaid()).splitlines() if "classDef" not in line]
    assert lines[1:] == [
        'n0["add × 300 (300 ready)"]:::ready',
        'n1["add × 300 (300 waiting)"]:::waiting', "n0 --> n1",
        'n2["total"]:::waiting', "n1 --> n2",
    ]  # fmt: skip


async def test_a_picture_has_an_end(shop: Shop) -> None:
    handle = await group(shop.app.sig(f"task{n}") for n in range(450))
    assert "… 50 more" in await handle.mermaid()
    assert "… 50 more" in await handle.dot()


async def test_hostile_names_are_only_text(shop: Shop) -> None:
    handle = await chain(shop.add.s(1)).named('x"; evil [label="\\')
    graph = await handle.graph()
    assert graph is not None
    assert draw_dot(graph, []).startswith('digraph "x\\"; evil [label=\\"\\\\" {')
    graph.name = '"]:::x\n  click n0 "javascript:alert(1)" `<b>'
    drawn = draw_mermaid(graph, [])
    assert drawn.count('"') == 2
    assert "click n0 #34;javascript:alert(1)#34; #96;#60;b#62;" in drawn
    assert len(drawn.splitlines()) == 10


async def test_adopted_workflows_hang_below_their_jobs(working: Shop) -> None:
    handle = await chain(working.grow.s(1), working.add.s(1))
    assert await within(handle) == 3
    assert outline(await handle.tree()) == [
        "workflow", ["chain", ["grow", ["workflow", ["chain", "add", "add"]]], "add"],
    ]  # fmt: skip
    inner = next(one for one in (await working.app.workflows()).workflows if one.parent)
    assert (inner.parent, inner.replaces) == ((await handle.jobs())[0].id, True)
