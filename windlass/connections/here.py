"""From drafts to the store, from any thread: for engines that take jobs directly, without a hop to an event loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise

from windlass.connections.offers import Offer, any_full
from windlass.connections.sender import RESEND_SECONDS, Link, batches
from windlass.core.draft import Draft
from windlass.core.job import NewJob
from windlass.errors import StoreUnavailable
from windlass.store.answers import Answer
from windlass.store.base import Direct

log = logging.getLogger("windlass.client")


class Here:
    """A client whose store threads may call. ``send`` blocks its thread, and means what ``Sender.send`` does."""

    def __init__(self, link: Link, store: Direct) -> None:
        self._link, self._store = link, store

    def send(self, drafts: Sequence[Draft]) -> list[Answer]:
        """One answer per draft; what meets a full queue is sent again while its caller has time."""
        link = self._link
        jobs = [draft.to_job(link.source, link.plain_meta) for draft in drafts]
        if len(jobs) > 1 and len(parts := batches(jobs)) > 1:
            cut = accumulate(map(len, parts), initial=0)
            return [one for start, end in pairwise(cut) for one in self.send(drafts[start:end])]
        answers = self._insert(jobs)
        return self._send_again(drafts, answers) if any_full(answers) else answers

    def _send_again(self, drafts: Sequence[Draft], answers: list[Answer]) -> list[Answer]:
        link, offer = self._link, Offer(drafts, answers, time.monotonic())
        while again := offer.drafts:
            time.sleep(offer.pause(time.monotonic()))
            came = self._insert([draft.to_job(link.source, link.plain_meta) for draft in again])
            offer.answered(came, time.monotonic())
        return offer.answers

    def _insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """Once more when the reply was lost: the ids are ours, so what arrived is not accepted twice."""
        try:
            return self._store.insert_here(jobs)
        except StoreUnavailable as error:
            log.info("an enqueue failed, sending it again: %s", error)
            time.sleep(RESEND_SECONDS)
            return self._store.insert_here(jobs)
