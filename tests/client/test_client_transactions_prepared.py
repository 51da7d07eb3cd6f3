"""Transactions that one process prepares and another one ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.brokers import Broker
from hypothesis import given
from hypothesis import strategies as st
from transaction_tools import (
    WAIT_S,
    create_topic,
    producer,
    read,
    run,
    speak_protocol,
    state_of,
    until_aborted_by_time,
    until_settled,
)

from broker_harness import MakeBroker
from ottla.client.admin.admin import Admin
from ottla.client.errors import (
    BadSetting,
    PreparedTransactionLost,
    TransactionFatal,
    TransactionStateError,
)
from ottla.client.producer.transactions.prepared import PreparedTransaction

PROCESS = [sys.executable, str(Path(__file__).with_name("prepared_process.py"))]
TWO_PHASE = {
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(params=[1, 2], ids=["protocol-1", "protocol-2"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found: int = request.param
    speak_protocol(found, monkeypatch)
    return found


@pytest.fixture
def one_partition(bootstrap: str, topic: str) -> str:
    create_topic(bootstrap, topic)
    return topic


async def prepared(
    bootstrap: str, topic: str, value: str = "prepared", **options: object
) -> PreparedTransaction:
    """By a producer that is gone afterwards, under the topic's name as its id."""
    async with producer(bootstrap, topic, **options) as writer:
        await writer.init_transactions()
        await writer.begin_transaction()
        await writer.send(topic, value.encode())
        return await writer.prepare_transaction()


