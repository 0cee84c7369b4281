"""Waiting for jobs: nothing is missed between asking and ending, and nobody is told twice."""

from __future__ import annotations

import pytest

from windlass.core.job import Finished, State
from windlass.core.lifecycle import Outcome, Succeeded
from windlass.store.jobs import EVERY_EVENT, INLINE_MAX, Action
from windlass.testing.conformance.bench import LEASE, Bench, move
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_NOW, STOPPED


async def end(bench: Bench, *ids: str, outcome: Outcome = DONE) -> None:
    """Jobs inserted before are run and settled in one exchange."""
    worker = await bench.worker(f"ending-{'-'.join(ids)}")
    claims = {claim.id: claim for claim in await worker.claim()}
    await worker.exchange([move(claims[id], outcome) for id in ids])
    await bench.store.leave(worker.id)


class WatchRules:
    """``watch``, ``unwatch``, ``listen`` and ``unlisten``."""

    async def test_what_is_over_is_answered(self, bench: Bench) -> None:
        await bench.ended("s", Succeeded(b"[1]"))
        failed = await bench.ended("f", DEAD)
        await bench.ended("c", STOPPED)
        await bench.client()
        reply = await bench.store.watch("client", ["s", "f", "c"])
        assert reply.finished == [
            Finished("s", State.SUCCEEDED, b"[1]"),
            Finished("f", State.FAILED, None, failed.error, "no retries left"),
            Finished("c", State.CANCELLED, reason="as asked"),
        ]
        assert reply.missing == []

    async def test_what_was_answered_is_not_told_again(self, bench: Bench) -> None:
        await bench.ended("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await bench.change(Action.DELETE, "a")
        await client.flush()
        assert client.news == []

    async def test_what_is_not_over_is_told_when_it_ends(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        reply = await bench.store.watch("client", ["a"])
        assert (reply.finished, reply.missing) == ([], [])
        await end(bench, "a", outcome=Succeeded(b'{"n":2}'))
        assert await client.told("a") == [Finished("a", State.SUCCEEDED, b'{"n":2}')]

    async def test_failure_is_told_with_error_and_reason(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await end(bench, "a", outcome=DEAD)
        job = await bench.job("a")
        assert await client.told("a") == [Finished("a", State.FAILED, None, job.error, "no retries left")]

    async def test_unknown_ids_are_missing(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.client()
        reply = await bench.store.watch("client", ["never", "a", "nor this"])
        assert (reply.finished, reply.missing) == ([], ["never", "nor this"])

    async def test_a_missing_id_is_not_watched(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await bench.add("a")
        await bench.change(Action.CANCEL, "a")
        await client.flush()
        assert client.news == []

    async def test_a_deleted_job_is_told_as_gone(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await bench.change(Action.DELETE, "a")
        [news] = await client.told("a")
        assert (news.state, news.result) == (None, None)

    async def test_a_cancelled_job_is_told(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await bench.change(Action.CANCEL, "a", reason="why not")
        assert await client.told("a") == [Finished("a", State.CANCELLED, reason="why not")]

    @pytest.mark.parametrize("outcome", [DONE, DEAD, STOPPED, None], ids=["success", "failure", "stop", "cancel"])
    async def test_who_is_told_hears_what_one_who_asks_later_is_answered(
        self, bench: Bench, outcome: Outcome | None
    ) -> None:
        await bench.ended("a", RETRY_NOW)
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        if outcome:
            await end(bench, "a", outcome=outcome)
        else:
            await bench.change(Action.CANCEL, "a", reason="enough")
        told = await client.told("a")
        assert told == (await bench.store.watch("client", ["a"])).finished

    async def test_a_quarantined_job_is_told(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["a"])
        await worker.take("a")
        await bench.passes(LEASE + 1)
        [news] = await client.told("a")
        assert (news.state, news.reason) == (State.FAILED, "lease lost")

    async def test_everyone_who_watches_is_told(self, bench: Bench) -> None:
        await bench.add("a")
        first, second = await bench.client("c1"), await bench.client("c2")
        for name in ("c1", "c2"):
            await bench.store.watch(name, ["a"])
        await end(bench, "a")
        assert await first.told("a") == await second.told("a")

    async def test_an_exchange_sends_one_message_per_client(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        first, second = await bench.client("c1"), await bench.client("c2")
        await bench.store.watch("c1", ["a", "b", "c"])
        await bench.store.watch("c2", ["b"])
        await end(bench, "a", "b", "c")
        await first.told("a", "b", "c")
        await second.told("b")
        assert [len(batch) for batch in first.messages] == [3]
        assert [[one.id for one in batch] for batch in second.messages] == [["b"]]

    async def test_watching_twice_tells_once(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a", "a"])
        await bench.store.watch("client", ["a"])
        await end(bench, "a")
        await client.flush()
        assert [one.id for one in client.news] == ["a"]

    async def test_only_the_end_is_told(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await end(bench, "a", outcome=RETRY_NOW)
        await bench.crash("a")
        await client.flush()
        assert client.news == []
        await end(bench, "a")
        assert [one.state for one in await client.told("a")] == [State.SUCCEEDED]

    async def test_a_watch_ends_with_the_run_it_was_for(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await end(bench, "a", outcome=DEAD)
        await bench.change(Action.RETRY, "a")
        await end(bench, "a")
        await client.flush()
        assert [one.state for one in client.news] == [State.FAILED]

    async def test_a_replayed_job_can_be_watched_again(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.change(Action.RETRY, "a")
        client = await bench.client()
        assert (await bench.store.watch("client", ["a"])).finished == []
        await end(bench, "a")
        assert [one.state for one in await client.told("a")] == [State.SUCCEEDED]

    async def test_a_result_up_to_the_bound_is_sent_along(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await end(bench, "a", outcome=Succeeded(b"x" * INLINE_MAX))
        [news] = await client.told("a")
        assert (news.inline, len(news.result or b"")) == (True, INLINE_MAX)

    async def test_a_larger_result_is_announced_and_fetched(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client()
        await bench.store.watch("client", ["a"])
        await end(bench, "a", outcome=Succeeded(b"x" * (INLINE_MAX + 1)))
        assert await client.told("a") == [Finished("a", State.SUCCEEDED, inline=False)]
        assert len((await bench.job("a")).result or b"") == INLINE_MAX + 1

    async def test_many_large_results_in_one_message_all_arrive(self, bench: Bench) -> None:
        ids = [f"j{n}" for n in range(40)]
        await bench.add(*ids)
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ids)
        claims = await worker.claim(40)
        await worker.exchange([move(claim, Succeeded(b"x" * (INLINE_MAX - 1))) for claim in claims])
        news = await client.told(*ids)
        assert [(one.id, one.state) for one in news] == [(id, State.SUCCEEDED) for id in ids]

    async def test_unwatch_forgets_what_it_names(self, bench: Bench) -> None:
        await bench.add("a", "b")
        client = await bench.client()
        await bench.store.watch("client", ["a", "b"])
        await bench.store.unwatch("client", ["a", "never"])
        await end(bench, "a", "b")
        await client.told("b")
        await client.flush()
        assert [one.id for one in client.news] == ["b"]

    async def test_unwatch_forgets_everything_if_it_names_nothing(self, bench: Bench) -> None:
        await bench.add("a", "b")
        client, other = await bench.client(), await bench.client("other")
        await bench.store.watch("client", ["a", "b"])
        await bench.store.watch("other", ["a"])
        await bench.store.unwatch("client")
        await end(bench, "a", "b")
        await other.told("a")
        await client.flush()
        assert client.news == []

    async def test_unlisten_forgets_the_names_watches(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.client()
        await bench.store.watch("client", ["a"])
        await bench.store.unlisten("client")
        again = await bench.client()
        await end(bench, "a")
        await again.flush()
        assert again.news == []

    async def test_unlisten_stops_the_news(self, bench: Bench) -> None:
        await bench.add("a")
        client, other = await bench.client(), await bench.client("other")
        for name in ("client", "other"):
            await bench.store.watch(name, ["a"])
        await bench.store.unlisten("client")
        await end(bench, "a")
        await other.told("a")
        await other.flush()
        assert client.messages == []

    async def test_unlistening_twice_is_harmless(self, bench: Bench) -> None:
        await bench.client()
        await bench.store.unlisten("client")
        await bench.store.unlisten("client")
        await bench.store.unlisten("never listened")

    async def test_news_reach_a_client_on_another_connection(self, bench: Bench) -> None:
        await bench.add("a")
        client = await bench.client(store=await bench.connect())
        await client.store.watch("client", ["a"])
        await end(bench, "a")
        assert [one.id for one in await client.told("a")] == ["a"]

    async def test_a_client_that_went_away_harms_nobody(self, bench: Bench) -> None:
        await bench.add("a")
        client, other = await bench.client(), await bench.connect()
        await other.listen("vanished", lambda batch: None)
        for name in ("client", "vanished"):
            await bench.store.watch(name, ["a"])
        await other.close()
        await end(bench, "a")
        assert [one.id for one in await client.told("a")] == ["a"]

    async def test_every_event_wakes_who_follows_them(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.store.watch("client", [EVERY_EVENT])
        await bench.add("a")
        await client.woken(1)
        await bench.change(Action.CANCEL, "a")
        await client.woken(2)
        assert client.news == []

    async def test_events_are_no_longer_followed_after_unwatch(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.store.watch("client", [EVERY_EVENT])
        await bench.store.unwatch("client", [EVERY_EVENT])
        await bench.add("a")
        await client.flush()
        assert client.wakes == 0
