"""The way to the active controller, while that changes, is away, or says that it is not the one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.membership import controller_link
from ottla.broker.membership.controller_link import ControllerLink, says_not_controller
from ottla.broker.peers.peers import PeerError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run

BEAT = BrokerHeartbeatRequest(broker_id=1)
GOOD = BrokerHeartbeatResponse(is_fenced=False)
NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
LOST = PeerError(ErrorCode.NETWORK_EXCEPTION, "connection refused")

Answer = Message | PeerError | None
"""None: no answer ever comes."""


class Cluster:
    """Who leads, by address, and what each address answers, in order. Also the `Peers`."""

    def __init__(self, answers: dict[tuple[str, int], list[Answer]]) -> None:
        self.answers = answers
        self.leader: tuple[str, int] | None = None
        self.is_leader = False
        self.asked: list[tuple[str, int]] = []
        self.was_looked_for = asyncio.Event()
        self.was_asked = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    def leader_endpoint(self) -> tuple[str, int] | None:
        self.was_looked_for.set()
        return self.leader

    def on_leader_change(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)

    def elect(self, leader: tuple[str, int] | None, *, here: bool = False) -> None:
        self.leader, self.is_leader = leader, here
        for callback in self._callbacks:
            callback()

    def post(self, host: str, port: int, request: Message, **_: Any) -> asyncio.Future[Any]:
        self.asked.append((host, port))
        self.was_asked.set()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer = self.answers[host, port].pop(0)
        if isinstance(answer, PeerError):
            reply.set_exception(answer)
        elif answer is not None:
            reply.set_result(answer)
        return reply

    def drop(self, host: str, port: int) -> None: ...

    def close(self) -> None: ...


A, B = ("a", 1), ("b", 1)


def linked(
    cluster: Cluster,
    test: Callable[[ControllerLink], Awaitable[None]],
    serve_here: Callable[[Message, int | None], Awaitable[Any]] | None = None,
) -> None:
    async def nobody(request: Message, version: int | None) -> Any:
        raise AssertionError("this node does not lead")

    async def main(runtime: OsRuntime) -> None:
        link = ControllerLink(runtime, cluster, cluster, serve_here or nobody, timeout_ms=2_000)
        await test(link)

    run(main)


def test_the_leader_is_asked_and_its_answer_comes_back() -> None:
    cluster = Cluster({A: [GOOD]})
    cluster.leader = A

    async def test(link: ControllerLink) -> None:
        assert await link.ask(BEAT) is GOOD

    linked(cluster, test)


def test_a_node_that_leads_answers_itself() -> None:
    async def serve_here(request: Message, version: int | None) -> Any:
        assert (request, version) == (BEAT, 1)
        return GOOD

    async def test(link: ControllerLink) -> None:
        assert await link.ask(BEAT, version=1) is GOOD

    cluster = Cluster({})
    cluster.is_leader = True
    linked(cluster, test, serve_here)
    assert cluster.asked == []


def test_a_request_is_asked_again_where_it_was_refused_or_lost() -> None:
    cluster = Cluster({A: [LOST, NOT_CONTROLLER, GOOD]})
    cluster.leader = A

    async def test(link: ControllerLink) -> None:
        assert await link.ask(BEAT) is GOOD

    linked(cluster, test)
    assert cluster.asked == [A, A, A]


def test_a_request_waits_for_a_leader_and_is_asked_at_once_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster({A: [GOOD]})
    monkeypatch.setattr(controller_link, "PAUSE_S_MIN", 60)  # longer than its two seconds

    async def test(link: ControllerLink) -> None:
        asked = asyncio.ensure_future(link.ask(BEAT))
        await cluster.was_looked_for.wait()
        began = asyncio.get_running_loop().time()
        cluster.elect(A)
        assert await asked is GOOD
        assert asyncio.get_running_loop().time() - began < 1

    linked(cluster, test)


def test_a_request_to_a_leader_that_fell_silent_is_asked_of_the_next_one() -> None:
    cluster = Cluster({A: [None], B: [GOOD]})
    cluster.leader = A

    async def test(link: ControllerLink) -> None:
        asked = asyncio.ensure_future(link.ask(BEAT))
        await cluster.was_asked.wait()
        cluster.elect(B)
        assert await asked is GOOD

    linked(cluster, test)
    assert cluster.asked == [A, B]


def test_a_node_that_becomes_leader_answers_what_it_had_asked_of_another() -> None:
    async def serve_here(request: Message, version: int | None) -> Any:
        return GOOD

    async def test(link: ControllerLink) -> None:
        asked = asyncio.ensure_future(link.ask(BEAT))
        await cluster.was_asked.wait()
        cluster.elect(None, here=True)
        assert await asked is GOOD

    cluster = Cluster({A: [None]})
    cluster.leader = A
    linked(cluster, test, serve_here)


def test_without_a_leader_the_request_times_out_and_says_why() -> None:
    async def test(link: ControllerLink) -> None:
        with pytest.raises(KafkaError, match="no controller is active") as caught:
            await link.ask(BEAT, timeout_ms=50)
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT

    linked(Cluster({}), test)


def test_a_controller_that_is_silent_is_named_without_the_last_millisecond() -> None:
    late = PeerError(ErrorCode.REQUEST_TIMED_OUT, "no answer from a:1 within 1 ms")
    cluster = Cluster({A: [late] * 50})
    cluster.leader = A

    async def test(link: ControllerLink) -> None:
        with pytest.raises(KafkaError, match="within 50 ms: a:1 did not answer in time"):
            await link.ask(BEAT, timeout_ms=50)

    linked(cluster, test)


def test_what_the_controller_here_refuses_is_not_asked_again() -> None:
    async def serve_here(request: Message, version: int | None) -> Any:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)

    async def test(link: ControllerLink) -> None:
        with pytest.raises(KafkaError) as caught:
            await link.ask(BEAT)
        assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH

    cluster = Cluster({})
    cluster.is_leader = True
    linked(cluster, test, serve_here)


def test_a_leader_that_cannot_commit_is_not_waited_for_longer_than_asked() -> None:
    async def serve_here(request: Message, version: int | None) -> Any:
        await asyncio.sleep(60)

    async def test(link: ControllerLink) -> None:
        with pytest.raises(KafkaError) as caught:
            await link.ask(BEAT, timeout_ms=50)
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT

    cluster = Cluster({})
    cluster.is_leader = True
    linked(cluster, test, serve_here)


def test_a_refusal_is_found_also_where_each_topic_carries_it() -> None:
    refused = CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)
    assert says_not_controller(CreateTopicsResponse(topics=[refused]))
    assert not says_not_controller(CreateTopicsResponse(topics=[CreatableTopicResult()]))
    assert not says_not_controller(CreateTopicsResponse())
