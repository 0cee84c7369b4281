"""``windlass workflows``: listings, one workflow as a tree or a graph, and what can be done to one as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from windlass.app import Windlass
from windlass.cli import change, output
from windlass.cli.errors import CliError, NotDone
from windlass.cli.target import Target, run, takes_app
from windlass.console import Console
from windlass.core.duration import show_ms
from windlass.core.job import State
from windlass.workflows.picture import Tree
from windlass.workflows.workflow import WorkflowInfo

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree as RichTree

STATES = [str(state) for state in (State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED)]
MARKS = {
    "succeeded": "✓", "failed": "✗", "cancelled": "⊘", "skipped": "–", "running": "●", "ready": "○", "scheduled": "◷",
    "waiting": "·",
}  # fmt: skip
KINDS = {"then": "then", "on_error": "on error", "on_end": "at the end"}
"""Callbacks."""

CROWD, SHOWN = 8, 3
"""Of more jobs alike in a row than the first, only so many are drawn."""


@click.group()
def workflows() -> None:
    """List and show workflows, cancel them, and retry what failed in them."""


@workflows.command("list")
@takes_app()
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only this state; repeatable.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--after", default="", metavar="CURSOR", help="Go on behind an earlier page.")
def list_workflows(target: Target, as_json: bool, states: tuple[str, ...], limit: int, after: str) -> None:
    """List workflows, the newest first."""
    app = target.load()
    page = run(app, lambda: app.workflows(state=states, limit=limit, after=after))
    if as_json:
        output.print_json(page)
        return
    if page.workflows:
        columns = ("id", "state", "jobs", "age", "name", "about")
        output.table(columns, [_row(info) for info in page.workflows], right=("age",), spare=("age",))
    else:
        output.note("no workflows")
    if page.cursor:
        output.note(f"more with --after {page.cursor}")


def _row(info: WorkflowInfo) -> tuple[Any, ...]:
    age = output.ago(info.created_at).removesuffix(" ago")
    return info.id, output.state(info.state), f"{info.done:,}/{info.total:,}", age, info.name, one_line(info.reason)


@workflows.command("show")
@takes_app("ID")
@click.option("--all", "every", is_flag=True, help="Draw every job, also of large groups.")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid flowchart instead.")
@click.option("--dot", is_flag=True, help="Print a Graphviz digraph instead.")
def show_workflow(target: Target, as_json: bool, words: list[str], every: bool, mermaid: bool, dot: bool) -> None:
    """Show one workflow: its record, and its jobs as a tree."""
    if len(words) != 1:
        raise click.UsageError("give one workflow ID" if not words else f"give one workflow ID, not {len(words)}")
    if mermaid + dot + as_json > 1:
        raise click.UsageError("give one of --json, --mermaid and --dot")
    app, id = target.load(), words[0]
    if mermaid or dot:
        click.echo(run(app, lambda: _drawn(app, id, mermaid)), nl=False)
        return
    info, tree = run(app, lambda: _read(app, id))
    if as_json:
        output.print_json({**msgspec.to_builtins(info, enc_hook=str), "tree": tree})
    else:
        _print(info, tree, every)


async def _read(app: Windlass, id: str) -> tuple[WorkflowInfo, Tree]:
    handle = app.workflow(id)
    info = await handle.info()
    if info is None:
        raise unknown(id)
    return info, await handle.tree()


async def _drawn(app: Windlass, id: str, mermaid: bool) -> str:
    await _read(app, id)
    return await (app.workflow(id).mermaid() if mermaid else app.workflow(id).dot())


def unknown(id: str) -> CliError:
    return NotDone(f"there is no workflow {id!r}: it was never accepted, was deleted, or its retention has passed")


@workflows.command("cancel")
@takes_app("ID...")
@click.option("--reason", default="", help="Kept with the workflows.")
def cancel(target: Target, as_json: bool, words: list[str], reason: str) -> None:
    """Cancel workflows with all their jobs. Callbacks run."""
    change.act(
        target, words, lambda console, ids: console.cancel_workflows(ids, reason), "cancelled", as_json, "workflow IDs"
    )


@workflows.command("retry")
@takes_app("ID...")
def retry(target: Target, as_json: bool, words: list[str]) -> None:
    """Run again what failed in workflows, and what was skipped for it. What succeeded does not run twice."""
    change.act(target, words, Console.retry_workflows, "retried", as_json, "workflow IDs")


# -- the picture of one


class TreeStyle(NamedTuple):
    """How a tree is drawn: whether ``every`` job is shown, and the workflow's reason, which is not repeated."""

    every: bool
    reason: str


