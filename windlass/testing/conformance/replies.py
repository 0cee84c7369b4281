"""Lost replies: the same exchange again re-grants the same claims and applies nothing twice."""

from __future__ import annotations

import pytest

from windlass.core.job import Fence, State
from windlass.core.keep import Keep
from windlass.errors import StoreError
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench, MakeBench, move
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_NOW, SNOOZE


class LostReplyRules:
    """What the store answers a worker that did not hear the answer."""

    async def test_the_same_seq_grants_the_same_claims(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        first = await worker.exchange(want=2)
        assert await worker.resend() == first
        assert await worker.resend() == first
        assert [claim.id for claim in first.claims] == ["a", "b"]

    async def test_the_same_seq_grants_nothing_new(self, bench: Bench) -> None:
        worker = await bench.worker()
        assert await worker.claim(5) == []
        await bench.add("a")
        assert (await worker.resend()).claims == []
        assert (await bench.job("a")).epoch == 0

    async def test_no_move_is_applied_twice(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        first = await worker.exchange([move(claim, RETRY_NOW)], want=1)
        before = await bench.job("a")
        assert (await worker.resend()).claims == first.claims
        assert await bench.job("a") == before
        assert (before.attempt, before.epoch) == (1, 2)

    async def test_what_was_accepted_is_not_refused_when_sent_again(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.exchange([move(a, DONE), move(b, SNOOZE)])
        assert (await worker.resend()).refused == []

    async def test_the_refused_list_is_repeated(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        a, b = await worker.claim()
        wrong = move(a, DONE, fence=Fence(9, 9, 9))
        first = await worker.exchange([wrong, move(b, DONE)])
        again = await worker.resend()
        assert first.refused == again.refused == ["a"]

    async def test_the_refused_list_belongs_to_its_exchange(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        a = await worker.take("a")
        await worker.settle(a, DONE, fence=Fence(9, 9, 9))
        await worker.settle(a, DONE)
        assert (await worker.resend()).refused == []

    async def test_only_what_still_runs_is_granted_again(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        await worker.claim()
        await worker.beat(acked=1, held=["a", "c"])
        assert [claim.id for claim in (await worker.resend()).claims] == ["a", "c"]

    async def test_claims_of_earlier_exchanges_are_not_granted_again(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        await worker.take("b")
        assert [claim.id for claim in (await worker.resend()).claims] == ["b"]

    async def test_a_claim_granted_again_can_be_settled(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.lost_reply(want=1)
        [claim] = (await worker.resend()).claims
        assert (await worker.settle(claim, DONE)).refused == []
        assert await bench.state("a") == State.SUCCEEDED

    async def test_a_lower_seq_is_refused_and_does_nothing(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.exchange()
        worker.seq, worker.last = 1, ([move(claim, DONE)], worker.last[1])
        with pytest.raises(StoreError):
            await worker.resend()
        assert await bench.states("a", "b") == ["running", "ready"]

    async def test_a_seq_may_leave_out_numbers(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        worker.seq = 40
        claim = await worker.take("a")
        assert claim.seq == 41
        await worker.finish(claim)

    async def test_each_worker_counts_for_itself(self, bench: Bench) -> None:
        await bench.add("a", "b")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        a, b = await first.take("a"), await second.take("b")
        assert a.seq == b.seq == 1
        assert [claim.id for claim in (await first.resend()).claims] == ["a"]

    async def test_an_exchange_sent_again_is_no_event(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.exchange([move(claim, DEAD)], want=1)
        newest = await bench.newest()
        await worker.resend()
        assert await bench.newest() == newest

    async def test_an_exchange_sent_again_tells_nobody_twice(self, bench: Bench) -> None:
        await bench.add("a")
        worker, client = await bench.worker(), await bench.client()
        await bench.store.watch("client", ["a"])
        await worker.settle(await worker.take("a"), DONE)
        await worker.resend()
        await client.flush()
        assert [one.id for one in client.news] == ["a"]

    async def test_a_record_pruned_as_it_settled_is_not_refused_when_sent_again(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        assert (await worker.settle(claim, DONE)).refused == []
        assert (await worker.resend()).refused == []

    async def test_cancels_are_told_again(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        assert (await worker.exchange()).cancels == ["a"]
        assert (await worker.resend()).cancels == ["a"]

    async def test_a_worker_that_is_gone_is_told_so_again(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.store.leave("w1", crashed=True)
        again = await worker.resend()
        assert (again.gone, again.claims) == (True, [])
        assert await bench.state("a") == State.READY

    async def test_the_seq_is_remembered_with_the_data(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        first = await worker.exchange(want=1)
        worker.store = await bench.connect()
        assert await worker.resend() == first

    async def test_leave_and_beat_may_be_sent_again(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await worker.beat()
        assert (await worker.beat()).lost == []
        await bench.store.leave("w1", crashed=True)
        await bench.store.leave("w1", crashed=True)
        assert (await bench.job("a")).crashes == 1
