"""Users, quotas and rights, without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.acls import ALL_ACLS, Acl, AclFilter
from ottla.client.admin.quotas import Name, QuotaEntity
from ottla.client.admin.users import ScramCredential, ScramDeletion, ScramUpsertion
from ottla.protocol.errors import KafkaError


class AccessCalls(AdminCalls):
    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        return self._call(lambda: self._admin.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        return self._call(lambda: self._admin.alter_user_scram_credentials(changes))

    def describe_client_quotas(
        self, *, user: Name = None, client_id: Name = None, ip: Name = None, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        return self._call(
            lambda: self._admin.describe_client_quotas(
                user=user, client_id=client_id, ip=ip, strict=strict
            )
        )

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        return self._call(
            lambda: self._admin.alter_client_quotas(changes, validate_only=validate_only)
        )

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        return self._call(lambda: self._admin.create_acls(acls))

    def describe_acls(self, matching: AclFilter = ALL_ACLS) -> list[Acl]:
        return self._call(lambda: self._admin.describe_acls(matching))

    def delete_acls(self, matching: Iterable[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        return self._call(lambda: self._admin.delete_acls(matching))
