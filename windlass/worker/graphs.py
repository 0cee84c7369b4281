"""What a worker does for workflows around a run: it reads the values a job is given, and stages the graph a job leaves
behind.

It is the only part of the way from claim to outcome that asks the store; a job outside workflows never comes here. If
the store cannot be reached, it is asked again for as long as the job is this worker's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from windlass.connections.graphs import send_parts
from windlass.connections.sender import batches
from windlass.core.job import Claim, ErrorInfo
from windlass.core.lifecycle import Adopted, Adopting, Failed
from windlass.errors import StoreUnavailable
from windlass.handles.results import read_value
from windlass.store.answers import Accept
from windlass.store.base import Store
from windlass.support.failpoints import failpoint
from windlass.support.logs import Steady
from windlass.workflows.plan import PART

log = Steady(logging.getLogger("windlass.worker"))

T = TypeVar("T")

RETRY_MAX = 2.0
REFUSED = "workflow not accepted"


class Graphs:
    """The calls of the store that jobs of workflows need."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def fetch(self, claim: Claim) -> None:
        """Put into the claim the values its graph brings to it."""
        if claim.source and claim.given is None:
            claim.given = await self._insist(partial(read_value, self._store, claim.source))
        if claim.awaits:
            claim.awaited = await self._insist(partial(read_value, self._store, claim.awaits))

    async def stage(self, adopting: Adopting) -> Adopted | Failed:
        """Bring a job's new graph to the store, part by part. The settle that follows makes it real."""
        graph, nodes = adopting.graph, adopting.nodes
        answer = await send_parts(
            lambda *part: self._insist(partial(self._store.insert_graph, *part)),
            graph,
            lambda first: batches(nodes[first : first + PART])[0],
            commit=False,
        )
        if answer.status is not Accept.ACCEPTED:
            kind = "EnqueueError" if answer.status is Accept.REFUSED else "IdConflict"
            message = f"workflow {graph.id} was not accepted: {answer.reason or 'it exists already'}"
            return Failed(ErrorInfo(f"windlass.errors.{kind}", message, fingerprint=REFUSED), None, REFUSED)
        failpoint("after_stage")
        return Adopted(graph.id, adopting.replaced)

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the store answers. The caller cancels this when the answer is no longer wanted."""
        pause = 0.05
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                log.warning("the store cannot be reached for a workflow, will go on trying: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_MAX)
