"""One core on a stage: the test is its network, disk and clock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from raft_memory_log import Ledger, MemoryLog, first_records

from ottla.broker.raft import ids, wire
from ottla.broker.raft.core import RaftCore
from ottla.broker.raft.effects import Effects, Request
from ottla.broker.raft.events import (
    Event,
    LogAppended,
    LogFlushed,
    RequestReceived,
    ResponseReceived,
    TimePassed,
)
from ottla.broker.raft.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from ottla.broker.raft.settings import SUPPORTED_KRAFT_VERSIONS, RaftSettings
from ottla.broker.raft.voters.voters import Voter, VoterSet
from ottla.protocol.messages import begin_quorum_epoch as begin
from ottla.protocol.messages import vote
from ottla.protocol.schema import Message

LISTENER = "CONTROLLER"


def directory(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, directory(node_id))


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), (Endpoint(LISTENER, "host", node_id),), SUPPORTED_KRAFT_VERSIONS)


def settings(node_id: int, voters: Sequence[int], **changes: Any) -> RaftSettings:
    nodes = [ids.Node(each, "host", each) for each in voters]
    chosen: dict[str, Any] = {
        "key": key(node_id),
        "cluster_id": "cluster",
        "listener": LISTENER,
        "endpoints": voter(node_id).endpoints,
        "static_voters": VoterSet.static(LISTENER, nodes),
        "bootstrap": tuple(nodes),
    }
    return RaftSettings(**(chosen | changes))


class Stage:
    """Node 1 of some voters; `dynamic` ones stand in the log and can change."""

    def __init__(
        self,
        voters: Sequence[int] = (1, 2, 3),
        *,
        dynamic: bool = False,
        epochs: Sequence[int] = (),
        quorum_state: bytes | None = None,
        node_id: int = 1,
        **changes: Any,
    ) -> None:
        first = first_records(VoterSet(voter(each) for each in voters).to_record())
        self.settings = settings(node_id, voters, **changes)
        self.log = MemoryLog(Ledger(), first if dynamic else ())
        self.log.append([self.log.ledger.write(epoch) for epoch in epochs])
        self.log.begin_flush()
        self.log.finish_flush()
        self.now_ms = 1_000
        self.effects = Effects()
        self.sent: list[Request] = []
        self.core = RaftCore(self.settings, self.log, quorum_state, random.Random(5), self.now_ms)
        self.tell(TimePassed())

    @property
    def state(self) -> str:
        return type(self.core.state).__name__

    def tell(self, event: Event) -> Effects:
        self.effects = self.core.handle(event, self.now_ms)
        self.sent += self.effects.requests
        return self.effects

    def pass_time(self, ms: int) -> Effects:
        self.now_ms += ms
        return self.tell(TimePassed())

    def wait(self) -> Effects:
        """Until the core wants to be woken."""
        assert self.effects.wake_at_ms is not None
        return self.pass_time(max(0, self.effects.wake_at_ms - self.now_ms))

    def flush(self) -> Effects:
        self.log.begin_flush()
        self.log.finish_flush()
        return self.tell(LogFlushed())

    def append(self, count: int = 1) -> Effects:
        self.log.append([self.log.ledger.write(self.core.epoch) for _ in range(count)])
        return self.tell(LogAppended())

    def ask(self, message: Message, version: int | None = None, wall_ms: int = 0) -> Any:
        """The answer to a request, None if it waits."""
        if version is None:
            version = type(message).VERSIONS[1]
        token = object()
        self.tell(RequestReceived(token, message, version, wall_ms))
        return self.answer_to(token)

    def answer_to(self, token: object) -> Any:
        return next((each.message for each in self.effects.answers if each.token is token), None)

    def requests(self, kind: type[Message]) -> list[Request]:
        """Of this kind, since last asked."""
        found = [each for each in self.sent if isinstance(each.message, kind)]
        self.sent = [each for each in self.sent if not isinstance(each.message, kind)]
        return found

    def respond(self, request: Request, message: Message) -> Effects:
        return self.tell(ResponseReceived(request.correlation_id, message))

    def grant_votes(self) -> None:
        """Let every voter that is asked say yes."""
        for request in self.requests(vote.VoteRequest):
            assert isinstance(request.message, vote.VoteRequest)
            asked = request.message.topics[0].partitions[0]
            self.respond(request, vote_response(asked.replica_epoch, granted=True))

    def become_leader(self) -> None:
        for _ in range(50):
            if self.core.is_leader:
                break
            if any(isinstance(each.message, vote.VoteRequest) for each in self.sent):
                self.grant_votes()
            else:
                self.wait()
        assert self.core.is_leader
        self.flush()

    def follow(self, leader_id: int = 2, epoch: int = 5) -> None:
        answer = self.ask(begin_request(leader_id, epoch))
        assert answer.topics[0].partitions[0].error_code == 0
        assert self.state == "Follower"


def vote_response(epoch: int, *, granted: bool, leader_id: int = -1) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        leader_id=leader_id, leader_epoch=epoch, vote_granted=granted
    )
    topic = vote.ResponseTopicData(topic_name=ids.CLUSTER_METADATA, partitions=[partition])
    return vote.VoteResponse(topics=[topic])


def vote_request(
    candidate: int, epoch: int, log_end: OffsetAndEpoch, *, pre_vote: bool = False, to: int = 1
) -> vote.VoteRequest:
    return wire.vote_request(settings(candidate, ()), epoch, key(to), log_end, pre_vote=pre_vote)


def begin_request(leader_id: int, epoch: int, to: int = 1) -> begin.BeginQuorumEpochRequest:
    request = wire.begin_request(settings(leader_id, ()), epoch, key(to))
    assert isinstance(request, begin.BeginQuorumEpochRequest)
    return request


def partition_of(message: Any) -> Any:
    topics = message.responses if hasattr(message, "responses") else message.topics
    return topics[0].partitions[0]
