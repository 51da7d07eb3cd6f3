"""What nodes ask each other with, against peers that answer late, wrongly or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scripted_broker import ScriptedBroker, negotiating

from ottla.broker.peers.connected import ConnectedPeers
from ottla.broker.peers.peers import PeerError
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.vote import (
    RequestPartitionData,
    RequestTopicData,
    VoteRequest,
    VoteResponse,
)
from ottla.runtime.os_runtime import OsRuntime, run

Work = Callable[[ConnectedPeers, str, int, ScriptedBroker], Awaitable[None]]


def with_peer(
    work: Work,
    answers: Callable[[RequestHeader, Any], Any] | None,
    versions: dict[int, tuple[int, int]] | None = None,
) -> None:
    """`answers` gives the response, or None for silence; without it nothing is answered at all."""

    async def answer(
        broker: ScriptedBroker, header: RequestHeader, request: Any, writer: asyncio.StreamWriter
    ) -> None:
        response = answers(header, request) if answers else None
        if response is not None:
            broker.send(writer, header, response)

    async def main(runtime: OsRuntime) -> None:
        broker = ScriptedBroker(negotiating(answer) if answers else answer, versions)
        async with broker as (host, port):
            peers = ConnectedPeers(runtime)
            try:
                await work(peers, host, port, broker)
            finally:
                peers.close()

    run(main)


def numbered(number: int) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="t", producer_id=number)


def echo(_: RequestHeader, request: Any) -> EndTxnResponse:
    return EndTxnResponse(producer_id=request.producer_id)


def test_answers_come_in_order_over_one_connection() -> None:
    async def work(peers: ConnectedPeers, host: str, port: int, broker: ScriptedBroker) -> None:
        posted = [peers.post(host, port, numbered(n), timeout_ms=5_000) for n in range(20)]
        answers = await asyncio.gather(*posted)
        assert [answer.producer_id for answer in answers] == list(range(20))
        keys = [header.api_key for header in broker.requests]
        assert keys.count(ApiKey.API_VERSIONS) == 1

    with_peer(work, echo)


def test_a_lane_does_not_wait_for_another() -> None:
    def answers(header: RequestHeader, request: Any) -> Any:
        return None if request.producer_id == 0 else echo(header, request)

    async def work(peers: ConnectedPeers, host: str, port: int, _: ScriptedBroker) -> None:
        stuck = peers.post(host, port, numbered(0), timeout_ms=5_000, lane="slow")
        answer = await peers.post(host, port, numbered(1), timeout_ms=5_000, lane="fast")
        assert answer.producer_id == 1
        assert not stuck.done()
        peers.drop(host, port)
        with pytest.raises(PeerError) as failed:
            await stuck
        assert failed.value.code is ErrorCode.NETWORK_EXCEPTION

    with_peer(work, answers)


def test_silence_ends_after_the_time_limit_and_the_next_request_gets_through() -> None:
    def answers(header: RequestHeader, request: Any) -> Any:
        return None if request.producer_id == 0 else echo(header, request)

    async def work(peers: ConnectedPeers, host: str, port: int, _: ScriptedBroker) -> None:
        for _attempt in range(2):
            with pytest.raises(PeerError) as failed:
                await peers.post(host, port, numbered(0), timeout_ms=100)
            assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert (await peers.post(host, port, numbered(1), timeout_ms=5_000)).producer_id == 1

    with_peer(work, answers)


def test_a_peer_that_accepts_and_is_silent_is_given_up() -> None:
    async def work(peers: ConnectedPeers, host: str, port: int, _: ScriptedBroker) -> None:
        began = asyncio.get_running_loop().time()
        with pytest.raises(PeerError) as failed:
            await peers.post(host, port, numbered(0), timeout_ms=200)
        assert failed.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)
        assert asyncio.get_running_loop().time() - began < 2

    with_peer(work, None)


def test_a_closed_port_fails_at_once() -> None:
    async def main(runtime: OsRuntime) -> None:
        peers = ConnectedPeers(runtime)
        with pytest.raises(PeerError) as failed:
            await peers.post("127.0.0.1", 1, numbered(0), timeout_ms=5_000)
        assert failed.value.code is ErrorCode.NETWORK_EXCEPTION
        peers.close()
        with pytest.raises(PeerError):
            await peers.post("127.0.0.1", 1, numbered(0), timeout_ms=5_000)

    run(main)


def test_what_the_peer_does_not_speak_is_unsupported() -> None:
    def pre_vote(asked: bool) -> VoteRequest:
        partition = RequestPartitionData(pre_vote=asked)
        return VoteRequest(topics=[RequestTopicData(partitions=[partition])])

    async def work(peers: ConnectedPeers, host: str, port: int, _: ScriptedBroker) -> None:
        for request, version in (
            (numbered(0), None),  # an API it does not have
            (pre_vote(True), None),  # a field that its version cannot say
            (pre_vote(False), 2),  # a version it does not have
        ):
            with pytest.raises(PeerError) as failed:
                await peers.post(host, port, request, timeout_ms=5_000, version=version)
            assert failed.value.code is ErrorCode.UNSUPPORTED_VERSION
        answer = await peers.post(host, port, pre_vote(False), timeout_ms=5_000)
        assert isinstance(answer, VoteResponse)

    versions = {int(ApiKey.API_VERSIONS): (0, 4), int(ApiKey.VOTE): (0, 1)}
    with_peer(work, lambda header, request: VoteResponse(), versions)
