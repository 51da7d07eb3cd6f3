"""Holds requests for a coordinator whose topic this broker does not know yet.

FindCoordinator creates the topic and names its leader as soon as one broker has it in its metadata.
The leader itself may learn of it a moment later, and some clients do not repeat a refused request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.coordinator.shard import Token
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.runtime.runtime import Runtime, Timer

WAIT_S: Final = 1.0
PAUSE_S: Final = 10.0
"""How long no request is held after one was held in vain. Without this pause, while nobody creates
the topic, each piece of a large request and each retry of a client would wait."""
REQUESTS_MAX: Final = 100
"""The most requests held at once, because each may take as much memory as
`socket.request.max.bytes` allows."""


class _Held(NamedTuple):
    token: Token
    resume: Callable[[], None]


class EarlyRequests:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: list[_Held] = []
        self._timer: Timer | None = None
        self._pause_until_s = -math.inf

    def hold(self, token: Token, resume: Callable[[], None]) -> None:
        """Call `resume` on `resume_all`, or refuse `token` with NOT_COORDINATOR after WAIT_S."""
        if len(self._held) >= REQUESTS_MAX or self._runtime.clock.now() < self._pause_until_s:
            _refuse(token)
            return
        self._held.append(_Held(token, resume))
        if self._timer is None:
            self._timer = self._runtime.call_later(WAIT_S, self._give_up)

    def resume_all(self) -> None:
        for held in self._take():
            held.resume()

    def _give_up(self) -> None:
        self._pause_until_s = self._runtime.clock.now() + PAUSE_S
        self.refuse_all()

    def refuse_all(self) -> None:
        for held in self._take():
            _refuse(held.token)

    def _take(self) -> list[_Held]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        return held


def _refuse(token: Token) -> None:
    token.fail(KafkaError(ErrorCode.NOT_COORDINATOR, "this broker coordinates nothing yet"))
