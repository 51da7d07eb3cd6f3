"""What coordinators ask of other nodes: what goes together, what waits, what a loss means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from coordinator_stage import StageRuntime

from ottla.broker.coordinator import broker_batcher
from ottla.broker.coordinator.broker_batcher import BrokerBatcher
from ottla.broker.coordinator.internal_topics import InternalTopics
from ottla.broker.coordinator.neighbours import Neighbours
from ottla.broker.coordinator.producer_ids import ProducerIds
from ottla.broker.coordinator.transactions.remote_inquiries import RemoteInquiries
from ottla.broker.coordinator.transactions.transaction import Identity
from ottla.broker.metadata.image import BrokerImage, Endpoint, MetadataImage, TopicImage
from ottla.broker.peers.peers import PeerError
from ottla.config.broker import BrokerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.schema import Message

A, B = ("orders", 0), ("orders", 1)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def image_of(*broker_ids: int) -> MetadataImage:
    return MetadataImage(
        brokers={
            number: BrokerImage(
                number,
                1,
                bytes(16),
                {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{number}", 9092)},
                None,
                fenced=False,
            )
            for number in broker_ids
        }
    )


class StagePeers:
    """Notes what is sent; a test answers it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.answers: list[asyncio.Future[Any]] = []

    def post(
        self,
        host: str,
        port: int,
        request: Message,
        *,
        timeout_ms: int,
        version: int | None = None,
        lane: str = "",
    ) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((host, request))
        self.answers.append(answer)
        return answer

    def drop(self, host: str, port: int) -> None: ...

    def close(self) -> None: ...


class Note:
    def __init__(self, key: str, *, wanted: bool = True) -> None:
        self.key = key
        self.is_wanted = wanted
        self.outcome: Any = None

    def fail(self, error: ErrorCode) -> None:
        self.outcome = error


class Notes(BrokerBatcher[Note]):
    LANE = "notes"

    def pack(self, items: Sequence[Note]) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=",".join(note.key for note in items))

    def unpack(self, items: Sequence[Note], response: Any) -> None:
        for note in items:
            note.outcome = response


class BagStage:
    def __init__(self) -> None:
        self.runtime = StageRuntime()
        self.peers = StagePeers()
        self.neighbours = Neighbours(1, "PLAINTEXT")
        self.neighbours.image = image_of(1, 2, 3)
        self.bag = Notes(self.runtime, self.peers, self.neighbours, 1000)  # type: ignore[arg-type]

    def put(self, *keys: str, to: int = 2) -> list[Note]:
        notes = [Note(key) for key in keys]
        for note in notes:
            self.bag.put(to, note)
        return notes

    @property
    def sent(self) -> list[tuple[str, str]]:
        self.runtime.advance()
        return [(host, request.group_id) for host, request in self.peers.sent]

    async def answer(self, number: int, response: Any) -> None:
        future = self.peers.answers[number]
        if isinstance(response, Exception):
            future.set_exception(response)
        else:
            future.set_result(response)
        await asyncio.sleep(0)


def test_one_request_is_under_way_and_the_next_takes_all_that_came_meanwhile() -> None:
    async def story() -> None:
        stage = BagStage()
        stage.put("a", "b")
        assert stage.sent == [("host2", "a,b")]
        stage.put("c")
        stage.put("d")
        stage.put("e", to=3)
        assert stage.sent == [("host2", "a,b"), ("host3", "e")]
        await stage.answer(0, HeartbeatResponse())
        assert stage.sent[2:] == [("host2", "c,d")]

    run(story())


def test_items_of_one_key_go_one_after_the_other() -> None:
    async def story() -> None:
        stage = BagStage()
        first, second, _ = stage.put("a", "a", "b")
        assert stage.sent == [("host2", "a,b")]
        await stage.answer(0, HeartbeatResponse())
        assert first.outcome is not None
        assert second.outcome is None
        assert stage.sent[1:] == [("host2", "a")]

    run(story())


def test_what_is_no_longer_wanted_is_not_sent() -> None:
    async def story() -> None:
        stage = BagStage()
        first, second = stage.put("a", "b")
        first.is_wanted = second.is_wanted = False
        assert stage.sent == []
        stage.put("c")
        assert stage.sent == [("host2", "c")]

    run(story())


def test_a_lost_answer_fails_its_items_and_the_rest_is_sent() -> None:
    async def story() -> None:
        stage = BagStage()
        (lost,) = stage.put("a")
        assert stage.sent
        stage.put("b")
        await stage.answer(0, PeerError(ErrorCode.REQUEST_TIMED_OUT, "too late"))
        assert lost.outcome is ErrorCode.REQUEST_TIMED_OUT
        assert stage.sent[1:] == [("host2", "b")]

    run(story())


