"""The authorizer of a node: asks the rules of Kafka's StandardAuthorizer, which follow the ACLs in
the metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.server.audit import AuditLog
from ottla.broker.server.audit import log as audit_log
from ottla.logs import get_logger
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.runtime.collector import collector_paused
from ottla.runtime.pace import Backlog
from ottla.security.acl_rules import AclRules, NotLoaded, Verdict

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from ottla.broker.metadata.delta import MetadataDelta
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.server.context import NodeContext
    from ottla.config.authorization import Authorization
    from ottla.runtime.runtime import Runtime
    from ottla.security.rights import Operation, ResourceType

log = get_logger("ottla.server")

NOT_READY_LOG_INTERVAL_S: Final = 10.0


class AclAuthorizer:
    """Until the ACLs are loaded it knows super users only; a request of anybody else fails."""

    def __init__(self, runtime: Runtime, settings: Authorization) -> None:
        self._rules = AclRules(settings.super_users, allow_if_no_acl=settings.allow_if_no_acl)
        self._audit = AuditLog(runtime)
        self._clock = runtime.clock
        self._next_warning_s = 0.0
        self._known = self._rules.known
        self._changes = Backlog(runtime, "follow-acls")

    def allows(
        self,
        context: NodeContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        caller = context.caller
        if caller.is_this_node:
            return True
        # Busy clients ask this again and again: `verdict` would say the same, a call later.
        verdict = self._known.get((name, operation, resource_type, caller.host, caller.principal))
        if verdict is None:
            verdict = self._decided(context, operation, resource_type, name)
        if verdict.is_allowed and not audit_log.shows_debug:
            return True
        if not quiet:
            self._audit.note(context, operation, resource_type, name, verdict)
        return verdict.is_allowed

    def _decided(
        self,
        context: NodeContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Verdict:
        caller = context.caller
        try:
            return self._rules.verdict(
                caller.principal, caller.host, operation, resource_type, name
            )
        except NotLoaded:
            raise self._not_ready(context) from None

    def allows_on_any(
        self, context: NodeContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        caller = context.caller
        if caller.is_this_node:
            return True
        try:
            verdict = self._rules.verdict_on_any(
                caller.principal, caller.host, operation, resource_type
            )
        except NotLoaded:
            raise self._not_ready(context) from None
        self._audit.note(context, operation, resource_type, None, verdict)
        return verdict.is_allowed

    async def load(self, image: MetadataImage) -> None:
        """Return when the ACLs of this image are in force. Later changes wait for it."""
        with collector_paused():  # of 100,000 ACLs it would scan all again and again
            done = self._changes.take(self._loading(image))
            if done is not None:
                await done
        log.info("ACLs loaded", acls=len(image.acls))

    def _loading(self, image: MetadataImage) -> Generator[None, None, None]:
        yield from self._rules.change(image.acls)
        self._rules.is_loaded = True

    def metadata_changed(
        self, delta: MetadataDelta, image: MetadataImage
    ) -> asyncio.Future[None] | None:
        if not delta.acls:
            return None
        return self._changes.take(self._rules.change(image.acls, delta.acls))

    async def finished(self) -> None:
        """Return when no change is left to follow."""
        await self._changes.finished()

    def _not_ready(self, context: NodeContext) -> KafkaError:
        caller = context.caller
        now = self._clock.now()
        if now >= self._next_warning_s:
            self._next_warning_s = now + NOT_READY_LOG_INTERVAL_S
            log.warning(
                "refusing a request before the ACLs are loaded; nodes of the cluster belong into "
                "super.users",
                principal=caller.principal,
                peer=(caller.host, caller.port),
                listener=caller.listener_name,
            )
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "the ACLs are not loaded yet; until then only super users are served",
        )