@contextmanager
def preparing_process(bootstrap: str, topic: str, name: str, value: str) -> Iterator[str]:
    """What it has prepared; when the block is left it is killed."""
    process = subprocess.Popen(
        [*PROCESS, "prepare", bootstrap, topic, name, value], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def ended_by_process(what: str, bootstrap: str, text: str) -> str:
    done = subprocess.run(
        [*PROCESS, what, bootstrap, text], capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The text


@given(st.text(min_size=1), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans())
def test_the_text_of_a_prepared_transaction_brings_it_back(
    name: str, producer_id: int, epoch: int, is_empty: bool
) -> None:
    before = PreparedTransaction(name, producer_id, epoch, is_empty)
    assert PreparedTransaction.parse(str(before)) == before


@pytest.mark.parametrize("text", ["", "12:3", "12:3:odd:tx", "x:3:open:tx", "12:y:open:tx"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the text of a prepared transaction"):
        PreparedTransaction.parse(text)


# Two processes


def test_one_process_prepares_and_dies_and_another_commits(
    bootstrap: str, one_partition: str
) -> None:
    topic = one_partition
    with preparing_process(bootstrap, topic, topic, "from the dead") as text:
        assert read(bootstrap, topic, settled=False) == []
    assert ended_by_process("commit", bootstrap, text) == "done"
    assert read(bootstrap, topic) == ["from the dead"]
    assert ended_by_process("commit", bootstrap, text) == "done"
    assert ended_by_process("abort", bootstrap, text).startswith("PreparedTransactionLost")
    assert read(bootstrap, topic) == ["from the dead"]


def test_one_process_prepares_and_dies_and_another_aborts(
    bootstrap: str, one_partition: str
) -> None:
    topic = one_partition
    with preparing_process(bootstrap, topic, topic, "from the dead") as text:
        pass
    assert ended_by_process("abort", bootstrap, text) == "done"
    assert ended_by_process("abort", bootstrap, text) == "done"
    told = ended_by_process("commit", bootstrap, text)
    assert told.startswith("PreparedTransactionLost")
    assert "it was aborted" in told
    assert read(bootstrap, topic) == []


# Every way it can end


@pytest.mark.parametrize("commit", [True, False])
def test_it_can_be_ended_again_and_again_the_same_way_and_not_the_other(
    bootstrap: str, one_partition: str, protocol: int, commit: bool
) -> None:
    topic = one_partition

    async def main() -> None:
        text = str(await prepared(bootstrap, topic))
        assert await state_of(bootstrap, topic) == "Ongoing"  # closing has not aborted it
        async with Admin(bootstrap_servers=bootstrap) as admin:
            same, other = admin.commit_prepared, admin.abort_prepared
            if not commit:
                same, other = other, same
            for _ in range(3):
                await same(text)
            happened = "committed" if commit else "aborted"
            with pytest.raises(PreparedTransactionLost, match=f"it was {happened}") as lost:
                await other(text)
            assert lost.value.was_aborted is not commit
            await same(text)

    run(main)
    assert read(bootstrap, topic) == (["prepared"] if commit else [])


def test_one_that_took_too_long_cannot_be_committed(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        found = await prepared(bootstrap, topic, transaction_timeout_ms=1_000)
        await until_aborted_by_time(bootstrap, topic)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            too_late = "transaction_timeout_ms had passed"
            with pytest.raises(PreparedTransactionLost, match=too_late) as lost:
                await admin.commit_prepared(found)
            assert lost.value.was_aborted
            if protocol == 2:  # by the first one, a timeout looks like another producer
                await admin.abort_prepared(found)

    run(main)
    assert read(bootstrap, topic) == []


def test_one_whose_id_another_producer_has_taken_is_lost(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        found = await prepared(bootstrap, topic)
        async with producer(bootstrap, topic) as other, Admin(bootstrap_servers=bootstrap) as admin:
            await other.init_transactions()
            with pytest.raises(PreparedTransactionLost, match="another producer has used"):
                await admin.commit_prepared(found)
            async with other.transaction():
                await other.send(topic, b"of the other")
            with pytest.raises(PreparedTransactionLost, match="another producer has used"):
                await admin.commit_prepared(found)

    run(main)
    assert read(bootstrap, topic) == ["of the other"]


def test_an_unknown_one_is_lost(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            with pytest.raises(PreparedTransactionLost, match="does not have it"):
                await admin.commit_prepared(PreparedTransaction(topic, 12345, 0))

    run(main)


def test_an_empty_one_needs_no_end(bootstrap: str, topic: str, protocol: int) -> None:
    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            empty = await writer.prepare_transaction()
            assert empty.is_empty
            async with Admin(bootstrap_servers=bootstrap) as admin:
                await admin.commit_prepared(str(empty))
                await admin.abort_prepared(empty)
            await writer.commit_transaction()

    run(main)


@pytest.mark.parametrize("commit", [True, False])
def test_its_own_producer_can_end_it_too_and_go_on(
    bootstrap: str, one_partition: str, protocol: int, commit: bool
) -> None:
    topic = one_partition

    async def main() -> None:
        async with producer(bootstrap, topic) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            await writer.send(topic, b"prepared")
            first = await writer.prepare_transaction()
            assert await writer.prepare_transaction() == first
            with pytest.raises(TransactionStateError, match="prepared"):
                await writer.send(topic, b"more")
            await (writer.commit_transaction() if commit else writer.abort_transaction())
            async with writer.transaction():
                await writer.send(topic, b"the next one")

    run(main)
    assert read(bootstrap, topic) == [*(["prepared"] if commit else []), "the next one"]


def test_a_producer_goes_on_after_another_process_has_ended_its_transaction(
    bootstrap: str, one_partition: str, protocol: int
) -> None:
    topic = one_partition

    async def main() -> None:
        async with (
            producer(bootstrap, topic) as writer,
            Admin(bootstrap_servers=bootstrap) as admin,
        ):
            await writer.init_transactions()
            for number in range(3):
                await writer.begin_transaction()
                await writer.send(topic, b"%d" % number)
                await admin.commit_prepared(await writer.prepare_transaction())
                await writer.commit_transaction()

    run(main)
    assert read(bootstrap, topic) == ["0", "1", "2"]


def test_all_partitions_are_part_of_it_when_it_is_prepared(
    bootstrap: str, topic: str, protocol: int
) -> None:
    create_topic(bootstrap, topic, 8)

    async def main() -> None:
        async with producer(bootstrap, topic, linger_ms=10_000) as writer:
            await writer.init_transactions()
            await writer.begin_transaction()
            for number in range(80):
                await writer.send(topic, b"%d" % number, partition=number % 8)
            found = await writer.prepare_transaction()
        async with Admin(bootstrap_servers=bootstrap) as admin:
            described = await admin.describe_transaction(topic)
            assert {one.partition for one in described.partitions} == set(range(8))
            await admin.commit_prepared(found)

    run(main)
    assert sorted(map(int, read(bootstrap, topic, partitions=8))) == list(range(80))


@pytest.mark.parametrize("commit", [True, False])
def test_it_outlives_the_death_of_the_broker_before_and_after_its_end(
    fresh_broker: MakeBroker, topic: str, protocol: int, commit: bool
) -> None:
    broker: Broker = fresh_broker()
    create_topic(broker.address, topic)

    async def end(text: str) -> None:
        async with Admin(bootstrap_servers=broker.address) as admin:
            await (admin.commit_prepared(text) if commit else admin.abort_prepared(text))

    text = str(run(lambda: prepared(broker.address, topic)))
    broker.kill()
    broker.start()
    run(lambda: end(text))
    # Kafka 4.3 may lose markers that it has to write again while it starts.
    until_settled(broker.address, topic, 1)
    broker.kill()
    broker.start()
    run(lambda: end(text))
    assert read(broker.address, topic) == (["prepared"] if commit else [])


# Two-phase commit (KIP-939)


def test_with_two_phase_commit_it_never_times_out(fresh_broker: MakeBroker, topic: str) -> None:
    broker: Broker = fresh_broker(TWO_PHASE)
    create_topic(broker.address, topic)

    async def main() -> None:
        options = {"transaction_timeout_ms": 100, "transaction_two_phase_commit_enable": True}
        found = await prepared(broker.address, topic, **options)
        await asyncio.sleep(1)
        async with Admin(bootstrap_servers=broker.address) as admin:
            described = await admin.describe_transaction(topic)
            assert (described.state, described.timeout_ms) == ("Ongoing", 2**31 - 1)
            await admin.commit_prepared(found)

    run(main)
    assert read(broker.address, topic) == ["prepared"]


@pytest.mark.ottla_only
def test_with_two_phase_commit_a_new_producer_completes_what_was_noted_down(
    fresh_broker: MakeBroker, topic: str
) -> None:
    broker: Broker = fresh_broker(TWO_PHASE)
    create_topic(broker.address, topic)
    options = {"transaction_two_phase_commit_enable": True}

    async def main() -> None:
        noted = await prepared(broker.address, topic, "noted", **options)
        async with producer(broker.address, topic, **options) as second:
            await second.init_transactions(keep_prepared=True)
            with pytest.raises(TransactionStateError, match="prepared"):
                await second.begin_transaction()
            await second.complete_transaction(noted)
            async with second.transaction():
                await second.send(topic, b"by the second")
        unnoted = await prepared(broker.address, topic, "not noted", **options)
        async with (
            Admin(bootstrap_servers=broker.address) as admin,
            producer(broker.address, topic, **options) as third,
        ):
            await third.init_transactions(keep_prepared=True)
            with pytest.raises(PreparedTransactionLost, match="has taken it over"):
                await admin.commit_prepared(unnoted)
            await third.complete_transaction(noted)
            await third.complete_transaction(noted)

    run(main)
    assert read(broker.address, topic) == ["noted", "by the second"]


def test_two_phase_commit_is_refused_where_brokers_do_not_have_it(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with producer(bootstrap, topic, transaction_two_phase_commit_enable=True) as writer:
            with pytest.raises(TransactionFatal, match="do not offer two-phase commit"):
                await writer.init_transactions()
        async with producer(bootstrap, topic) as writer:
            with pytest.raises(BadSetting, match="transaction_two_phase_commit_enable"):
                await writer.init_transactions(keep_prepared=True)

    run(main)
