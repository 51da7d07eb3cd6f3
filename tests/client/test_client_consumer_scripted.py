"""What a consumer does when brokers change their minds: leaders, epochs, replicas, sessions."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from consumer_tools import reader, run, take, values
from scripted_partition import PARTITION, ScriptedPartition

from ottla.client.consumer.consumer import Consumer
from ottla.client.errors import LogTruncation, UnreadableBatch
from ottla.client.values import OffsetAndMetadata
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError


@asynccontextmanager
async def reading(
    script: ScriptedPartition, versions: dict[int, tuple[int, int]] | None = None, **options: Any
) -> AsyncIterator[Consumer]:
    options = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, **options}
    async with script.running(versions), reader(script.bootstrap, **options) as consumer:
        consumer.assign([PARTITION])
        yield consumer


async def until(script: ScriptedPartition, consumer: Consumer, **changes: Any) -> None:
    """Let the metadata change and the consumer hear of it."""
    for name, value in changes.items():
        setattr(script, name, value)
    assert consumer._core is not None
    await consumer._core.cluster.refresh([PARTITION.topic])


def nodes(script: ScriptedPartition, since: int = 0) -> list[int]:
    return [fetch.node_id for fetch in script.fetches[since:]]


def test_a_new_leader_with_the_same_history_is_asked_and_then_read() -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b")

    async def main() -> None:
        async with reading(script) as consumer:
            assert values(await take(consumer, 2)) == [b"a", b"b"]
            await until(script, consumer, leader=2, epoch=3, epoch_end=(0, 2))
            script.append(b"c")
            assert values(await take(consumer, 1)) == [b"c"]
            assert (2, ApiKey.OFFSET_FOR_LEADER_EPOCH) in script.asked
            assert script.fetches[-1].node_id == 2
            last = script.fetches[-1].request.topics[0].partitions[0]
            assert last.current_leader_epoch == 3

    run(main)


def test_a_truncated_log_is_read_on_from_where_histories_part() -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b", b"lost")

    async def main() -> None:
        async with reading(script) as consumer:
            await take(consumer, 3)
            script.log, script.end = b"", 2
            await until(script, consumer, leader=2, epoch=3, epoch_end=(0, 2))
            script.append(b"new")
            assert values(await take(consumer, 1)) == [b"new"]
            assert await consumer.position(PARTITION) == 3

    run(main)


def test_a_truncated_log_is_an_error_without_a_policy() -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b", b"lost")

    async def main() -> None:
        async with reading(script, auto_offset_reset="none") as consumer:
            consumer.seek(PARTITION, 0)
            await take(consumer, 3)
            await until(script, consumer, leader=2, epoch=3, epoch_end=(0, 2))
            for _ in range(2):
                with pytest.raises(LogTruncation, match="differs from offset 2") as caught:
                    await consumer.poll(5_000)
            assert (caught.value.offset, caught.value.next_offset) == (3, 2)
            consumer.seek(PARTITION, 2)
            assert len(await take(consumer, 1)) == 1

    run(main)


def test_a_leader_that_does_not_know_the_epoch_at_all_resets() -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b")

    async def main() -> None:
        async with reading(script) as consumer:
            await take(consumer, 2)
            await until(script, consumer, leader=2, epoch=3, epoch_end=(-1, -1))
            assert values(await take(consumer, 2)) == [b"a", b"b"]

    run(main)


def test_a_seek_with_an_epoch_is_checked_before_anything_is_fetched() -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b")

    async def main() -> None:
        async with reading(script, auto_offset_reset="none") as consumer:
            script.epoch_end = (0, 1)
            consumer.seek(PARTITION, OffsetAndMetadata(2, leader_epoch=0))
            with pytest.raises(LogTruncation):
                await consumer.poll(5_000)
            assert script.fetches == []

    run(main)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_errors_that_pass_are_waited_out(code: ErrorCode) -> None:
    script = ScriptedPartition()
    script.append(b"a")
    script.errors[1].extend([code] * 3)

    async def main() -> None:
        async with reading(script) as consumer:
            began = time.monotonic()
            assert values(await take(consumer, 1)) == [b"a"]
            assert time.monotonic() - began > 0.05

    run(main)


def test_the_leader_that_an_error_names_is_asked_without_metadata() -> None:
    script = ScriptedPartition()

    async def main() -> None:
        async with reading(script) as consumer:
            assert await consumer.poll(100) == {}
            before = script.asked.count((1, ApiKey.METADATA))
            script.append(b"a")
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            script.errors[1].append(script.hint(code, leader=2, epoch=1))
            assert values(await take(consumer, 1)) == [b"a"]
            assert script.fetches[-1].node_id == 2
            assert script.asked.count((1, ApiKey.METADATA)) == before

    run(main)


def test_the_replica_that_the_leader_prefers_is_read_until_it_fails() -> None:
    script = ScriptedPartition()
    script.preferred = 2
    script.append(b"a")

    async def main() -> None:
        async with reading(script, client_rack="here") as consumer:
            assert values(await take(consumer, 1)) == [b"a"]
            assert nodes(script)[:2] == [1, 2]
            assert {fetch.request.rack_id for fetch in script.fetches} == {"here"}
            await consumer.poll(200)
            assert set(nodes(script, 1)) == {2}
            count = len(script.fetches)
            script.errors[2].append(ErrorCode.OFFSET_OUT_OF_RANGE)
            script.append(b"b")
            assert values(await take(consumer, 1)) == [b"b"]
            assert 1 in nodes(script, count)
            assert await consumer.position(PARTITION) == 2

    run(main)


def test_a_follower_that_is_behind_says_nothing_about_the_log_though_it_is_not_preferred_any_more():
    script = ScriptedPartition()
    script.preferred = 2
    script.long_poll_s = 0.5
    script.append(b"a")

    async def main() -> None:
        options = {"client_rack": "here", "auto_offset_reset": "none"}
        async with reading(script, **options) as consumer:
            consumer.seek(PARTITION, 0)
            assert values(await take(consumer, 1)) == [b"a"]
            while script.fetches[-1].offset != 1:
                await consumer.poll(10)
            assert script.fetches[-1].node_id == 2
            script.errors[2].append(ErrorCode.OFFSET_OUT_OF_RANGE)
            # As where the next metadata does not name that broker.
            consumer._subscriptions.states[PARTITION].preferred_replica = -1
            script.preferred = -1
            while script.errors[2]:
                assert not await consumer.poll(20)
            assert not await consumer.poll(100)
            script.append(b"b")
            assert values(await take(consumer, 1)) == [b"b"]
            assert script.fetches[-1].node_id == 1

    run(main)


def test_a_preferred_replica_that_dies_is_left_for_the_leader() -> None:
    script = ScriptedPartition()
    script.preferred = 2
    script.append(b"a")

    async def main() -> None:
        async with reading(script, client_rack="here") as consumer:
            assert values(await take(consumer, 1)) == [b"a"]
            script.preferred = -1
            script.append(b"b")
            await script.brokers[2].__aexit__()
            assert values(await take(consumer, 1)) == [b"b"]
            assert script.fetches[-1].node_id == 1

    run(main)


def test_the_leader_is_asked_again_for_its_preference_when_metadata_is_old() -> None:
    script = ScriptedPartition()
    script.preferred = 2
    script.append(b"a")

    async def main() -> None:
        async with reading(script, client_rack="here", metadata_max_age_ms=400) as consumer:
            await take(consumer, 1)
            await consumer.poll(1000)
            assert nodes(script).count(1) in (2, 3)

    run(main)


def test_a_damaged_batch_can_be_left_out() -> None:
    script = ScriptedPartition()
    script.append(b"a")
    script.append(b"damaged", b"too", damaged=True)
    script.append(b"b")

    async def main() -> None:
        async with reading(script) as consumer:
            assert values(await take(consumer, 1)) == [b"a"]
            with pytest.raises(
                UnreadableBatch, match=r"scripted-0 at offset 1.*checksum"
            ) as caught:
                await anext(consumer)
            assert caught.value.next_offset == 3
            with pytest.raises(UnreadableBatch):
                await consumer.poll(1000)
            consumer.seek(PARTITION, 3)
            assert values(await take(consumer, 1)) == [b"b"]

    run(main)


def test_a_broker_whose_disk_is_damaged_is_quoted() -> None:
    script = ScriptedPartition()
    script.append(b"a")
    script.errors[1].append(ErrorCode.CORRUPT_MESSAGE)

    async def main() -> None:
        async with reading(script) as consumer:
            with pytest.raises(UnreadableBatch, match="its log is damaged"):
                await consumer.poll(5_000)
            consumer.seek(PARTITION, 0)
            assert values(await take(consumer, 1)) == [b"a"]

    run(main)


def test_without_permission_polls_say_so_and_go_on_when_it_is_given() -> None:
    script = ScriptedPartition()
    script.append(b"a")
    script.errors[1].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def main() -> None:
        async with reading(script) as consumer:
            with pytest.raises(KafkaError, match="scripted-0") as caught:
                await consumer.poll(5_000)
            assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert values(await take(consumer, 1)) == [b"a"]

    run(main)


def test_a_position_that_cannot_be_found_is_said_in_time() -> None:
    script = ScriptedPartition()
    script.offset_errors.extend([ErrorCode.TOPIC_AUTHORIZATION_FAILED])

    async def main() -> None:
        async with reading(script) as consumer:
            with pytest.raises(KafkaError, match="scripted-0: Topic authorization failed"):
                await consumer.position(PARTITION)
            with pytest.raises(KafkaError, match="Topic authorization failed"):
                await consumer.poll(1000)
            assert await consumer.position(PARTITION) == 0
            script.offset_errors.extend([ErrorCode.LEADER_NOT_AVAILABLE] * 100)
            consumer.seek_to_end()
            with pytest.raises(TimeoutError, match="scripted-0: no leader"):
                await consumer.position(PARTITION, timeout_ms=200)
            assert len(script.offset_errors) > 90

    run(main)


def test_a_session_carries_only_changes_and_begins_anew_when_it_is_lost() -> None:
    script = ScriptedPartition()
    script.session_id = 99
    script.append(b"a")

    async def main() -> None:
        async with reading(script) as consumer:
            await take(consumer, 1)
            await consumer.poll(200)
            later = [fetch.request for fetch in script.fetches[2:]]
            assert later
            assert all(request.session_id == 99 and not request.topics for request in later)
            script.top_errors.append(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            while script.top_errors:
                await consumer.poll(50)
            script.append(b"b")
            count = len(script.fetches)
            assert values(await take(consumer, 1)) == [b"b"]
            renewed = [f.request for f in script.fetches[count - 2 :] if f.request.session_id == 0]
            assert [(one.session_epoch, len(one.topics)) for one in renewed] == [(0, 1)]

    run(main)


@pytest.mark.parametrize("version", [4, 6, 8, 11, 12, 13, 16])
def test_brokers_of_every_age_are_asked_in_their_way(version: int) -> None:
    script = ScriptedPartition()
    script.append(b"a", b"b")

    async def main() -> None:
        versions = {int(ApiKey.FETCH): (4, version), int(ApiKey.LIST_OFFSETS): (1, 1)}
        async with reading(script, versions) as consumer:
            assert values(await take(consumer, 2)) == [b"a", b"b"]
            script.append(b"c")
            assert values(await take(consumer, 1)) == [b"c"]
            assert {fetch.version for fetch in script.fetches} == {version}

    run(main)


def test_without_the_means_to_compare_histories_a_new_leader_is_believed() -> None:
    script = ScriptedPartition()
    script.append(b"a")

    async def main() -> None:
        versions = {int(ApiKey.OFFSET_FOR_LEADER_EPOCH): (0, 1)}
        async with reading(script, versions) as consumer:
            await take(consumer, 1)
            await until(script, consumer, leader=2, epoch=3)
            script.append(b"b")
            assert values(await take(consumer, 1)) == [b"b"]

    run(main)


def test_a_broker_that_throttles_is_given_time() -> None:
    script = ScriptedPartition()
    script.throttle_ms = 400

    async def main() -> None:
        async with reading(script) as consumer:
            await consumer.poll(1000)
            assert 1 <= len(script.fetches) <= 4

    run(main)
