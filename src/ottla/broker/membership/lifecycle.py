"""A broker's lifecycle at its controller: registered, unfenced, sending heartbeats, shut down.

    register -> heartbeats while fenced, until all metadata up to the registration is here
    -> unfenced -> heartbeats every `broker.heartbeat.interval.ms`
    -> heartbeats that ask for a shutdown, until no partition is led here any more

The controller fences a broker that was silent for `broker.session.timeout.ms` (after a pause or a
network failure), or that missed heartbeats while its listeners refused connections. The answer to
its next heartbeat says so, and later heartbeats unfence it. If the controller does not know this
broker (it was unregistered, or another process took its id), it registers again; if another process
uses the id, this one must stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from ottla.broker.membership.registration import FATAL, Identity, registration_request
from ottla.broker.metadata.image import MetadataImage
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.schema import Message
from ottla.runtime.runtime import Runtime

log = get_logger("ottla.node")

LANE: Final = "lifecycle"
RETRY_S: Final = 0.1
"""The time between attempts to register, and between heartbeats while the broker waits to be
unfenced."""
DRAIN_S: Final = 0.05
"""The time between heartbeats while partitions move away."""
NO_CONTROLLER_S_MAX: Final = 2.0
"""How long a stopping broker waits for a controller to answer: if all nodes are stopped at the same
time, the last ones have none."""

UNKNOWN_HERE: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class Ask(Protocol):
    def __call__(
        self, request: Message, *, timeout_ms: int | None = None, lane: str = LANE
    ) -> Awaitable[Any]: ...


class Progress(Protocol):
    """How much of the metadata this broker has; implemented by the metadata log."""

    @property
    def image(self) -> MetadataImage: ...

    async def wait_for(self, offset: int) -> None: ...


class Settings(Protocol):
    def __getitem__(self, name: str) -> Any: ...


class Unregistrable(RuntimeError):
    """The controller does not register this broker; the message says why."""


class IdTaken(Unregistrable):
    """Another process uses the id of this node."""

    def __init__(self, node_id: int) -> None:
        super().__init__(
            f"another process is registered as broker {node_id}: give each node a node.id of its "
            "own, or stop the other one"
        )


class Lifecycle:
    def __init__(
        self,
        runtime: Runtime,
        ask: Ask,
        progress: Progress,
        identity: Identity,
        settings: Settings,
        on_failure: Callable[[Exception], object],
    ) -> None:
        """`on_failure` is called with the reason why this broker cannot continue."""
        self.broker_epoch = -1
        self.is_fenced = True
        self.identity = identity
        self._runtime = runtime
        self._ask = ask
        self._progress = progress
        self._on_failure = on_failure
        self._interval_s: float = settings["broker.heartbeat.interval.ms"] / 1000
        self._session_ms: int = settings["broker.session.timeout.ms"]
        self._patience_s: float = settings["initial.broker.registration.timeout.ms"] / 1000
        self._online = tuple(identity.directories)
        self._offline: tuple[bytes, ...] = ()
        self._cordoned: tuple[bytes, ...] = ()
        self._shutting_down = False
        self._closed = False
        self._wake = asyncio.Event()
        self._unfenced = asyncio.Event()

    def epoch(self) -> int:
        """Return the epoch of the registration; -1 before it."""
        return self.broker_epoch

    # --- registration ---------------------------------------------------------------------------

    async def register(self) -> None:
        """Register, and set `broker_epoch`. Retries for `initial.broker.registration.timeout.ms`:
        the session of a process that was killed must expire before its successor is registered."""
        now = self._runtime.clock.now
        deadline = now() + self._patience_s
        refusal: KafkaError | None = None
        told = False
        while True:
            try:
                await self._register(timeout_ms=max(1, int((deadline - now()) * 1000)))
                return
            except KafkaError as error:
                if error.code != ErrorCode.REQUEST_TIMED_OUT:
                    refusal = error
                if error.code in FATAL or now() + RETRY_S >= deadline:
                    # No answer in the last moment says less than an earlier refusal.
                    raise self._unregistrable(refusal or error) from error
                if not told:
                    log.warning("waiting to be registered", broker=self._id, reason=str(error))
                    told = True
            await asyncio.sleep(RETRY_S)

    def _unregistrable(self, error: KafkaError) -> Exception:
        if error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return IdTaken(self._id)
        return Unregistrable(f"the controller does not register broker {self._id}: {error}")

    async def _register(self, *, timeout_ms: int) -> None:
        request = registration_request(self.identity, self._online)
        response = await self._ask(request, timeout_ms=timeout_ms, lane=LANE)
        code = ErrorCode.of(response.error_code)
        if code != ErrorCode.NONE:
            raise KafkaError(code)
        self.broker_epoch = response.broker_epoch
        await self._progress.wait_for(self.broker_epoch)

    async def serve(self) -> None:
        """Start the heartbeats; return when the controller has unfenced this broker for the first
        time."""
        self._runtime.spawn(self._beat_for_ever(), name="heartbeats")
        await self._unfenced.wait()

    # --- heartbeats -----------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        while not self._is_over:
            self._wake.clear()
            sent_at = self._runtime.clock.now()
            try:
                self._take(await self._beat(self._session_ms))
            except KafkaError as error:
                if not self._is_over:
                    log.warning("a heartbeat failed", broker=self._id, reason=str(error))
                    await self._recover(error)
            if not self._is_over:
                await self._pause(sent_at)

    @property
    def _is_over(self) -> bool:
        return self._closed or self._shutting_down

    async def _beat(self, timeout_ms: int) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._progress.image.offset,
            want_shut_down=self._shutting_down,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=list(self._cordoned),
        )
        response: BrokerHeartbeatResponse = await self._ask(
            request, timeout_ms=timeout_ms, lane=LANE
        )
        code = ErrorCode.of(response.error_code)
        if code != ErrorCode.NONE:
            raise KafkaError(code)
        return response

    def _take(self, response: BrokerHeartbeatResponse) -> None:
        if response.is_fenced and not self.is_fenced:
            log.warning(
                "this broker was fenced: the controller did not hear of it for "
                f"broker.session.timeout.ms={self._session_ms}, or missed heartbeats and was "
                "refused by its advertised listeners. It is coming back",
                broker=self._id,
            )
        elif not response.is_fenced and self.is_fenced and self._unfenced.is_set():
            log.warning("this broker is unfenced again", broker=self._id)
        self.is_fenced = response.is_fenced
        if not response.is_fenced:
            self._unfenced.set()

    async def _recover(self, error: KafkaError) -> None:
        """Register again if the controller no longer knows this broker."""
        if error.code not in UNKNOWN_HERE:
            return
        self.is_fenced = True
        try:
            await self._register(timeout_ms=self._session_ms)
        except KafkaError as refusal:
            if refusal.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                self._closed = True
                self._on_failure(IdTaken(self._id))
            else:
                log.warning("cannot register again", broker=self._id, reason=str(refusal))
        else:
            log.warning("registered again", broker=self._id, epoch=self.broker_epoch)

    async def _pause(self, sent_at: float) -> None:
        interval_s = min(self._interval_s, RETRY_S) if self.is_fenced else self._interval_s
        left_s = sent_at + interval_s - self._runtime.clock.now()
        if left_s > 0:
            waking = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait({waking}, timeout=left_s)
            waking.cancel()

    def directories_changed(self, online: Sequence[bytes]) -> None:
        """Report a failed log dir to the controller at once."""
        self._offline += tuple(set(self._online) - set(online))
        self._online = tuple(online)
        self._wake.set()

    def cordon(self, directories: Sequence[bytes]) -> None:
        """Report to the controller at once which log dirs take no new partitions."""
        if set(directories) != set(self._cordoned):
            self._cordoned = tuple(directories)
            self._wake.set()

    @property
    def _id(self) -> int:
        return self.identity.broker_id

    # --- leaving --------------------------------------------------------------------------------

    async def leave(self, timeout_s: float) -> bool:
        """Let other brokers take over the partitions led here. Returns False if that took too long,
        or no controller answered."""
        self._shutting_down = True
        self._wake.set()
        now = self._runtime.clock.now
        deadline = now() + timeout_s
        while (left_s := deadline - now()) > 0:
            try:
                response = await self._beat(int(min(left_s, NO_CONTROLLER_S_MAX) * 1000))
            except KafkaError as error:
                log.warning(
                    "the request for a controlled shutdown failed",
                    broker=self._id,
                    reason=str(error),
                )
                return False
            if response.should_shut_down:
                return True
            await asyncio.sleep(DRAIN_S)
        return False

    def close(self) -> None:
        """Stop the heartbeats."""
        self._closed = True
        self._wake.set()