def test_what_is_on_its_way_to_a_broker_that_left_fails_at_once() -> None:
    async def story() -> None:
        stage = BagStage()
        (going,) = stage.put("a")
        assert stage.sent
        (waiting,) = stage.put("b")
        stage.neighbours.image = image_of(1, 3)
        stage.bag.metadata_changed()
        assert going.outcome is ErrorCode.NETWORK_EXCEPTION
        assert waiting.outcome is ErrorCode.NETWORK_EXCEPTION
        await stage.answer(0, HeartbeatResponse())
        assert going.outcome is ErrorCode.NETWORK_EXCEPTION
        stage.neighbours.image = image_of(1, 2, 3)
        stage.put("c")
        assert stage.sent[1:] == [("host2", "c")]

    run(story())


def test_the_queue_of_a_broker_and_its_requests_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        monkeypatch.setattr(broker_batcher, "WAITING_MAX", 3)
        monkeypatch.setattr(broker_batcher, "TOGETHER_MAX", 2)
        stage = BagStage()
        notes = stage.put("a", "b", "c", "d")
        assert [note.outcome for note in notes] == [None, None, None, ErrorCode.NETWORK_EXCEPTION]
        assert stage.sent == [("host2", "a,b")]

    run(story())


# --- inquiries ----------------------------------------------------------------------------------


class InquiryStage(BagStage):
    def __init__(self) -> None:
        super().__init__()
        self.inquiries = RemoteInquiries(
            self.runtime,  # type: ignore[arg-type]
            self.peers,
            self.neighbours,
            1000,
        )
        self.verdicts: list[Any] = []

    def ask(self, name: str, *partitions: tuple[str, int], add: bool = True) -> None:
        self.inquiries.ask(2, name, Identity(7, 1), partitions, add=add, then=self.verdicts.append)
        self.runtime.advance()


def told(name: str, errors: dict[tuple[str, int], ErrorCode]) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=name,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=int(error)
                    )
                ],
            )
            for (topic, index), error in errors.items()
        ],
    )


