"""The app for sync code: the same calls, through the process's portal thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from windlass.admin import answer_to_handle, answers_to_handles
from windlass.call import Draft, Signature
from windlass.client import RESEND_SECONDS, batches
from windlass.core.job import NewJob, State
from windlass.core.options import CallOptions
from windlass.errors import StoreUnavailable
from windlass.handle import SyncHandle
from windlass.plan import Plan, make_plan
from windlass.store.base import Answer, Direct
from windlass.work import Work
from windlass.workflow import SyncWorkflow, WorkflowPage

if TYPE_CHECKING:
    from windlass.admin import JobPage
    from windlass.app import Windlass

log = logging.getLogger("windlass.client")

T = TypeVar("T")


def insert_here(store: Direct, jobs: Sequence[NewJob]) -> list[Answer]:
    """Sent once more when the reply was lost, as on a loop."""
    try:
        return store.insert_here(jobs)
    except StoreUnavailable as error:
        log.info("an enqueue failed, sending it again: %s", error)
        time.sleep(RESEND_SECONDS)
        return store.insert_here(jobs)


class SyncApp:
    """``app.sync``: for threads and plain scripts. Not for code on an event loop, which it would block."""

    def __init__(self, app: Windlass) -> None:
        self._app = app

    def submit(self, drafts: list[Draft]) -> list[SyncHandle[Any]]:
        client = self._app.client_for_threads()
        if client is None:
            handles = self._app.portal.call(lambda: self._app.submit(drafts))
        else:
            jobs = [draft.to_job(client.source, client.plain_meta) for draft in drafts]
            store = cast(Direct, client.store)
            answers = [answer for batch in batches(jobs) for answer in insert_here(store, batch)]
            handles = answers_to_handles(self._app, drafts, answers)
        return [handle.sync for handle in handles]

    def submit_one(self, draft: Draft) -> SyncHandle[Any]:
        client = self._app.client_for_threads()
        if client is None:
            (handle,) = self.submit([draft])
            return handle
        (answer,) = insert_here(cast(Direct, client.store), (draft.to_job(client.source, client.plain_meta),))
        return answer_to_handle(self._app, draft, answer).sync

    def enqueue_many(self, calls: Iterable[Signature[Any]]) -> list[SyncHandle[Any]]:
        return self.submit([call.alone() for call in calls])

    def submit_work(self, work: Work[T]) -> SyncWorkflow[T]:
        # Planned on the caller's own thread: a large one would hold up everyone else on the portal's loop.
        plan, read = make_plan(self._app, work), work.reader()
        return self._app.portal.call(lambda: self._app.submit_plan(plan, read)).sync

    def show_plan(self, plan: Plan) -> None:
        if self._app._enqueue_layers:
            self._app.portal.call(lambda: self._app.show_plan(plan))

    def add(self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> SyncHandle[Any]:
        """Call a task by name, in the queue ``queue=`` names."""
        queue = self._app.queue(options.get("queue", "default"))
        return self._app.portal.call(lambda: queue.add(task, args, **options)).sync

    def job(self, id: str) -> SyncHandle[Any]:
        return self._app.job(id).sync

    def jobs(
        self, *, queue: str = "", state: State | str | Sequence[State | str] = (), task: str = "", limit: int = 100,
        after: str = "",
    ) -> JobPage:  # fmt: skip
        return self._app.portal.call(
            lambda: self._app.jobs(queue=queue, state=state, task=task, limit=limit, after=after)
        )

    def workflow(self, id: str) -> SyncWorkflow[Any]:
        return self._app.workflow(id).sync

    def workflows(
        self, *, state: State | str | Sequence[State | str] = (), limit: int = 100, after: str = ""
    ) -> WorkflowPage:
        return self._app.portal.call(lambda: self._app.workflows(state=state, limit=limit, after=after))

    def counts(self, queue: str) -> dict[str, int]:
        return self._app.portal.call(self._app.queue(queue).counts)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Anything else the app can do: ``app.sync.run(app.dead.replay(every=True))``."""
        return self._app.portal.call(lambda: coroutine)

    def close(self) -> None:
        """Finish what is being sent from the portal and close its connection."""
        self._app.portal.call(self._app.close)
