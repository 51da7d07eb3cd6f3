"""Registration, heartbeats, fencing and leaving, against a controller that answers as told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.membership.lifecycle import IdTaken, Lifecycle
from ottla.broker.membership.registration import NOT_CLEAN, Identity, common_epoch
from ottla.broker.metadata.image import Endpoint, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run

IDENTITY = Identity(
    1, "cluster", b"i" * 16, [Endpoint("PLAINTEXT", "localhost", 9092)], "r", [b"a" * 16, b"b" * 16]
)
SETTINGS = {
    "broker.heartbeat.interval.ms": 20,
    "broker.session.timeout.ms": 500,
    "initial.broker.registration.timeout.ms": 1_000,
}
FENCED = BrokerHeartbeatResponse()
UNFENCED = BrokerHeartbeatResponse(is_fenced=False)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what changes tells nobody
            await asyncio.sleep(0.005)


class Controller:
    """Answers by default as one that is content. What is in the lists comes first; an error code
    stands for an answer with it. It is also how far the metadata has come."""

    def __init__(self) -> None:
        self.registrations: list[ErrorCode] = []
        self.beats: list[BrokerHeartbeatResponse | ErrorCode] = []
        self.registered: list[BrokerRegistrationRequest] = []
        self.heard: list[BrokerHeartbeatRequest] = []
        self.image = MetadataImage(offset=41)
        self.failures: list[Exception] = []
        self.lets_go = True

    async def ask(self, request: Message, **_: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, BrokerRegistrationRequest):
            self.registered.append(request)
            code = self.registrations.pop(0) if self.registrations else ErrorCode.NONE
            return BrokerRegistrationResponse(error_code=code, broker_epoch=42)
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heard.append(request)
        answer = self.beats.pop(0) if self.beats else UNFENCED
        if isinstance(answer, ErrorCode):
            return BrokerHeartbeatResponse(error_code=answer)
        if request.want_shut_down and self.lets_go:
            return BrokerHeartbeatResponse(should_shut_down=True)
        return answer

    async def wait_for(self, offset: int) -> None:
        self.image = MetadataImage(offset=offset)

    async def until_heard(self, count: int) -> None:
        await until(lambda: len(self.heard) >= count)


def living(
    controller: Controller,
    test: Callable[[Lifecycle], Awaitable[None]],
    **settings: int,
) -> None:
    given = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}

    async def main(runtime: OsRuntime) -> None:
        lifecycle = Lifecycle(
            runtime, controller.ask, controller, IDENTITY, given, controller.failures.append
        )
        try:
            await test(lifecycle)
        finally:
            lifecycle.close()

    run(main)


def test_a_broker_registers_waits_for_its_registration_and_beats_with_its_epoch() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        assert lifecycle.broker_epoch == 42
        assert lifecycle.is_fenced
        await lifecycle.serve()
        assert not lifecycle.is_fenced
        await controller.until_heard(3)

    living(controller, test)
    (request,) = controller.registered
    assert (request.broker_id, request.rack, request.log_dirs) == (1, "r", [b"a" * 16, b"b" * 16])
    assert [listener.port for listener in request.listeners] == [9092]
    first = controller.heard[0]
    assert (first.broker_epoch, first.current_metadata_offset, first.want_fence) == (42, 42, False)


def test_registration_is_tried_again_while_the_former_process_counts_as_alive() -> None:
    controller = Controller()
    controller.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 3
    living(controller, lambda lifecycle: lifecycle.register())
    assert len(controller.registered) == 4


def test_a_broker_whose_id_stays_taken_says_so() -> None:
    controller = Controller()
    controller.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 100

    async def test(lifecycle: Lifecycle) -> None:
        with pytest.raises(IdTaken, match="another process is registered as broker 1"):
            await lifecycle.register()

    living(controller, test, initial_broker_registration_timeout_ms=300)


def test_a_last_question_without_an_answer_does_not_hide_that_the_id_is_taken() -> None:
    controller = Controller()
    controller.registrations = [
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        *[ErrorCode.REQUEST_TIMED_OUT] * 100,
    ]

    async def test(lifecycle: Lifecycle) -> None:
        with pytest.raises(IdTaken):
            await lifecycle.register()

    living(controller, test, initial_broker_registration_timeout_ms=300)


def test_a_broker_of_another_cluster_is_told_at_once() -> None:
    controller = Controller()
    controller.registrations = [ErrorCode.INCONSISTENT_CLUSTER_ID] * 100

    async def test(lifecycle: Lifecycle) -> None:
        with pytest.raises(RuntimeError, match="does not register broker 1"):
            await lifecycle.register()

    living(controller, test)
    assert len(controller.registered) == 1


def test_serving_begins_when_the_controller_unfences() -> None:
    controller = Controller()
    controller.beats = [FENCED, FENCED, UNFENCED]

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        assert len(controller.heard) >= 3

    living(controller, test)


def test_a_broker_that_was_fenced_finds_out_and_comes_back() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        controller.beats = [FENCED, FENCED]
        await controller.until_heard(len(controller.heard) + 2)
        assert lifecycle.is_fenced
        await controller.until_heard(len(controller.heard) + 3)
        assert not lifecycle.is_fenced

    living(controller, test)
    assert controller.failures == []


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_is_not_known_any_more_registers_again(code: ErrorCode) -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        controller.beats = [code]
        await lifecycle.serve()

    living(controller, test)
    assert len(controller.registered) == 2
    assert controller.registered[0].incarnation_id == controller.registered[1].incarnation_id


def test_a_broker_whose_id_another_process_took_over_stops() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        controller.beats = [ErrorCode.STALE_BROKER_EPOCH]
        controller.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION]
        await until(lambda: bool(controller.failures))

    living(controller, test)
    (failure,) = controller.failures
    assert isinstance(failure, IdTaken)


def test_the_controller_hears_of_a_failed_folder_at_once() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        lifecycle.directories_changed([b"a" * 16])
        await controller.until_heard(2)

    living(controller, test, broker_heartbeat_interval_ms=60_000)
    assert controller.heard[-1].offline_log_dirs == [b"b" * 16]


def test_a_broker_leaves_when_the_controller_lets_it_go() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        assert await lifecycle.leave(5)

    living(controller, test, broker_heartbeat_interval_ms=60_000)


def test_a_broker_does_not_wait_for_ever_to_be_let_go() -> None:
    controller = Controller()
    controller.lets_go = False

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        assert not await lifecycle.leave(0.2)

    living(controller, test)
    assert controller.heard[-1].want_shut_down


def test_a_broker_that_finds_no_controller_goes_at_once() -> None:
    controller = Controller()

    async def test(lifecycle: Lifecycle) -> None:
        await lifecycle.register()
        await lifecycle.serve()
        controller.beats = [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert not await lifecycle.leave(60)

    living(controller, test, broker_heartbeat_interval_ms=60_000)


def test_the_last_epoch_counts_only_if_all_folders_agree() -> None:
    assert common_epoch([7, 7]) == 7
    assert common_epoch([7, 8]) == NOT_CLEAN
    assert common_epoch([7, NOT_CLEAN]) == NOT_CLEAN
