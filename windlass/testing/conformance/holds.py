"""What keeps a ready job: ``holds`` says where its lane waits and for what; ``queues`` and ``gates`` count lanes."""

from __future__ import annotations

from windlass.core.limits import Limits
from windlass.core.terms import Terms
from windlass.store.flow import Hold, HoldKind
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import Bench
from windlass.testing.conformance.gates import TASKS, a_second
from windlass.testing.conformance.lanes import add_lanes, key
from windlass.testing.conformance.outcomes import RETRY_LATER
from windlass.testing.conformance.resequence import add_numbers
from windlass.testing.conformance.solo import add_solo
from windlass.testing.conformance.strict import ordered


def lane(name: str, gate: str = "", ahead: int = 0, **fields: int | str) -> Hold:
    return Hold(kind=HoldKind.LANE, lane=name, gate=gate, ahead=ahead, **fields)  # type: ignore[arg-type]


class HoldRules:
    """The answer of ``holds``, case by case."""

    async def test_nothing_holds_what_is_in_the_plain_order_or_not_ready(self, bench: Bench) -> None:
        await bench.ended("over")
        await bench.add("run")
        worker = await bench.worker()
        await worker.take("run")
        await bench.add("plain")
        await bench.add("later", delay=1_000, **key("k"))
        assert await bench.store.holds(["over", "run", "plain", "later", "none"]) == [None] * 5

    async def test_the_answers_are_in_the_order_of_the_ids(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 2)
        found = await bench.store.holds(["b1", "none", "a0", "b0"])
        assert found == [lane("kb", ahead=1), None, lane("ka"), lane("kb")]
        assert await bench.store.holds([]) == []

    async def test_a_job_in_an_open_lane_waits_for_those_before_it(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3)
        await bench.add("first", priority=9, **key("a"))
        assert [await bench.hold(id) for id in ("first", "a0", "a2")] == [lane("ka", ahead=n) for n in (0, 1, 3)]

    async def test_a_paused_task(self, bench: Bench) -> None:
        await bench.add("a", "b")
        await bench.limit("task:t", paused=True)
        worker = await bench.worker()
        assert await worker.ids() == []
        assert [await bench.hold(id) for id in "ab"] == [lane("tt", "task:t", n) for n in (0, 1)]
        await bench.limit("task:t", paused=False)
        hold = await bench.hold("a")
        assert hold is None or hold == lane("tt")

    async def test_a_task_that_is_closed_for_a_while(self, bench: Bench) -> None:
        await bench.tune("task:t", closed_for=3_000)
        await bench.add("a")
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(1_000)
        assert await bench.hold("a") == lane("tt", "task:t", opens_in=2_000)

    async def test_a_full_limit(self, bench: Bench) -> None:
        await bench.limit("breaker:b", limit=1)
        await bench.add("a", "b", terms=Terms(breaker="b"))
        worker = await bench.worker()
        assert await worker.ids() == ["a"]
        assert await bench.hold("b") == lane("tt", "breaker:b")

    async def test_a_rate_says_when_it_opens(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second())
        await bench.add(*"abc")
        worker = await bench.worker()
        assert await worker.ids() == ["a"]
        bench.clock.advance(300)
        assert [await bench.hold(id) for id in "bc"] == [lane("tt", "task:t", n, opens_in=700) for n in (0, 1)]

    async def test_a_key_has_a_gate_of_its_own(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 2, key_limit=1)
        await bench.add("r0", "r1", **key("r", key_rate=a_second()))
        worker = await bench.worker()
        assert await worker.ids() == ["a0", "r0"]
        assert await bench.hold("a1") == lane("ka", "key:q:a")
        assert await bench.hold("r1") == lane("kr", "key:q:r", opens_in=1_000)

    async def test_the_first_closed_gate_is_named(self, bench: Bench) -> None:
        await bench.add("x", **key("k", key_limit=1))
        worker = await bench.worker()
        await worker.take("x")
        await bench.add("a", **key("k", key_limit=1, breaker="b"))
        for gate in ("task:t", "breaker:b"):
            await bench.limit(gate, paused=True)
        named = []
        for gate in ("task:t", "breaker:b", ""):
            assert await worker.ids() == []
            hold = await bench.hold("a")
            assert hold is not None
            named.append(hold.gate)
            if gate:
                await bench.limit(gate, paused=False)
        assert named == ["task:t", "breaker:b", "key:q:k"]

    async def test_a_paused_queue_holds_no_job_out_of_its_order(self, bench: Bench) -> None:
        await bench.limit("queue:q", paused=True)
        await bench.add("plain")
        await bench.add("a", **key("a"))
        worker = await bench.worker()
        assert await worker.ids() == []
        assert await bench.store.holds(["plain", "a"]) == [None, lane("ka")]

    async def test_a_lane_that_another_job_has(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        worker = await bench.worker()
        a = await worker.take("a")
        assert [await bench.hold(id) for id in "abc"] == [None, lane("ok", holder="a"), lane("ok", ahead=1, holder="a")]
        await worker.settle(a, RETRY_LATER)
        assert await bench.hold("b") == lane("ok", holder="a")
        bench.clock.advance(2_000)
        await bench.store.sweep()
        hold = await bench.hold("a")
        assert hold is not None
        assert (hold.lane, hold.ahead, hold.gate) == ("ok", 0, "")
        hold = await bench.hold("b")
        assert hold is not None
        assert hold.ahead == 1

    async def test_a_number_that_is_missing(self, bench: Bench) -> None:
        await add_numbers(bench, 3, 4, gap=5_000)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(1_000)
        assert await bench.hold("n3") == lane("sk", missing=1, opens_in=4_000)
        assert await bench.hold("n4") == lane("sk", missing=1, opens_in=4_000, ahead=1)
        await add_numbers(bench, 1, gap=5_000)
        await worker.finish(await worker.take("n1"))
        assert await worker.ids() == []
        assert await bench.hold("n3") == lane("sk", missing=2, opens_in=5_000)

    async def test_a_numbered_lane_that_another_job_has(self, bench: Bench) -> None:
        await add_numbers(bench, 1, 3)
        worker = await bench.worker()
        await worker.take("n1")
        hold = await bench.hold("n3")
        assert hold is not None
        assert (hold.lane, hold.holder) == ("sk", "n1")

    async def test_one_set_aside(self, bench: Bench) -> None:
        await bench.add("a", task="new")
        await bench.add("b", task="new", **key("k"))
        worker = await bench.worker()
        assert await worker.ids() == []
        assert [hold and hold.kind for hold in await bench.store.holds(["a", "b"])] == [HoldKind.ASIDE] * 2

    async def test_one_that_must_run_alone(self, bench: Bench) -> None:
        await bench.add("x", queue="x")
        busy = await bench.worker(queues=["x", "q"])
        await busy.take("x")
        await add_solo(bench)
        assert (await busy.exchange(want=5)).drain
        hold = await bench.hold("solo")
        assert hold is not None
        assert hold.kind is HoldKind.SOLO


class LaneCountRules:
    """How many lanes there are, and how many wait where."""

    async def test_a_queue_says_how_many_lanes_have_ready_jobs(self, bench: Bench) -> None:
        await bench.add("p")
        assert (await bench.queue()).lanes == 0
        await add_lanes(bench, "ab", 2)
        await bench.add("later", delay=1_000, **key("c"))
        assert (await bench.queue()).lanes == 2
        worker = await bench.worker()
        await worker.claim(10)
        assert (await bench.queue()).lanes == 0

    async def test_lanes_that_wait_are_counted_too(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await add_lanes(bench, "abc", 2)
        await bench.add("p")
        worker = await bench.worker()
        assert await worker.ids() == []
        assert (await bench.queue()).lanes == 4
        assert (await bench.gate("task:t")).waiting == 4
        await bench.change(Action.CANCEL, "a0", "a1")
        assert (await bench.queue()).lanes == 3
        assert (await bench.gate("task:t")).waiting == 3

    async def test_a_queue_says_what_holds_at_its_gate(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.tune("queue:q", declared=Limits(limit=3, rate=a_second()), tuned=Limits(limit=2, paused=True))
        assert (await bench.queue()).limits == Limits(limit=2, rate=a_second(), paused=True)
        await bench.add("x", queue="x")
        assert (await bench.queue("x")).limits == Limits()

    async def test_lanes_of_two_tasks_wait_each_at_its_gate(self, bench: Bench) -> None:
        for task in ("t", "u"):
            await bench.limit(f"task:{task}", limit=1)
            await bench.add(f"{task}0", f"{task}1", task=task)
            await bench.add(f"{task}k", task=task, **key(task))
        worker = await bench.worker(declares={**TASKS, "new": Declared()})
        assert sorted(await worker.ids()) == ["t0", "u0"]
        assert [info.waiting for info in await bench.store.gates(["task:t", "task:u"])] == [2, 2]
