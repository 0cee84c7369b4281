"""A draft: one call of a task, checked and encoded, on its way to become a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.core.flow_rules import Asked, make_terms, quiet_time
from windlass.core.job import Meta, NewJob
from windlass.core.options import Resolved, pack_call
from windlass.core.tags import make_tags
from windlass.core.terms import Terms
from windlass.errors import ConfigError

Bind = Callable[[], dict[str, Any]]
"""Gives the arguments of a call by name, with defaults."""


class Draft(msgspec.Struct, kw_only=True, gc=False):
    """One call, validated and not yet sent. Enqueue middleware may change it."""

    id: str
    task: str
    payload: bytes
    resolved: Resolved
    version: int = 1
    delay: int = 0
    at: int = 0
    correlation_id: str = ""
    headers: dict[str, str] = {}
    options: Mapping[str, Any] = {}
    terms: Terms | None = None
    tags: tuple[str, ...] = ()

    def to_job(self, source: str, plain_meta: bytes) -> NewJob:
        """The record; ``plain_meta`` is the ready-made encoding for calls with nothing special."""
        rules = self.resolved
        if self.headers or self.correlation_id or self.options or self.tags:
            meta = Meta(source, self.correlation_id, self.headers, pack_call(self.options), self.tags).encode()
        else:
            meta = plain_meta
        return NewJob(
            id=self.id, task=self.task, queue=rules.queue, payload=self.payload, meta=meta, version=self.version,
            priority=rules.priority, delay=self.delay, at=self.at, expires_in=rules.expires_in,
            expires_at=rules.expires_at, expire_to=rules.expire_to, max_crashes=rules.max_crashes,
            keep_done=rules.keep_done, keep_failed=rules.keep_failed, terms=self.terms,
        )  # fmt: skip


def set_what_follows(draft: Draft, bind: Bind | None) -> None:
    """Work out what a draft's options make of its arguments: its tags and terms. ``bind``: None where nobody knows
    the arguments here; its tags are then only those that are written out.
    """
    rules = draft.resolved
    draft.tags = make_tags(rules.tags, rules.search, bind() if rules.search and bind is not None else {})
    if rules.flow is None:
        return
    draft.terms = make_terms(rules.flow, Asked(draft.task, draft.payload, bind))
    quiet = quiet_time(rules.flow, draft.terms)
    if quiet:
        if draft.at:
            raise ConfigError(f"task {draft.task}: a debounced call is delayed by unique_for=; it takes no at=")
        draft.delay = draft.delay or quiet


def needs_stable(options: Mapping[str, Any]) -> bool:
    """Whether a call's payload is compared with that of others: equal arguments must be equal bytes then."""
    return "id" in options or options.get("unique") is True
