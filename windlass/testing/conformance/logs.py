"""Logs: records that are appended, read in order and pruned, and never changed."""

from __future__ import annotations

import asyncio

import pytest

from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.items import ANY, Append, Commit, Committed, LogInfo, LogKeep, Record, StreamEnd, log_channel
from windlass.testing.conformance.bench import START, Bench

HOUR = 3_600_000


async def append(
    bench: Bench, stream: str, *bodies: bytes, expect: int = ANY, log: str = "l", store: Store | None = None
) -> Committed:
    new = Append(log=log, stream=stream, bodies=list(bodies), expect=expect)
    [done] = await (store or bench.store).commit([Commit(appends=[new])])
    return done


async def bodies(bench: Bench, stream: str | None = None, **bounds: int) -> list[bytes]:
    return [record.body for record in await bench.store.records("l", stream=stream, **bounds)]


async def info(bench: Bench, log: str = "l") -> LogInfo:
    [found] = await bench.store.logs([log])
    return found


async def swept(bench: Bench) -> None:
    while (await bench.store.sweep()).more:
        pass


class LogRules:
    """Appending and reading."""

    async def test_a_log_nobody_wrote_to_is_empty(self, bench: Bench) -> None:
        assert await bench.store.records("l") == []
        assert await bench.store.records("l", stream="s") == []
        assert await bench.store.logs() == []
        assert await bench.store.logs(["l"]) == [LogInfo(name="l", first=1, last=0, count=0, size=0)]

    async def test_records_are_numbered_in_their_log_and_in_their_stream(self, bench: Bench) -> None:
        first = await append(bench, "a", b"1", b"2")
        bench.clock.advance(10)
        second = await append(bench, "b", b"3")
        third = await append(bench, "a", b"4")
        assert [done.ends for done in (first, second, third)] == [
            [StreamEnd(2, 2)], [StreamEnd(1, 3)], [StreamEnd(3, 4)]
        ]  # fmt: skip
        assert await bench.store.records("l") == [
            Record(1, "a", 1, START, b"1"), Record(2, "a", 2, START, b"2"),
            Record(3, "b", 1, START + 10, b"3"), Record(4, "a", 3, START + 10, b"4"),
        ]  # fmt: skip

    async def test_a_stream_is_read_by_itself_and_by_its_own_numbers(self, bench: Bench) -> None:
        await append(bench, "a", b"1", b"2")
        await append(bench, "b", b"3")
        await append(bench, "a", b"4")
        assert await bodies(bench, "a") == [b"1", b"2", b"4"]
        assert await bodies(bench, "a", after=2) == [b"4"]
        assert await bodies(bench, "a", after=1, limit=1) == [b"2"]
        assert await bodies(bench, "b") == [b"3"]
        assert await bodies(bench, "c") == []

    async def test_logs_and_streams_are_apart_whatever_their_names(self, bench: Bench) -> None:
        names = ["l", "l:", "l:s", "ü日本", "it's; --", "a|b:c*d/e{x}", ""]
        for n, log in enumerate(names):
            for m, stream in enumerate(names):
                await append(bench, stream, b"%d-%d" % (n, m), log=log)
        for n, log in enumerate(names):
            for m, stream in enumerate(names):
                [record] = await bench.store.records(log, stream=stream)
                assert (record.body, record.position, record.n) == (b"%d-%d" % (n, m), m + 1, 1)
        assert [found.name for found in await bench.store.logs()] == sorted(names)

    async def test_the_length_expected_is_that_of_the_stream(self, bench: Bench) -> None:
        assert (await append(bench, "a", b"1", b"2", expect=0)).done
        await append(bench, "b", b"x")
        late = await append(bench, "a", b"3", expect=0)
        assert (late.done, late.ends) == (False, [StreamEnd(2)])
        assert (await append(bench, "a", b"3", expect=2)).ends == [StreamEnd(3, 4)]
        early = await append(bench, "a", b"4", expect=4)
        assert (early.done, early.ends) == (False, [StreamEnd(3)])
        assert await bodies(bench, "a") == [b"1", b"2", b"3"]

    async def test_appends_of_one_step_follow_one_another(self, bench: Bench) -> None:
        def new(stream: str, body: bytes, expect: int) -> Append:
            return Append(log="l", stream=stream, bodies=[body], expect=expect)

        [done] = await bench.store.commit([Commit(appends=[new("a", b"1", 0), new("b", b"2", 0), new("a", b"3", 1)])])
        assert (done.done, done.ends) == (True, [StreamEnd(1, 1), StreamEnd(1, 2), StreamEnd(2, 3)])
        [failed] = await bench.store.commit([Commit(appends=[new("a", b"4", 2), new("a", b"5", 2)])])
        assert (failed.done, failed.ends) == (False, [StreamEnd(2), StreamEnd(2)])
        assert await bodies(bench) == [b"1", b"2", b"3"]

    async def test_nothing_appended_only_looks_at_the_length(self, bench: Bench) -> None:
        await append(bench, "a", b"1")
        assert await append(bench, "a", expect=1) == Committed(done=True, ends=[StreamEnd(1)])
        assert not (await append(bench, "a", expect=2)).done
        assert (await info(bench)).last == 1

    async def test_pages_answer_all_of_it_once(self, bench: Bench) -> None:
        every = [b"%d" % n for n in range(50)]
        for n, body in enumerate(every):
            await append(bench, "ab"[n % 2], body)
        seen: list[Record] = []
        while page := await bench.store.records("l", after=seen[-1].position if seen else 0, limit=7):
            seen += page
        assert [record.body for record in seen] == every
        assert [record.position for record in seen] == list(range(1, 51))
        odd: list[Record] = []
        while page := await bench.store.records("l", after=odd[-1].n if odd else 0, limit=7, stream="b"):
            odd += page
        assert [record.body for record in odd] == every[1::2]

    async def test_a_page_of_a_log_has_at_most_the_largest_batch(self, bench: Bench) -> None:
        for _ in range(2):
            await append(bench, "a", *[b"x"] * MAX_BATCH)
        for stream in (None, "a"):
            page = await bench.store.records("l", limit=10 * MAX_BATCH, stream=stream)
            assert 0 < len(page) <= MAX_BATCH
            assert page[0].position == 1

    async def test_a_thousand_records_go_in_one_call_and_more_do_not(self, bench: Bench) -> None:
        assert (await append(bench, "a", *[b"%d" % n for n in range(MAX_BATCH)])).ends == [StreamEnd(1_000, 1_000)]
        with pytest.raises(StoreError):
            await append(bench, "a", *[b"x"] * (MAX_BATCH + 1))
        assert (await info(bench)).last == MAX_BATCH

    async def test_large_records_come_in_pages_and_all_of_them(self, bench: Bench) -> None:
        large = bytes(range(256)) * 4_096
        for n in range(12):
            await append(bench, "a", large + b"%d" % n)
        seen: list[Record] = []
        while page := await bench.store.records("l", after=seen[-1].position if seen else 0):
            seen += page
        assert [record.body == large + b"%d" % n for n, record in enumerate(seen)] == [True] * 12

    async def test_reading_begins_at_a_time(self, bench: Bench) -> None:
        for n in range(20):
            await append(bench, "ab"[n % 2], b"%d" % n)
            bench.clock.advance(100)
        assert await bodies(bench, since=START + 1_500) == [b"15", b"16", b"17", b"18", b"19"]
        assert await bodies(bench, since=START + 1_401, limit=2) == [b"15", b"16"]
        assert await bodies(bench, "a", since=START + 1_500) == [b"16", b"18"]
        assert await bodies(bench, after=17, since=START + 1_500) == [b"17", b"18", b"19"]
        assert await bodies(bench, since=START + 100_000) == []
        assert len(await bodies(bench, since=1)) == 20

    async def test_times_never_run_backwards(self, bench: Bench) -> None:
        await append(bench, "a", b"1")
        bench.clock.advance(-60_000)
        await append(bench, "a", b"2")
        bench.clock.advance(HOUR)
        await append(bench, "a", b"3")
        times = [record.at for record in await bench.store.records("l")]
        assert times == sorted(times)

    async def test_any_bytes_are_kept_in_a_log(self, bench: Bench) -> None:
        every = [b"", b"\x00", bytes(range(256)), b"null", "日本".encode()]
        await append(bench, "a", *every)
        assert await bodies(bench) == every
        assert (await info(bench)).size == sum(map(len, every))

    async def test_another_connection_reads_what_one_wrote(self, bench: Bench) -> None:
        other = await bench.connect()
        await append(bench, "a", b"1")
        assert (await append(bench, "a", b"2", expect=1, store=other)).done
        assert await other.records("l") == await bench.store.records("l")
        assert await bodies(bench) == [b"1", b"2"]

    async def test_of_many_that_expect_the_same_one_appends(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 4
        done = await asyncio.gather(
            *[append(bench, "a", b"%d" % n, expect=0, store=store) for n, store in enumerate(stores)]
        )
        assert sum(one.done for one in done) == 1
        assert (await info(bench)).count == 1

    async def test_nothing_appears_below_what_was_read(self, bench: Bench) -> None:
        """A reader that goes on behind the last position it saw misses nothing, however many write meanwhile."""
        stores = [await bench.connect() for _ in range(3)]
        writing = [
            asyncio.ensure_future(append(bench, f"{n}-{m}", b"x", store=store))
            for m in range(20) for n, store in enumerate(stores)
        ]  # fmt: skip
        seen: list[int] = []
        while len(seen) < len(writing):
            seen += [record.position for record in await bench.store.records("l", after=seen[-1] if seen else 0)]
            await asyncio.sleep(0)
        await asyncio.gather(*writing)
        assert seen == list(range(1, len(writing) + 1))

    async def test_logs_are_no_events_and_wake_no_worker(self, bench: Bench) -> None:
        hand = await bench.worker()
        assert not await hand.claim(1)
        newest = await bench.newest()
        await append(bench, "a", b"1")
        assert await bench.newest() == newest
        await hand.mail.flush()
        assert hand.mail.wakes == 0


class LogReaderRules:
    """Being woken by an append."""

    async def test_a_watcher_of_a_log_is_woken_by_every_append(self, bench: Bench) -> None:
        client = await bench.client()
        reply = await bench.store.watch("client", [log_channel("l")])
        assert (reply.finished, reply.missing) == ([], [])
        await append(bench, "a", b"1")
        await client.woken(1)
        await append(bench, "b", b"2", store=await bench.connect())
        await client.woken(2)

    async def test_a_log_that_is_only_watched_is_not_there(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.store.watch("client", [log_channel("l")])
        await append(bench, "a")
        assert await bench.store.logs() == []
        await append(bench, "a", b"1")
        await client.woken(1)

    async def test_other_logs_and_failed_steps_wake_nobody(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.store.watch("client", [log_channel("l")])
        await append(bench, "a", b"1", log="other")
        await append(bench, "a", b"1", expect=7)
        await append(bench, "a")
        await client.flush()
        assert client.wakes == 0

    @pytest.mark.parametrize("every", [False, True])
    async def test_who_stops_watching_is_not_woken(self, bench: Bench, every: bool) -> None:
        client = await bench.client()
        await bench.store.watch("client", [log_channel("l")])
        await bench.store.unwatch("client", None if every else [log_channel("l")])
        await append(bench, "a", b"1")
        await client.flush()
        assert client.wakes == 0

    async def test_who_stops_listening_stops_watching(self, bench: Bench) -> None:
        await bench.client()
        await bench.store.watch("client", [log_channel("l")])
        await bench.store.unlisten("client")
        client = await bench.client()
        await append(bench, "a", b"1")
        await client.flush()
        assert client.wakes == 0


class LogKeepRules:
    """What stays of a log."""

    async def test_everything_stays_unless_something_else_is_said(self, bench: Bench) -> None:
        await append(bench, "a", *[b"x"] * 500)
        bench.clock.advance(1_000 * HOUR)
        await swept(bench)
        assert (await info(bench)).count == 500
        assert (await bench.store.sweep()).next_check == -1

    async def test_no_more_stay_than_are_kept(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(count=10))
        for n in range(30):
            await append(bench, "ab"[n % 2], b"%d" % n)
        await swept(bench)
        assert await bodies(bench) == [b"%d" % n for n in range(20, 30)]
        found = await info(bench)
        assert (found.first, found.last, found.count, found.size, found.keep) == (21, 30, 10, 20, LogKeep(count=10))

    async def test_a_log_is_as_large_as_it_may_be(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(size=100))
        for n in range(30):
            await append(bench, "a", b"%010d" % n)
        await swept(bench)
        assert [int(body) for body in await bodies(bench)] == list(range(20, 30))
        assert (await info(bench)).size == 100

    async def test_old_records_go_by_themselves(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(age=HOUR))
        await append(bench, "a", b"1")
        bench.clock.advance(HOUR // 2)
        await append(bench, "a", b"2")
        assert 0 <= (await bench.store.sweep()).next_check <= HOUR // 2
        bench.clock.advance(HOUR // 2)
        await swept(bench)
        assert await bodies(bench) == [b"2"]
        bench.clock.advance(HOUR // 2)
        await swept(bench)
        assert await bodies(bench) == []
        assert (await bench.store.sweep()).next_check == -1

    async def test_what_is_too_much_goes_also_when_that_is_said_later(self, bench: Bench) -> None:
        for _ in range(3):
            await append(bench, "a", *[b"x"] * MAX_BATCH)
        await bench.store.retain("l", LogKeep(count=5))
        await swept(bench)
        assert (await info(bench)).count == 5

    async def test_a_reader_sees_that_something_is_gone(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(count=2))
        await append(bench, "a", b"1", b"2", b"3", b"4")
        await swept(bench)
        [first, _] = await bench.store.records("l", after=1)
        assert (first.position, first.n, (await info(bench)).first) == (3, 3, 3)
        assert [record.n for record in await bench.store.records("l", stream="a", after=1)] == [3, 4]
        assert await bodies(bench, after=3) == [b"4"]

    async def test_a_stream_keeps_its_length_while_some_of_it_is_kept(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(count=2))
        await append(bench, "a", b"1", b"2", b"3")
        await swept(bench)
        assert not (await append(bench, "a", b"4", expect=2)).done
        assert (await append(bench, "a", b"4", expect=3)).ends == [StreamEnd(4, 4)]

    async def test_a_stream_of_which_nothing_is_kept_is_forgotten_and_the_log_is_not(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(count=1))
        await append(bench, "a", b"1", b"2")
        await append(bench, "b", b"3")
        await swept(bench)
        assert await bodies(bench, "a") == []
        assert (await append(bench, "a", b"4", expect=0)).ends == [StreamEnd(1, 4)]
        await swept(bench)
        assert await bench.store.records("l") == [Record(4, "a", 1, START, b"4")]

    async def test_an_emptied_log_goes_on_counting(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(age=HOUR))
        await append(bench, "a", b"1", b"2")
        bench.clock.advance(HOUR)
        await swept(bench)
        found = await info(bench)
        assert (found.first, found.last, found.count, found.size) == (3, 2, 0, 0)
        assert (await append(bench, "b", b"3")).ends == [StreamEnd(1, 3)]

    async def test_what_is_said_of_one_log_concerns_no_other(self, bench: Bench) -> None:
        await bench.store.retain("l", LogKeep(count=1))
        await append(bench, "a", b"1", b"2")
        await append(bench, "a", b"1", b"2", log="other")
        await swept(bench)
        assert [(found.name, found.count) for found in await bench.store.logs()] == [("l", 1), ("other", 2)]
