"""The audit log: who was refused or allowed what, from where. JSON lines under the name of Kafka's
logger; refusals at INFO, what was allowed at DEBUG.

What the answer merely leaves out is no event: the client did not ask for it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.logs import get_logger, shortened
from ottla.protocol.apis import APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.server.context import NodeContext
    from ottla.runtime.runtime import Runtime
    from ottla.security.acl_rules import Verdict
    from ottla.security.rights import Operation, ResourceType

log = get_logger("kafka.authorizer.logger")

LINES_PER_S_MAX: Final = 200
"""The most lines of each kind; the others are counted."""
WINDOW_S: Final = 1.0


class _Lines:
    """The lines of one kind within a second."""

    __slots__ = ("_dropped", "_emit", "_end_s", "_left", "_runtime", "_what")

    def __init__(self, runtime: Runtime, emit: Callable[..., None], what: str) -> None:
        self._runtime = runtime
        self._emit = emit
        self._what = what
        self._left = LINES_PER_S_MAX
        self._end_s = 0.0
        self._dropped = 0

    def may_write(self) -> bool:
        """True if there is room for one more line; else it is counted."""
        now = self._runtime.clock.now()
        if now >= self._end_s:
            self._end_s = now + WINDOW_S
            self._left = LINES_PER_S_MAX
        if self._left:
            self._left -= 1
            return True
        if not self._dropped:
            self._runtime.call_later(WINDOW_S, self._tell)
        self._dropped += 1
        return False

    def _tell(self) -> None:
        dropped, self._dropped = self._dropped, 0
        self._emit(f"not logged: more were {self._what}", count=dropped)


class AuditLog:
    def __init__(self, runtime: Runtime) -> None:
        self._denied = _Lines(runtime, log.info, "denied")
        self._allowed = _Lines(runtime, log.debug, "allowed")

    def note(
        self,
        context: NodeContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None,
        verdict: Verdict,
    ) -> None:
        """`name` None: a resource of whatever name."""
        if verdict.is_allowed:
            if log.shows_debug and self._allowed.may_write():
                log.debug("allowed", **_fields(context, operation, resource_type, name, verdict))
        elif self._denied.may_write():
            log.info("denied", **_fields(context, operation, resource_type, name, verdict))


def _fields(
    context: NodeContext,
    operation: Operation,
    resource_type: ResourceType,
    name: str | None,
    verdict: Verdict,
) -> dict[str, Any]:
    caller = context.caller
    api = APIS.get(context.api_key)
    return {
        "principal": shortened(str(caller.principal)),
        "operation": operation.name,
        "resource_type": resource_type.name,
        "resource": None if name is None else shortened(name),
        "host": caller.host,
        "listener": caller.listener_name,
        "protocol": caller.security_protocol,
        "api": context.api_key if api is None else api.name,
        "version": context.api_version,
        "request_id": context.correlation_id,
        "client_id": None if context.client_id is None else shortened(context.client_id),
        "connection": caller.connection_id,
        "rule": shortened(verdict.rule),
    }
