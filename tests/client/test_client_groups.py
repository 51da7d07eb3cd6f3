"""Being a member: joining, sharing, giving up, leaving, in both protocols, on a real broker."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from bench.brokers import Broker
from consumer_tools import (
    add_partitions,
    create_topic,
    delete_topic,
    filled,
    numbers,
    produce,
    run,
    take,
)
from group_tools import PROTOCOLS, Crew, Member, crew, everything, shared, until

from ottla.client.consumer.groups.rebalance_listener import RebalanceListener
from ottla.client.errors import CommitFailed
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

both_protocols = pytest.mark.parametrize("protocol", ["eager", "cooperative", "new"])


@pytest.fixture
def bootstrap(group_broker: Broker) -> str:
    return group_broker.address


@both_protocols
def test_members_share_the_partitions_and_every_record_is_read_once_while_they_come_and_go(
    protocol: str, bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 300, partitions=6)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            await _come_and_go(group, bootstrap, topic)

    run(main)


async def _come_and_go(group: Crew, bootstrap: str, topic: str) -> None:
    """With records arriving all the time; auto-commit keeps the books."""
    written = 300

    async def write() -> None:
        nonlocal written
        while True:
            batch = numbers(written + 60, written)
            await asyncio.to_thread(produce, bootstrap, topic, batch, partitions=6)
            written += 60

    writing = asyncio.create_task(write())
    first = await group.join()
    await until(shared(6, first))
    second = await group.join()
    await until(shared(6, first, second))
    third = await group.join()
    await until(shared(6, first, second, third))
    await first.leave()
    await until(shared(6, second, third))
    await second.leave()
    await until(shared(6, third))
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    await asyncio.sleep(0.5)  # what was under way in the thread
    total = max(everything(*group.members)) + 1
    await until(lambda: len(everything(*group.members)) >= total)
    assert everything(*group.members) == [*range(total)]


@both_protocols
def test_the_listener_is_told_what_comes_and_goes(
    protocol: str, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 4)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            first = await group.join()
            await until(shared(4, first))
            second = await group.join()
            await until(shared(4, first, second))
            kept = first.owned
            await second.leave()
            await until(shared(4, first))
            _check_diary(protocol, first, kept)
            assert second.diary.told("revoked") == second.diary.told("assigned")
            assert not first.diary.told("lost")
            assert not second.diary.told("lost")

    run(main)


def _check_diary(protocol: str, member: Member, kept: list[int]) -> None:
    moved = [index for index in range(4) if index not in kept]
    if protocol == "eager":
        assert member.diary.told("assigned") == [[0, 1, 2, 3], kept, [0, 1, 2, 3]]
        assert member.diary.told("revoked") == [[0, 1, 2, 3], kept]
    else:
        assert member.diary.told("assigned") == [[0, 1, 2, 3], moved]
        assert member.diary.told("revoked") == [moved]


@both_protocols
def test_a_listener_may_be_async_and_what_it_raises_comes_out_of_poll(
    protocol: str, bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 10, partitions=2)

    class Broken(RebalanceListener):
        async def on_partitions_assigned(self, partitions: Any) -> None:
            await asyncio.sleep(0)
            if partitions:
                raise ZeroDivisionError("in the listener")

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            consumer = group.make("").consumer
            consumer.subscribe([topic], listener=Broken())
            await consumer.start()
            with pytest.raises(ZeroDivisionError):
                await take(consumer, 1)
            assert len(await take(consumer, 10)) == 10  # it goes on all the same

    run(main)


@both_protocols
def test_the_listener_may_seek_and_commit(protocol: str, bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 20, partitions=1)
    place = TopicPartition(topic, 0)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], enable_auto_commit=False) as group:
            consumer = group.make("").consumer

            class Bookkeeper(RebalanceListener):
                def on_partitions_assigned(self, partitions: Any) -> None:
                    for one in partitions:
                        consumer.seek(one, 5)

                async def on_partitions_revoked(self, partitions: Any) -> None:
                    await consumer.commit()

            consumer.subscribe([topic], listener=Bookkeeper())
            await consumer.start()
            records = await take(consumer, 10)
            assert [record.offset for record in records] == [*range(5, 15)]
            await consumer.close()
            other = await group.join()
            await until(lambda: len(other.values) == 5)
            assert (await other.consumer.committed([place]))[place] is not None

    run(main)


@both_protocols
def test_a_record_in_hand_is_not_committed_by_auto_commit(
    protocol: str, bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 10)
    place = TopicPartition(topic, 0)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member = group.make()
            await member.consumer.start()
            async for record in member.consumer:
                if record.offset == 6:
                    break
            await asyncio.sleep(0.3)
            await member.consumer.poll(0, max_records=1)  # now the seventh is done with
            await until(lambda: _is_committed(member, place, 7))
            await member.die()
            heir = await group.join()
            await until(lambda: heir.values[-1:] == [b"9"])
            assert heir.values == [b"7", b"8", b"9"]

    run(main)


async def _is_committed(member: Member, place: TopicPartition, offset: int) -> bool:
    found = (await member.consumer.committed([place]))[place]
    return found is not None and found.offset == offset


@both_protocols
def test_partitions_of_a_member_that_dies_go_to_the_others(
    protocol: str, bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 40, partitions=4)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            first, second = await group.join(), await group.join()
            await until(shared(4, first, second))
            await first.die()
            await until(shared(4, second))
            await until(lambda: set(everything(*group.members)) == {*range(40)})
            assert not second.diary.told("lost")

    run(main)


@both_protocols
def test_an_application_that_stays_away_too_long_loses_its_partitions_and_comes_back(
    protocol: str, bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(bootstrap, topic, 4, partitions=4)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol], enable_auto_commit=False) as group:
            slow = await group.join(max_poll_interval_ms=1_000)
            await until(lambda: len(slow.values) == 4)
            other = await group.join()
            await until(shared(4, slow, other))
            await slow.rest()
            await until(shared(4, other))
            with pytest.raises(CommitFailed):
                await slow.consumer.commit()
            owned = slow.owned
            slow.go()
            await until(shared(4, slow, other))
            assert slow.diary.told("lost") == [owned]

    with caplog.at_level(logging.WARNING, logger="ottla.client.group"):
        run(main)
    (line,) = [one.getMessage() for one in caplog.records if "max_poll" in one.getMessage()]
    assert "max_poll_interval_ms=1000" in line
    assert "max_poll_records" in line


@both_protocols
def test_an_application_that_waits_for_records_is_not_away(
    protocol: str, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member = group.make(max_poll_interval_ms=500)
            await member.consumer.start()
            waiting = asyncio.create_task(member.consumer.getone())
            await asyncio.sleep(2)
            await asyncio.to_thread(produce, bootstrap, topic, [b"there"])
            assert (await waiting).value == b"there"
            assert not member.diary.told("lost")

    run(main)


@both_protocols
def test_close_leaves_the_group_at_once(protocol: str, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            patient = {} if protocol == "new" else {"session_timeout_ms": 30_000}
            first = await group.join(**patient)
            await until(shared(2, first))
            await first.leave()
            second = await group.join(**patient)
            await until(shared(2, second), wait_s=5)

    run(main)


@both_protocols
def test_a_member_may_unsubscribe_and_subscribe_to_something_else(
    protocol: str, bootstrap: str, topic: str
) -> None:
    other_topic = f"{topic}.other"
    filled(bootstrap, topic, 4, partitions=2)
    filled(bootstrap, other_topic, 3, partitions=1)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member, witness = group.make(), group.make()
            await member.consumer.start()
            await take(member.consumer, 4)
            await member.consumer.unsubscribe()
            assert member.diary.told("revoked") == [[0, 1]]
            assert not member.consumer.assignment()
            await witness.consumer.start()
            witness.go()
            await until(shared(2, witness))
            member.consumer.subscribe([other_topic], listener=member.diary)
            assert len(await take(member.consumer, 3)) == 3
            assert shared(2, witness)()

    run(main)


@both_protocols
def test_a_subscription_may_change_while_the_member_stays(
    protocol: str, bootstrap: str, topic: str
) -> None:
    other_topic = f"{topic}.other"
    filled(bootstrap, topic, 4, partitions=1)
    filled(bootstrap, other_topic, 3, partitions=1)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member = await group.join()
            await until(lambda: len(member.values) == 4)
            member.consumer.subscribe([topic, other_topic], listener=member.diary)
            await until(lambda: len(member.values) == 7)
            member.consumer.subscribe([other_topic], listener=member.diary)
            place = TopicPartition(other_topic, 0)
            await until(lambda: member.consumer.assignment() == {place})
            assert member.failure is None

    run(main)


@both_protocols
def test_added_partitions_are_found_and_read(protocol: str, bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 4, partitions=2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            first, second = await group.join(), await group.join()
            await until(shared(2, first, second))
            await asyncio.to_thread(add_partitions, bootstrap, topic, 4)
            await until(shared(4, first, second))
            more = numbers(12, 4)
            await asyncio.to_thread(produce, bootstrap, topic, more, partitions=4)
            await until(lambda: everything(first, second) == [*range(12)])

    run(main)


@both_protocols
def test_a_pattern_finds_topics_that_come_and_forgets_those_that_go(
    protocol: str, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, f"{topic}.a", 1)
    create_topic(bootstrap, f"other.{topic}.a", 1)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            member = group.make("")
            pattern = re.compile(re.escape(topic) + r"\.[a-z]")
            member.consumer.subscribe(pattern=pattern, listener=member.diary)
            await _follow_topics(member, bootstrap, topic)

    run(main)


async def _follow_topics(member: Member, bootstrap: str, topic: str) -> None:
    def topics() -> set[str]:
        return {one.topic for one in member.consumer.assignment()}

    await member.consumer.start()
    member.go()
    await until(lambda: topics() == {f"{topic}.a"})
    await asyncio.to_thread(create_topic, bootstrap, f"{topic}.b", 1)
    await asyncio.to_thread(create_topic, bootstrap, f"{topic}.bb", 1)
    await until(lambda: topics() == {f"{topic}.a", f"{topic}.b"})
    await asyncio.to_thread(delete_topic, bootstrap, f"{topic}.a")
    await until(lambda: topics() == {f"{topic}.b"})
    assert member.failure is None


def test_a_pattern_given_as_text_is_matched_by_the_coordinator(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, f"{topic}.a", 1)
    create_topic(bootstrap, f"other.{topic}.a", 1)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["new"]) as group:
            member = group.make("")
            member.consumer.subscribe(pattern=re.escape(topic) + r"\.[a-z]", listener=member.diary)
            await _follow_topics(member, bootstrap, topic)

    run(main)


def test_enforce_rebalance_lets_a_classic_group_share_out_anew(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["eager"]) as group:
            member = await group.join()
            await until(shared(2, member))
            before = member.consumer.group_metadata().generation_id
            member.consumer.enforce_rebalance("because")
            await until(lambda: member.consumer.group_metadata().generation_id > before)
            await until(shared(2, member))

    run(main)


def test_polls_that_never_wait_get_into_the_group_too(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["cooperative"]) as group:
            consumer = group.make().consumer
            await consumer.start()
            found = 0
            for _ in range(10_000):
                found += sum(map(len, (await consumer.poll(timeout_ms=0)).values()))
                if found == 2:
                    break
                await asyncio.sleep(0.001)
            assert found == 2

    run(main)


@both_protocols
def test_polls_that_are_cancelled_at_any_moment_break_nothing(
    protocol: str, bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 60, partitions=6)

    class Slow(RebalanceListener):
        async def on_partitions_revoked(self, partitions: Any) -> None:
            await asyncio.sleep(0.01)

        async def on_partitions_assigned(self, partitions: Any) -> None:
            await asyncio.sleep(0.01)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS[protocol]) as group:
            steady = await group.join()
            hasty = group.make("")
            hasty.consumer.subscribe([topic], listener=Slow())
            await hasty.consumer.start()
            polling = asyncio.create_task(_poll_hastily(hasty))
            await until(shared(6, steady, hasty))
            third = await group.join()
            await until(shared(6, steady, hasty, third))
            await third.leave()
            await until(shared(6, steady, hasty))
            await steady.leave()
            await until(shared(6, hasty))
            await until(lambda: set(everything(*group.members)) == {*range(60)})
            polling.cancel()

    run(main)


async def _poll_hastily(member: Member) -> None:
    for number in range(10_000):
        patience_s = 0.001 * (1 + number % 23)
        try:
            async with asyncio.timeout(patience_s):
                found = await member.consumer.poll(timeout_ms=1_000)
        except TimeoutError:
            continue
        member.values += [record.value for records in found.values() for record in records]


@pytest.mark.parametrize("ways", [("eager", "new"), ("new", "eager"), ("cooperative", "new")])
def test_a_group_changes_its_protocol_member_by_member(
    ways: tuple[str, str], bootstrap: str, topic: str
) -> None:
    filled(bootstrap, topic, 40, partitions=4)
    old, new = (PROTOCOLS[way] for way in ways)

    async def main() -> None:
        async with crew(bootstrap, topic) as group:
            members = [await group.join(**old), await group.join(**old)]
            await until(shared(4, *members))
            for number in range(2):
                members.append(await group.join(**new))
                await until(shared(4, *members[number:]))
                await members[number].leave()
                await until(shared(4, *members[number + 1 :]))
            more = numbers(80, 40)
            await asyncio.to_thread(produce, bootstrap, topic, more, partitions=4)
            await until(lambda: len(everything(*members)) >= 80)
            assert everything(*members) == [*range(80)]

    run(main)


def test_numbers_under_kafkas_names(bootstrap: str, topic: str) -> None:
    filled(bootstrap, topic, 4, partitions=2)

    async def main() -> None:
        async with crew(bootstrap, topic, **PROTOCOLS["eager"]) as group:
            member = await group.join()
            await until(lambda: len(member.values) == 4)
            await until(lambda: member.consumer.metrics().get("commit-total", 0) > 0)
            await until(lambda: member.consumer.metrics()["heartbeat-total"] > 0)
            numbers_now = member.consumer.metrics()
            assert numbers_now["assigned-partitions"] == 2
            assert numbers_now["rebalance-total"] == 1
            assert 0 < numbers_now["rebalance-latency-avg"] <= numbers_now["rebalance-latency-max"]
            assert 0 <= numbers_now["last-rebalance-seconds-ago"] < 20
            assert numbers_now["commit-latency-avg"] > 0
            assert numbers_now["join-total"] >= 1

    run(main)


# Refusals


def refusal(make: Callable[[Crew], Any], bootstrap: str, topic: str, **options: Any) -> KafkaError:
    async def main() -> KafkaError:
        async with crew(bootstrap, topic, **options) as group:
            return await make(group)

    return run(main)


async def error_of(member: Member) -> KafkaError:
    await until(lambda: member.failure is not None)
    assert isinstance(member.failure, KafkaError)
    return member.failure


def test_members_without_a_common_assignor_are_told_so(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def two(group: Crew) -> KafkaError:
        first = await group.join(partition_assignment_strategy=["range"])
        await until(shared(2, first))
        return await error_of(await group.join(partition_assignment_strategy=["roundrobin"]))

    error = refusal(two, bootstrap, topic)
    assert error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "(roundrobin)" in str(error)
    assert "partition_assignment_strategy" in str(error)


def test_a_session_timeout_that_the_broker_does_not_allow(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def one(group: Crew) -> KafkaError:
        return await error_of(await group.join(session_timeout_ms=500))

    error = refusal(one, bootstrap, topic)
    assert error.code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert "session_timeout_ms=500" in str(error)


def test_an_assignor_that_the_broker_does_not_have(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)

    async def one(group: Crew) -> KafkaError:
        return await error_of(await group.join(group_remote_assignor="nope"))

    error = refusal(one, bootstrap, topic, **PROTOCOLS["new"])
    assert error.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "'nope'" in str(error)


def test_a_pattern_that_the_coordinator_cannot_read(bootstrap: str, topic: str) -> None:
    async def one(group: Crew) -> KafkaError:
        member = group.make("")
        member.consumer.subscribe(pattern="(unclosed")
        await member.consumer.start()
        member.go()
        return await error_of(member)

    error = refusal(one, bootstrap, topic, **PROTOCOLS["new"])
    assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("protocol", ["eager", "new"])
def test_a_full_group_takes_nobody(
    protocol: str, fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(
        {
            "group.max.size": "1",
            "group.consumer.max.size": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
        }
    )
    create_topic(broker.address, topic, 2)

    async def two(group: Crew) -> KafkaError:
        first = await group.join()
        await until(shared(2, first))
        return await error_of(await group.join())

    error = refusal(two, broker.address, topic, **PROTOCOLS[protocol])
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "group.max.size" in str(error)
