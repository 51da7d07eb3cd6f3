"""The transaction APIs of a running broker, in every version, and what it leaves on disk."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bench.brokers import Broker, run_java

from broker_harness import MakeBroker
from ottla.broker.coordinator.hashing import partition_of
from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.control import read_end_txn_marker
from ottla.records.header import batches
from ottla.records.reader import read_records
from ottla.runtime.os_runtime import OsRuntime, run

pytestmark = pytest.mark.ottla_only

NO_ERROR = 0


class Client:
    """Requests by hand, in any version."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ask(self, request: Any, version: int | None = None) -> Any:
        connection = await self._cluster.any_broker()
        return await connection.request(request, version=version)

    async def create(self, topic: str, partitions: int = 2) -> None:
        from ottla.client.admin.admin import Admin

        await Admin.over(self._cluster).create_topic(topic, partitions=partitions)

    async def coordinator(self, name: str) -> None:
        found = await self.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)
        assert found.coordinators[0].error_code == NO_ERROR

    async def init(self, name: str, version: int | None = None, **more: Any) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=name, **{"transaction_timeout_ms": 60_000, **more}
        )
        for _ in range(100):
            answer = await self.ask(request, version)
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0.01)
        assert answer.error_code == NO_ERROR
        return answer.producer_id, answer.producer_epoch

    async def add(
        self, name: str, who: tuple[int, int], topic: str, *partitions: int, version: int = 3
    ) -> list[int]:
        request = add_request(name, who, topic, list(partitions), version)
        return added_errors(await self.ask(request, version), version)

    async def end(self, name: str, who: tuple[int, int], *, commit: bool, version: int = 4) -> Any:
        request = EndTxnRequest(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=commit
        )
        return await self.ask(request, version)

    async def state(self, name: str) -> Any:
        answer = await self.ask(DescribeTransactionsRequest(transactional_ids=[name]))
        return answer.transaction_states[0]

    async def settled(self, name: str, state: str) -> None:
        """Wait for the markers."""
        for _ in range(200):
            if (await self.state(name)).transaction_state == state:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{name} is {(await self.state(name)).transaction_state}, not {state}")

    async def markers(self, topic: str, partition: int) -> list[tuple[int, int, bool]]:
        """(producer id, epoch, committed) of the transaction markers in a partition."""
        where = FetchPartition(partition=partition, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=topic, partitions=[where])])
        answer = await self.ask(request, 12)
        records = answer.responses[0].partitions[0].records
        return [
            (header.producer_id, header.producer_epoch, read_end_txn_marker(record).committed)
            for header, batch in batches(records or b"")
            if header.is_control
            for record in read_records(batch)
        ]


def add_request(
    name: str, who: tuple[int, int], topic: str, partitions: list[int], version: int
) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=partitions)]
    if version < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=topics,
        )
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=who[0], producer_epoch=who[1], topics=topics
            )
        ]
    )


def added_errors(answer: Any, version: int) -> list[int]:
    topics = answer.results_by_topic_v3_and_below
    if version >= 4:
        topics = answer.results_by_transaction[0].topic_results
    return [p.partition_error_code for t in topics for p in t.results_by_partition]