def test_the_coordinator_is_asked_as_brokers_ask_and_its_verdict_is_handed_on() -> None:
    async def story() -> None:
        stage = InquiryStage()
        stage.ask("t", A, B, add=False)
        ((host, request),) = stage.peers.sent
        (transaction,) = request.transactions
        assert host == "host2"
        assert (transaction.transactional_id, transaction.verify_only) == ("t", True)
        assert [(t.name, t.partitions) for t in transaction.topics] == [("orders", [0, 1])]
        verdict = {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
        response = AddPartitionsToTxnResponse(results_by_transaction=[told("t", verdict)])
        await stage.answer(0, response)
        assert stage.verdicts == [verdict]

    run(story())


@pytest.mark.parametrize(
    "answer",
    [
        PeerError(ErrorCode.UNSUPPORTED_VERSION, "old"),
        AddPartitionsToTxnResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
    ],
)
def test_without_an_answer_the_producer_may_try_again(answer: Any) -> None:
    async def story() -> None:
        stage = InquiryStage()
        stage.ask("t", A)
        await stage.answer(0, answer)
        assert stage.verdicts == [{A: ErrorCode.NETWORK_EXCEPTION}]

    run(story())


def test_a_coordinator_that_does_not_know_a_new_topic_yet_is_behind() -> None:
    async def story() -> None:
        stage = InquiryStage()
        stage.ask("t", A, B)
        errors = {A: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, B: ErrorCode.OPERATION_NOT_ATTEMPTED}
        response = AddPartitionsToTxnResponse(results_by_transaction=[told("t", errors)])
        await stage.answer(0, response)
        assert stage.verdicts == [dict.fromkeys((A, B), ErrorCode.COORDINATOR_NOT_AVAILABLE)]

    run(story())


# --- the controller -----------------------------------------------------------------------------


class StageController:
    """Answers what it is asked; `answers` may hold exceptions, too."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def __call__(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer


def blocks_of(size: int) -> StageController:
    starts = iter(range(0, 10_000_000, size))
    return StageController(
        lambda _: AllocateProducerIdsResponse(producer_id_start=next(starts), producer_id_len=size)
    )


def ids_from(controller: StageController) -> ProducerIds:
    return ProducerIds(
        controller, lambda task: asyncio.ensure_future(task), broker_id=1, broker_epoch=lambda: 42
    )


def test_producer_ids_are_given_out_once_and_the_next_block_is_there_in_time() -> None:
    async def story() -> None:
        controller = blocks_of(100)
        ids = ids_from(controller)
        taken = [await ids.next() for _ in range(50)]
        assert len(controller.asked) == 1
        assert (controller.asked[0].broker_id, controller.asked[0].broker_epoch) == (1, 42)
        for _ in range(950):
            taken.append(ids.take())  # never waits
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert taken == list(range(1000))

    run(story())


def test_many_who_wait_for_producer_ids_ask_once() -> None:
    async def story() -> None:
        controller = blocks_of(1000)
        ids = ids_from(controller)
        taken = await asyncio.gather(*(ids.next() for _ in range(20)))
        assert sorted(taken) == list(range(20))
        assert len(controller.asked) == 1

    run(story())


@pytest.mark.parametrize(
    "answer",
    [
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        AllocateProducerIdsResponse(error_code=int(ErrorCode.STALE_BROKER_EPOCH)),
    ],
)
def test_a_producer_that_gets_no_id_is_told_to_try_again(answer: Any) -> None:
    async def story() -> None:
        ids = ids_from(StageController(lambda _: answer))
        with pytest.raises(KafkaError) as refused:
            await ids.next()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(story())


OFFSETS = "__consumer_offsets"
CREATED = CreateTopicsResponse(topics=[CreatableTopicResult(name=OFFSETS)])


class TopicStage:
    def __init__(self, answer: Any = CREATED, **settings: str) -> None:
        self.runtime = StageRuntime()
        self.controller = StageController(lambda _: answer)
        self.topics = InternalTopics(
            self.runtime,  # type: ignore[arg-type]
            BrokerConfig.parse({"node.id": "1", "log.dirs": "/x", **settings}),
            self.controller,
        )
        self.topics.metadata_changed(image_of(1))

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def appear(self) -> None:
        topic = TopicImage(OFFSETS, bytes(16), {})
        self.topics.metadata_changed(MetadataImage(topics={OFFSETS: topic}))


def test_an_internal_topic_is_created_once_and_waited_for_until_it_is_known_here() -> None:
    async def story() -> None:
        stage = TopicStage()
        waiting = [asyncio.ensure_future(stage.topics.ensure(OFFSETS)) for _ in range(3)]
        await stage.turn()
        assert len(stage.controller.asked) == 1
        assert not any(one.done() for one in waiting)
        stage.appear()
        await asyncio.gather(*waiting)
        await stage.topics.ensure(OFFSETS)
        assert len(stage.controller.asked) == 1

    run(story())


def test_a_topic_that_cannot_be_created_is_tried_again_by_the_next_client() -> None:
    async def story() -> None:
        code = int(ErrorCode.INVALID_REPLICATION_FACTOR)
        refusal = CreatableTopicResult(name=OFFSETS, error_code=code, error_message="no brokers")
        stage = TopicStage(CreateTopicsResponse(topics=[refusal]))
        for count in (1, 2):
            with pytest.raises(KafkaError, match="no brokers") as refused:
                await stage.topics.ensure(OFFSETS)
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            await stage.turn()
            assert len(stage.controller.asked) == count

    run(story())


def test_nobody_waits_on_for_a_topic_whose_creation_broke() -> None:
    async def story() -> None:
        stage = TopicStage(CreateTopicsResponse(topics=[]))  # an answer that nobody expects
        with pytest.raises(KafkaError) as refused:
            await stage.topics.ensure(OFFSETS)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert isinstance(stage.runtime.tasks[0].exception(), IndexError)

    run(story())


def test_a_topic_that_does_not_show_up_is_not_waited_for_forever() -> None:
    async def story() -> None:
        stage = TopicStage()
        waiting = asyncio.ensure_future(stage.topics.ensure(OFFSETS))
        await stage.turn()
        stage.runtime.advance(10)
        with pytest.raises(KafkaError):
            await waiting

    run(story())


def test_a_cluster_that_is_still_starting_gets_as_many_replicas_as_it_will_have_brokers() -> None:
    async def story() -> None:
        voters = "1@h:9093,2@h:9094,3@h:9095"
        stage = TopicStage(
            **{
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
            }
        )
        waiting = asyncio.ensure_future(stage.topics.ensure(OFFSETS))
        await stage.turn()
        assert stage.controller.asked[0].topics[0].replication_factor == 3
        alone = TopicStage()
        lonely = asyncio.ensure_future(alone.topics.ensure(OFFSETS))
        await alone.turn()
        assert alone.controller.asked[0].topics[0].replication_factor == 1
        for one in (waiting, lonely):
            one.cancel()

    run(story())
