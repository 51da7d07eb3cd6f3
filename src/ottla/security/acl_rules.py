"""Decides who may do what: super users, then ACLs, then the rule for resources without ACLs.

Decisions are remembered until the ACLs change, so that checking a right again is one look into a
dict however many ACLs there are.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.security.acl_index import AclIndex
from ottla.security.acls import AccessControlEntry
from ottla.security.rights import Permission

if TYPE_CHECKING:
    from ottla.security.principal import KafkaPrincipal
    from ottla.security.rights import Operation, ResourceType


class NotLoaded(Exception):
    """The ACLs are not known yet."""


VERDICTS_MAX: Final = 20_000
"""The most decisions remembered, a few hundred bytes each."""
NAME_REMEMBERED_MAX: Final = 256
"""Decisions about longer names are not remembered: clients may ask about names of 32 KB."""


class Reason(Enum):
    SUPER_USER = "a super user"
    ACL = "an ACL"
    NO_MATCH = "no ACL of the resource allows it"
    NO_ACLS = "the resource has no ACLs"


class Verdict(NamedTuple):
    is_allowed: bool
    reason: Reason
    acl: AccessControlEntry | None = None
    """The ACL that decided."""

    @property
    def rule(self) -> str:
        return self.reason.value if self.acl is None else str(self.acl)


_Identified = tuple[bytes, AccessControlEntry]

_SUPER_USER: Final = Verdict(True, Reason.SUPER_USER)
_NO_MATCH: Final = Verdict(False, Reason.NO_MATCH)


class AclRules:
    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        """`super_users` as they are written in ACLs: "User:name"."""
        self._super_users = frozenset(super_users)
        self._without_acls = Verdict(allow_if_no_acl, Reason.NO_ACLS)
        self._index = AclIndex()
        self._acls: Mapping[bytes, AccessControlEntry] = {}
        """Those in the index, by id."""
        self.known: dict[tuple[object, ...], Verdict] = {}
        """The decisions made since the ACLs changed, for who may not lose the time of a call."""
        self.is_loaded = False
        """Set it when all ACLs are there. Until then only super users get a verdict."""

    def verdict(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Verdict:
        """Raises `NotLoaded`."""
        key = (name, operation, resource_type, host, principal)
        known = self.known.get(key)
        return self._decide(*key) if known is None else known

    def _decide(
        self,
        name: str,
        operation: Operation,
        resource_type: ResourceType,
        host: str,
        principal: KafkaPrincipal,
    ) -> Verdict:
        who = str(principal)
        if who in self._super_users:
            verdict = _SUPER_USER
        elif not self.is_loaded:
            raise NotLoaded
        else:
            acl, has_acls = self._index.find(who, host, operation, resource_type, name)
            if acl is not None:
                verdict = Verdict(acl.permission_type == Permission.ALLOW, Reason.ACL, acl)
            else:
                verdict = _NO_MATCH if has_acls else self._without_acls
        if len(name) > NAME_REMEMBERED_MAX or len(principal.name) > NAME_REMEMBERED_MAX:
            return verdict
        return self._remembered((name, operation, resource_type, host, principal), verdict)

    def verdict_on_any(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
    ) -> Verdict:
        """Return whether there may be a resource, of whatever name, on which the principal may do
        this."""
        key = (operation, resource_type, host, principal)
        known = self.known.get(key)
        if known is not None:
            return known
        # As Kafka does: super users, and names without ACLs where those are open to everybody.
        verdict = self.verdict(principal, host, operation, resource_type, "hardcode")
        if not verdict.is_allowed:
            acl = self._index.find_any(str(principal), host, operation, resource_type)
            verdict = _NO_MATCH if acl is None else Verdict(True, Reason.ACL, acl)
        return self._remembered(key, verdict)

    def _remembered(self, key: tuple[object, ...], verdict: Verdict) -> Verdict:
        if len(self.known) >= VERDICTS_MAX:
            self.known.clear()
        self.known[key] = verdict
        return verdict

    def change(
        self, acls: Mapping[bytes, AccessControlEntry], changed: Collection[bytes] | None = None
    ) -> Generator[None, None, None]:
        """Replace the ACLs in steps. `changed`: the only ids that may differ; None for all. An id
        belongs to the same ACL for ever.

        Until the last step nobody may do what he may do neither before nor after: what denies is
        added first and removed last.
        """
        before = self._acls
        ids: Iterable[bytes] = changed or ()
        if changed is None:
            ids = chain(acls, (acl_id for acl_id in before if acl_id not in acls))
        added, removed = [], []
        for acl_id in ids:
            old, new = before.get(acl_id), acls.get(acl_id)
            if new is None and old is not None:
                removed.append((acl_id, old))
            elif old is None and new is not None:
                added.append((acl_id, new))
            yield
        self.known.clear()
        yield from self._added(added, allowing=False)
        yield from self._removed(removed, allowing=True)
        yield from self._added(added, allowing=True)
        yield from self._removed(removed, allowing=False)
        self._acls = acls
        self.known.clear()
        for done in (added, removed):  # freeing them in one go takes long, too
            while done:
                done.pop()
                yield

    def _added(self, acls: Iterable[_Identified], *, allowing: bool) -> Generator[None, None, None]:
        for acl_id, acl in acls:
            if (acl.permission_type == Permission.ALLOW) == allowing:
                self._index.add(acl_id, acl)
            yield

    def _removed(
        self, acls: Iterable[_Identified], *, allowing: bool
    ) -> Generator[None, None, None]:
        for acl_id, acl in acls:
            if (acl.permission_type == Permission.ALLOW) == allowing:
                self._index.remove(acl_id, acl)
            yield