def on_broker(bootstrap: str, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main(runtime: OsRuntime) -> None:
        async with Cluster.of(ClientSettings(bootstrap_servers=bootstrap), runtime) as cluster:
            await work(Client(cluster))

    run(main)


def versions(key: ApiKey) -> range:
    lowest, highest = api(key).versions
    return range(lowest, highest + 1)


def test_a_transaction_is_committed_in_every_version(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        expected = []
        for init in versions(ApiKey.INIT_PRODUCER_ID):
            for end in versions(ApiKey.END_TXN):
                add = end  # they have the same versions
                who = await client.init(topic, init)
                assert await client.add(topic, who, topic, 0, 1, version=add) == [0, 0]
                answer = await client.end(topic, who, commit=True, version=end)
                assert answer.error_code == NO_ERROR
                marked = who
                if end >= 5:
                    marked = (answer.producer_id, answer.producer_epoch)
                    assert marked == (who[0], who[1] + 1)
                expected.append((*marked, True))
                await client.settled(topic, "CompleteCommit")
        assert await client.markers(topic, 0) == expected
        assert await client.markers(topic, 1) == expected

    on_broker(bootstrap, work)


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(
    bootstrap: str, topic: str
) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        old = await client.init(topic)
        await client.add(topic, old, topic, 1)
        new = await client.init(topic)
        assert new == (old[0], old[1] + 2)
        assert await client.markers(topic, 1) == [(old[0], old[1] + 1, False)]
        for version in versions(ApiKey.END_TXN):
            error = (await client.end(topic, old, commit=True, version=version)).error_code
            fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
            assert error == fenced
            if version < 4:
                assert await client.add(topic, old, topic, 0, version=version) == [fenced]

    on_broker(bootstrap, work)


def test_an_overdue_transaction_is_aborted(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        who = await client.init(topic, transaction_timeout_ms=200)
        await client.add(topic, who, topic, 0)
        assert (await client.state(topic)).transaction_state == "Ongoing"
        await client.settled(topic, "CompleteAbort")
        assert await client.markers(topic, 0) == [(who[0], who[1] + 1, False)]

    on_broker(bootstrap, work)


def test_bad_arguments_are_told_by_a_broker_that_coordinates_nothing(
    fresh_broker: MakeBroker, topic: str
) -> None:
    """They would be wrong on every broker: looking for the coordinator would not help."""

    async def work(client: Client) -> None:
        await client.create(topic)
        nobody = {"producer_id": -1, "producer_epoch": -1}
        for request, version in (
            (InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000, **nobody), 4),
            (InitProducerIdRequest(transactional_id=topic, producer_id=7, producer_epoch=-1), 4),
            (EndTxnRequest(transactional_id="", producer_id=7, producer_epoch=0), 4),
        ):
            answer = await client.ask(request, version)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        late = InitProducerIdRequest(
            transactional_id=topic, transaction_timeout_ms=900_001, **nobody
        )
        answer = await client.ask(late, 4)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await client.add("", (7, 0), topic, 0, version=3) == [ErrorCode.INVALID_REQUEST]

    on_broker(fresh_broker().address, work)


def test_partitions_that_do_not_exist_are_not_added(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        who = await client.init(topic)
        errors = await client.add(topic, who, topic, 0, 2)
        assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        internal = await client.add(topic, who, "__transaction_state", 0)
        assert internal == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert (await client.state(topic)).transaction_state == "Empty"

    on_broker(bootstrap, work)


def test_brokers_may_verify_and_add_for_several_transactions_at_once(
    bootstrap: str, topic: str
) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        names = [f"{topic}-{n}" for n in range(3)]
        await client.coordinator(topic)
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
        identities = [await client.init(name) for name in names]
        await client.add(names[0], identities[0], topic, 0)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=who[0],
                    producer_epoch=who[1],
                    verify_only=number < 2,
                    topics=topics,
                )
                for number, (name, who) in enumerate(zip(names, identities, strict=True))
            ]
        )
        answer = await client.ask(request, 5)
        assert [result.transactional_id for result in answer.results_by_transaction] == names
        errors = [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in answer.results_by_transaction
        ]
        assert errors == [0, ErrorCode.TRANSACTION_ABORTABLE, 0]
        assert (await client.state(names[2])).transaction_state == "Ongoing"

    on_broker(bootstrap, work)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_offsets_come_into_force_with_the_transaction(
    bootstrap: str, topic: str, version: int, commit: bool
) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        who = await client.init(topic)
        group = f"group-{topic}"
        commit_request = TxnOffsetCommitRequest(
            transactional_id=topic,
            group_id=group,
            producer_id=who[0],
            producer_epoch=who[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7),
                        TxnOffsetCommitRequestPartition(partition_index=9, committed_offset=7),
                    ],
                )
            ],
        )
        await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
        if version < 5:
            early = (await client.ask(commit_request, version)).topics[0].partitions[0].error_code
            abortable = ErrorCode.TRANSACTION_ABORTABLE
            assert early == (abortable if version >= 4 else ErrorCode.INVALID_TXN_STATE)
            added = AddOffsetsToTxnRequest(
                transactional_id=topic, producer_id=who[0], producer_epoch=who[1], group_id=group
            )
            assert (await client.ask(added, min(version, 4))).error_code == NO_ERROR
        answer = await client.ask(commit_request, version)
        errors = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
        assert errors == {0: NO_ERROR, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await committed_offset_of(client, group, topic) == -1
        ended = await client.end(topic, who, commit=commit, version=5 if version == 5 else 4)
        assert ended.error_code == NO_ERROR
        await client.settled(topic, "CompleteCommit" if commit else "CompleteAbort")
        assert await committed_offset_of(client, group, topic) == (7 if commit else -1)

    on_broker(bootstrap, work)


async def committed_offset_of(client: Client, group: str, topic: str) -> int:
    wanted = OffsetFetchRequestGroup(
        group_id=group,
        topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
    )
    answer = await client.ask(OffsetFetchRequest(groups=[wanted]), 8)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_transactions_are_listed_by_all_filters(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        idle, busy = f"{topic}.idle", f"{topic}.open"
        idle_id = (await client.init(idle))[0]
        who = await client.init(busy)
        await client.add(busy, who, topic, 0)
        for version in versions(ApiKey.LIST_TRANSACTIONS):

            async def names(version: int = version, **filters: Any) -> set[str]:
                answer = await client.ask(ListTransactionsRequest(**filters), version)
                assert answer.error_code == NO_ERROR
                listed = {found.transactional_id for found in answer.transaction_states}
                return listed & {idle, busy}

            assert await names() == {idle, busy}
            assert await names(state_filters=["Ongoing"]) == {busy}
            assert await names(producer_id_filters=[idle_id]) == {idle}
            if version >= 1:
                assert await names(duration_filter=10**9) == set()
            if version >= 2:
                pattern = topic.replace(".", "\\.") + ".i.*"
                assert await names(transactional_id_pattern=pattern) == {idle}
        bad = ListTransactionsRequest(transactional_id_pattern="a(")
        assert (await client.ask(bad, 2)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        unknown = await client.ask(ListTransactionsRequest(state_filters=["Lost"]), 0)
        assert unknown.unknown_state_filters == ["Lost"]
        assert unknown.transaction_states == []

    on_broker(bootstrap, work)


def test_transactions_are_described(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        who = await client.init(topic, transaction_timeout_ms=54_321)
        await client.add(topic, who, topic, 1, 0)
        request = DescribeTransactionsRequest(transactional_ids=[topic, "unknown-id", ""])
        found, unknown, empty = (await client.ask(request)).transaction_states
        assert (found.producer_id, found.producer_epoch) == who
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 54_321)
        assert [(t.topic, t.partitions) for t in found.topics] == [(topic, [0, 1])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST

    on_broker(bootstrap, work)


def test_markers_of_another_coordinator_are_written(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        await client.create(topic)
        for version in versions(ApiKey.WRITE_TXN_MARKERS):
            marker = WritableTxnMarker(
                producer_id=4_000_000 + version,
                producer_epoch=3,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 5])],
                coordinator_epoch=2,
            )
            answer = await client.ask(WriteTxnMarkersRequest(markers=[marker]), version)
            (result,) = answer.markers
            assert result.producer_id == 4_000_000 + version
            errors = {p.partition_index: p.error_code for p in result.topics[0].partitions}
            assert errors == {0: NO_ERROR, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert [m[0] for m in await client.markers(topic, 0)] == [4_000_001, 4_000_002]

    on_broker(bootstrap, work)


def test_a_deleted_topic_does_not_hold_up_a_transaction(bootstrap: str, topic: str) -> None:
    async def work(client: Client) -> None:
        from ottla.client.admin.admin import Admin

        await client.create(topic)
        await client.create(f"{topic}-2")
        await client.coordinator(topic)
        who = await client.init(topic)
        await client.add(topic, who, topic, 0)
        await client.add(topic, who, f"{topic}-2", 0)
        await Admin.over(client._cluster).delete_topics([f"{topic}-2"])
        assert (await client.end(topic, who, commit=True)).error_code == NO_ERROR
        await client.settled(topic, "CompleteCommit")
        assert len(await client.markers(topic, 0)) == 1

    on_broker(bootstrap, work)


def test_transactions_survive_a_crash_of_the_broker(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker()
    identities = {}

    async def before(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        for name in ("open", "done", "overdue"):
            timeout_ms = 1_500 if name == "overdue" else 60_000
            identities[name] = await client.init(name, transaction_timeout_ms=timeout_ms)
            await client.add(name, identities[name], topic, 0)
        await client.end("done", identities["done"], commit=True)

    async def after(client: Client) -> None:
        await client.settled("done", "CompleteCommit")
        await client.settled("overdue", "CompleteAbort")
        assert (await client.end("open", identities["open"], commit=True)).error_code == NO_ERROR
        await client.settled("open", "CompleteCommit")

    on_broker(broker.address, before)
    broker.kill()
    broker.start()
    on_broker(broker.address, after)


def test_a_two_phase_transaction_is_kept_and_ended(
    fresh_broker: Callable[..., Broker], topic: str
) -> None:
    broker = fresh_broker(
        {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    )
    wish = {"enable2_pc": True, "keep_prepared_txn": True}

    async def work(client: Client) -> None:
        served = (await client._cluster.any_broker()).versions.served
        assert served[ApiKey.INIT_PRODUCER_ID] == (0, 6)
        await client.create(topic)
        await client.coordinator(topic)
        old = await client.init(topic, 6, **wish)
        await client.add(topic, old, topic, 0, version=5)
        request = InitProducerIdRequest(transactional_id=topic, **wish)
        answer = await client.ask(request, 6)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == old
        new = (answer.producer_id, answer.producer_epoch)
        ended = await client.end(topic, new, commit=True, version=5)
        assert ended.error_code == NO_ERROR
        await client.settled(topic, "CompleteCommit")
        assert await client.markers(topic, 0) == [(ended.producer_id, ended.producer_epoch, True)]

    on_broker(broker.address, work)


def test_kafka_reads_the_transaction_log(
    fresh_broker: Callable[..., Broker], topic: str, kafka_libs: Any
) -> None:
    broker = fresh_broker()

    async def work(client: Client) -> None:
        await client.create(topic)
        await client.coordinator(topic)
        who = await client.init(topic)
        await client.add(topic, who, topic, 0, 1, version=5)
        await client.end(topic, who, commit=True, version=5)
        await client.settled(topic, "CompleteCommit")

    on_broker(broker.address, work)
    index = partition_of(topic, 50)
    segment = broker.data / f"__transaction_state-{index}" / f"{0:020}.log"
    done = run_java(
        kafka_libs,
        "org.apache.kafka.tools.DumpLogSegments",
        *("--transaction-log-decoder", "--files", str(segment)),
    )
    states = re.findall(r'"transactionStatus":(\d)', done.stdout)
    assert states == ["0", "1", "2", "4"]  # Empty, Ongoing, PrepareCommit, CompleteCommit
    assert f'"transactionalId":"{topic}"' in done.stdout