def _print(info: WorkflowInfo, tree: Tree, every: bool) -> None:
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(info.counts.items()) if count)
    took = info.finished_at - info.created_at if info.finished_at and info.created_at else None
    output.fields(
        [
            ("id", info.id),
            ("name", info.name),
            ("state", output.state(info.state)),
            ("reason", one_line(info.reason)),
            ("jobs", f"{info.done:,} of {info.total:,}" + (f" ({counts})" if counts else "")),
            ("takes the place of" if info.replaces else "awaited by", f"job {info.parent}" if info.parent else ""),
            ("created", output.clock(info.created_at)),
            ("finished", output.clock(info.finished_at)),
            ("took", show_ms(int(took.total_seconds() * 1000)) if took is not None else ""),
        ]
    )
    click.echo()
    terminal = output.console()
    terminal.print(_branch(tree, TreeStyle(every, info.reason)), overflow="ellipsis", no_wrap=True)


def _branch(tree: Tree, shown: TreeStyle) -> RichTree:
    from rich.tree import Tree as RichTree

    work = _inner(tree)
    branch = RichTree(_label(work, shown), guide_style="bright_black")
    _grow(branch, work.children, shown)
    return branch


def _inner(tree: Tree) -> Tree:
    """The outermost work of a workflow, which is the workflow itself."""
    only = tree.children[0] if len(tree.children) == 1 else tree
    return tree if only.kind == "job" else only


def _grow(branch: RichTree, nodes: Sequence[Tree], shown: TreeStyle) -> None:
    for row in _rows(nodes, shown.every):
        if isinstance(row, Tree):
            below = _inner(row).children if row.kind == "workflow" else row.children
            if row.kind in KINDS and len(below) == 1:
                below = below[0].children
            _grow(branch.add(_label(row, shown)), below, shown)
        else:
            branch.add(row)


def _rows(nodes: Sequence[Tree], every: bool) -> Iterator[Tree | Text]:
    """The nodes, with one line for most of a crowd of jobs with the same end."""
    from rich.text import Text

    for (kind, task, state), alike in groupby(nodes, lambda node: (node.kind, node.task, node.state)):
        row = list(alike)
        if every or kind != "job" or len(row) <= CROWD or any(node.children for node in row):
            yield from row
        else:
            yield from row[:SHOWN]
            mark = Text(f"{MARKS[state]} ", output.COLOURS[state])
            yield mark.append(f"… {len(row) - SHOWN:,} more {task} {state}", "bright_black")


def _label(node: Tree, shown: TreeStyle) -> Text:
    from rich.text import Text

    if node.kind in KINDS and len(node.children) == 1:
        return Text(f"{KINDS[node.kind]}: ", "cyan").append_text(_label(node.children[0], shown))
    label = Text(f"{MARKS[node.state]} ", output.COLOURS[node.state])
    if node.kind == "job":
        label.append(node.task, "" if node.state is not State.FAILED else "bold").append(f"  {node.id}", "bright_black")
        return _about(label, node, shown)
    label.append(node.name or KINDS.get(node.kind, node.kind), "cyan")
    if node.kind == "group":
        members = [child for child in node.children if child.kind not in KINDS]
        over = sum(child.state.terminal for child in members)
        label.append(f" of {len(members):,}" + (f", {over:,} over" if over < len(members) else ""), "cyan")
    if node.kind == "workflow":
        label.append(f"  {node.id}", "bright_black")
    return label


def _about(label: Text, node: Tree, shown: TreeStyle) -> Text:
    """The single most useful remark about a job in its state."""
    if node.state is State.SUCCEEDED:
        return label if node.result is None else label.append(f"  → {output.compact(node.result, 60)}", "green")
    if node.state is State.FAILED:
        return label.append(f"  {one_line(node.error or node.reason)}", "red")
    why = f": {one_line(node.reason)}" if node.reason and node.reason != shown.reason else ""
    return label.append(f"  {node.state}{why}", output.COLOURS[node.state])


def one_line(text: str) -> str:
    """The first line of an error, without characters that move the cursor."""
    return "".join(char if char.isprintable() else " " for char in text.partition("\n")[0])
