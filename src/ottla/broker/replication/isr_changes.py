"""Sends ISR proposals to the controller: batched, one request at a time, until answered.

A proposal stands until the controller has answered it or newer metadata has replaced it: it is then
no longer pending at the leader, and is not sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.replication import isr
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.replication.cluster_view import ClusterView
    from ottla.broker.replication.leader_state import Proposal
    from ottla.broker.replication.partition import Partition
    from ottla.runtime.runtime import Runtime

log = get_logger("ottla.replication")

PROPOSALS_MAX: Final = 1_000
"""The most proposals in one request."""
PAUSE_S: Final = 0.05
RECOVERED: Final = 0

Ask = Callable[[Message], Awaitable[Any]]
"""Sends a request to the active controller. Raises `KafkaError` if there is none for too long."""


class IsrChanges:
    def __init__(self, runtime: Runtime, view: ClusterView, ask: Ask) -> None:
        self._runtime = runtime
        self._view = view
        self._ask = ask
        self._waiting: dict[Partition, Proposal] = {}
        self._brokers_then: dict[Partition, object] = {}
        """By partition whose proposal is under way: the brokers that were known when it was
        made."""
        self._sending = False
        self._closed = False

    def submit(self, partition: Partition, proposal: Proposal) -> None:
        self._waiting[partition] = proposal
        self._brokers_then[partition] = self._view.image.brokers
        if not self._sending and not self._closed:
            self._sending = True
            self._runtime.spawn(self._send_all(), name="isr-changes")

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    async def _send_all(self) -> None:
        try:
            await asyncio.sleep(0)  # include what else is decided in this turn of the loop
            while self._waiting and not self._closed:
                sent = self._take()
                if sent and not await self._send(sent):
                    await asyncio.sleep(PAUSE_S)
        finally:
            self._sending = False
            self._brokers_then.clear()

    def _take(self) -> dict[Partition, Proposal]:
        taken = dict(islice(self._waiting.items(), PROPOSALS_MAX))
        for partition in taken:
            del self._waiting[partition]
        return {p: proposal for p, proposal in taken.items() if _stands(p, proposal)}

    async def _send(self, sent: dict[Partition, Proposal]) -> bool:
        """Send a request; True if all proposals were answered."""
        try:
            response = await self._ask(self._request(sent))
        except KafkaError as error:
            log.warning("an AlterPartition request failed", error=str(error))
            self._again(sent)
            return False
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            log.warning("the controller refused an AlterPartition request", error=code.name)
            self._again(sent)
            return False
        return self._take_answers(sent, response)

    def _request(self, sent: dict[Partition, Proposal]) -> AlterPartitionRequest:
        topics: dict[bytes, RequestTopicData] = {}
        for partition, proposal in sent.items():
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = RequestTopicData(topic_id=partition.topic_id)
            topic.partitions.append(_asked(partition, proposal))
        return AlterPartitionRequest(
            broker_id=self._view.node_id,
            broker_epoch=self._view.broker_epoch(),
            topics=list(topics.values()),
        )

    def _take_answers(
        self, sent: dict[Partition, Proposal], response: AlterPartitionResponse
    ) -> bool:
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        unheard: dict[Partition, Proposal] = {}
        for partition, proposal in sent.items():
            answer = answers.get((partition.topic_id, partition.index))
            if answer is None or not self._take_answer(partition, proposal, answer):
                unheard[partition] = proposal
        self._again(unheard)
        return not unheard

    def _take_answer(
        self, partition: Partition, proposal: Proposal, answer: ResponsePartitionData
    ) -> bool:
        """Process an answer; False if the proposal must be sent again."""
        leading = partition.leading
        if leading is None:
            return True
        if answer.error_code:
            code = ErrorCode.of(answer.error_code)
            log.info(
                "the controller refused a change of in-sync replicas",
                partition=str(partition),
                error=code.name,
            )
            again = leading.refused(proposal, code)
            isr.refused(partition)
            if self._brokers_then.get(partition) is not self._view.image.brokers:
                # The change of brokers that caused the refusal was applied before the refusal
                # came, so no later change will cause a review.
                isr.review(partition)
            return not again
        before = leading.isr
        if leading.accepted(proposal, answer.isr, answer.leader_epoch, answer.partition_epoch):
            log.info(
                "in-sync replicas changed",
                partition=str(partition),
                before=list(before),
                now=list(leading.isr),
            )
            isr.accepted(partition)
        return True

    def _again(self, unheard: dict[Partition, Proposal]) -> None:
        for partition, proposal in unheard.items():
            if _stands(partition, proposal):
                self._waiting.setdefault(partition, proposal)


def _stands(partition: Partition, proposal: Proposal) -> bool:
    return partition.leading is not None and partition.leading.pending is proposal


def _asked(partition: Partition, proposal: Proposal) -> RequestPartitionData:
    return RequestPartitionData(
        partition_index=partition.index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=broker_id, broker_epoch=epoch)
            for broker_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ],
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
