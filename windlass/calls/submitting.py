"""Submitting: the one road of a call from a signature to the store, by way of enqueue middleware.

A draft is made here, sent by this loop's connection (or, from a thread, by one that threads may call), and answered
with a handle. One call and many, sync and async, take the same steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any, TypeVar

from windlass.calls.context import current_or_none
from windlass.calls.declared import Declared
from windlass.calls.middleware import Submit, around_enqueue
from windlass.calls.refusals import TAKEN, raise_refusal, refusal
from windlass.connections.connections import Connections
from windlass.connections.graphs import check_same_calls, send_plan
from windlass.core.codec import encode
from windlass.core.draft import Draft, needs_stable, set_what_follows
from windlass.errors import ConfigError, WindlassError
from windlass.handles.handle import Handle, SyncHandle
from windlass.store.answers import Accept, Answer
from windlass.store.forks import lineage
from windlass.support.ids import new_id
from windlass.workflows.declarations import DeclaredTask, OneCall
from windlass.workflows.plan import Plan, make_plan
from windlass.workflows.work import App, Work
from windlass.workflows.workflow import SyncWorkflow, Workflow

R = TypeVar("R")

log = logging.getLogger("windlass")


class Submitting:
    """The part of an app that makes jobs of calls. ``lost``: fire-and-forget calls that did not arrive."""

    def __init__(self, app: App, connections: Connections, declared: Declared) -> None:
        self._app, self._connections, self._declared = app, connections, declared
        self._layers = declared.enqueue_layers
        self._cap = connections.settings.max_payload
        self._sending: set[asyncio.Task[list[Handle[Any]]]] = set()
        self._sender_lineage = -1
        self.lost = 0

    # -- drafts

    def draft(self, call: OneCall, *, fed: bool = False, stable: bool = False) -> Draft:
        """The call, checked and encoded. ``fed``: its first argument comes when it runs. ``stable``: equal arguments
        are equal bytes.
        """
        name, options = call.name, {**call.options, "each": call.each} if call.each else call.options
        task = call.task or self._declared.tasks.get(name)
        running = current_or_none()
        correlation = running.correlation_id if running else ""
        payload = self._payload(call, task, fed, stable or (bool(options) and needs_stable(options)))
        version, queue = (task.version, task.queue) if task else (1, "default")
        if not options:
            rules = self._declared.resolve(name, queue)
            draft = Draft(
                id=new_id(), task=name, payload=payload, resolved=rules, version=version, correlation_id=correlation
            )
        else:
            if options.get("delay") and options.get("at"):
                raise ConfigError(f"task {name}: give delay or at, not both")
            rules = self._declared.resolve(name, options.get("queue") or queue, options)
            draft = Draft(
                id=options.get("id") or new_id(), task=name, payload=payload, version=version, resolved=rules,
                delay=options.get("delay", 0), at=options.get("at", 0), headers=options.get("headers", {}),
                correlation_id=options.get("correlation_id", correlation), options=options,
            )  # fmt: skip
        if rules.flow is not None or rules.tags or rules.search:
            known = task is not None and not call.each
            set_what_follows(draft, partial(task.codec.bound, call.args, call.kwargs, fed) if task and known else None)
        return draft

    def _payload(self, call: OneCall, task: DeclaredTask | None, fed: bool, stable: bool) -> bytes:
        if task is None:
            return encode(call.kwargs, f"task {call.name}: the arguments", self._cap, stable=stable)
        if call.each:
            return task.codec.encode_each(map(list, call.args), self._cap, stable=stable)
        fields = task.codec.encode_rest if fed else task.codec.encode
        return fields(call.args, call.kwargs, self._cap, stable=stable)

    # -- calls

    async def submit(self, drafts: list[Draft], *, forget: bool = False) -> list[Handle[Any]]:
        """Bring calls to the store. Raises if one was refused, after all were sent.

        ``forget``: nobody waits for the answer, so what fails is logged and counted instead.
        """
        send: Submit = self._connections.own_client().sender.send
        if self._layers:
            send = around_enqueue(self._layers, send)
        try:
            return self._handles(drafts, await send(drafts))
        except Exception as error:
            if not forget:
                raise
            self.lost += len(drafts)
            log.error("lost %d fire-and-forget calls of %s: %r", len(drafts), drafts[0].task, error)
            return []

    def submit_here(self, drafts: list[Draft]) -> list[SyncHandle[Any]]:
        """The same for sync code: from this very thread where the store can be called from threads, and nobody's
        middleware wants a loop.
        """
        here = None if self._layers else self._connections.for_threads()
        if here is None:
            handles = self._connections.portal.call(lambda: self.submit(drafts))
        else:
            handles = self._handles(drafts, here.send(drafts))
        return [SyncHandle(handle) for handle in handles]

    def _handles(self, drafts: list[Draft], answers: list[Answer]) -> list[Handle[Any]]:
        handles: list[Handle[Any]] = []
        if len(drafts) != len(answers):
            raise ConfigError(f"enqueue middleware answered {len(answers)} times to {len(drafts)} calls")
        for draft, answer in zip(drafts, answers, strict=False):
            read = self._declared.reader(draft.task, "each" in draft.options)
            if answer.status is Accept.ACCEPTED:
                handles.append(Handle(self._connections, draft.id, read))
            elif answer.status in TAKEN:
                # Without a holder it is the same id again; one not chosen by the caller was only sent twice.
                existing = bool(answer.holder) or "id" in draft.options
                handles.append(Handle(self._connections, answer.holder or draft.id, read, existing))
            else:
                raise refusal(draft, answer)
        return handles

    def send(self, drafts: list[Draft]) -> None:
        """Hand drafts over without waiting for the store; failures are logged and counted."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            connections = self._connections
            if self._sender_lineage != lineage.number:
                # Only the first call waits, for the connection: a script that ends now could not open it any more.
                self._sender_lineage = lineage.number
                with contextlib.suppress(WindlassError):  # the call below meets the same error and counts it
                    connections.portal.call(connections.client)
            connections.portal.submit(lambda: self.submit(drafts, forget=True))
            return
        task = loop.create_task(self.submit(drafts, forget=True))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def finish(self) -> None:
        """Wait for what ``send`` was given on this loop."""
        loop = asyncio.get_running_loop()
        sending = [task for task in self._sending if task.get_loop() is loop]
        await asyncio.gather(*sending, return_exceptions=True)

    # -- workflows

    async def submit_work(self, work: Work[R]) -> Workflow[R]:
        """Accept a workflow, all of it or nothing. Enqueue middleware sees its calls like those of any enqueue."""
        plan = make_plan(self._app, work)
        send = partial(send_plan, self._connections, plan)
        return self._workflow(plan, work, await around_enqueue(self._layers, send)(plan.drafts))

    def submit_work_here(self, work: Work[R]) -> SyncWorkflow[R]:
        """The same for sync code."""
        # Planned on the caller's own thread: a large one would hold up everyone else on the portal's loop.
        plan = make_plan(self._app, work)
        send = partial(send_plan, self._connections, plan)
        answers = self._connections.portal.call(lambda: around_enqueue(self._layers, send)(plan.drafts))
        return self._workflow(plan, work, answers).sync

    def _workflow(self, plan: Plan, work: Work[R], answers: list[Answer]) -> Workflow[R]:
        raise_refusal(plan.graph.id, answers)
        return Workflow(self._connections, plan.graph.id, work.reader())

    async def show(self, plan: Plan) -> None:
        """Let enqueue middleware see the calls of a workflow that a running job becomes; its worker will send them."""
        mine = plan.drafts

        async def accept(drafts: list[Draft]) -> list[Answer]:
            check_same_calls(mine, drafts)
            return [Answer(Accept.ACCEPTED)] * max(len(drafts), 1)

        raise_refusal(plan.graph.id, await around_enqueue(self._layers, accept)(mine))

    def show_here(self, plan: Plan) -> None:
        """The same for sync code."""
        if self._layers:
            self._connections.portal.call(lambda: self.show(plan))
