"""From a plan to the store: a workflow goes in parts, of which the last makes it real."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from windlass.connections.connections import Connections
from windlass.connections.sender import resent
from windlass.core.draft import Draft
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.errors import ConfigError, StoreUnavailable
from windlass.store.answers import Accept, Answer, GraphAnswer

log = logging.getLogger("windlass.client")

InsertGraph = Callable[[NewGraph, int, Sequence[NewJob], bool], Awaitable[GraphAnswer]]

RESTARTS = 3
"""How often a workflow is staged anew from where the store lost it."""


class Planned(Protocol):
    """A workflow ready to be sent."""

    @property
    def graph(self) -> NewGraph: ...

    @property
    def drafts(self) -> list[Draft]: ...

    def part(self, first: int) -> Sequence[NewJob]:
        """As many nodes from number ``first`` on as go into one call."""
        ...


async def send_plan(connections: Connections, plan: Planned, drafts: list[Draft]) -> list[Answer]:
    """Bring a workflow to the store; its one answer, for each of its calls. ``drafts``: those calls, as enqueue
    middleware left them. What was staged of a workflow that is not accepted in the end is never seen, and vanishes.
    """
    check_same_calls(plan.drafts, drafts)
    graph, store = plan.graph, (await connections.client()).store
    answer = await send_parts(lambda *part: resent(store.insert_graph, *part), graph, plan.part, True)
    more = answer.more
    try:
        while more:
            more = (await store.insert_graph(graph, graph.nodes, [], True)).more
    except StoreUnavailable as error:
        log.info("workflow %s is accepted; workers will see to the rest of its jobs: %s", graph.id, error)
    return [Answer(answer.status, answer.reason)] * max(len(drafts), 1)


def check_same_calls(made: Sequence[Draft], drafts: Sequence[Draft]) -> None:
    """Enqueue middleware may change the calls of a workflow, and nothing else."""
    if [draft.id for draft in drafts] != [draft.id for draft in made]:
        raise ConfigError("enqueue middleware may change the calls of a workflow, not leave out or add any")


async def send_parts(
    insert: InsertGraph, graph: NewGraph, part: Callable[[int], Sequence[NewJob]], commit: bool
) -> GraphAnswer:
    """The answer to the last part, or to the first that is not accepted. ``part(n)``: the nodes from number n on."""
    first = restarts = 0
    while True:
        nodes = part(first)
        last = first + len(nodes) == graph.nodes
        answer = await insert(graph, first, nodes, commit and last)
        if answer.status is Accept.REFUSED and answer.staged < first and restarts < RESTARTS:
            first, restarts = answer.staged, restarts + 1  # the store lost some of it: it was down, or we were slow
        elif answer.status is not Accept.ACCEPTED or last:
            return answer
        else:
            first += len(nodes)
