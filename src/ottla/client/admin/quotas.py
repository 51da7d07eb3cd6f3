"""Admin calls for quotas: how much users, client ids and addresses may ask of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import error_of, raise_for
from ottla.protocol.errors import KafkaError

EXACT, DEFAULT, ANY = 0, 1, 2


class QuotaName(Enum):
    """Used instead of a name: the default of all without their own quota or, in queries, any."""

    DEFAULT = "default"
    ANY = "any"


Name = str | QuotaName | None


class QuotaEntity(NamedTuple):
    """The entity that a quota is for: QuotaEntity(user="alice", client_id=QuotaName.DEFAULT).

    A field that is None is not part of the entity.
    """

    user: Name = None
    client_id: Name = None
    ip: Name = None


_KINDS = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {kind: name for name, kind in _KINDS.items()}


class QuotaAdmin:
    _link: AdminLink

    async def describe_client_quotas(
        self,
        *,
        user: Name = None,
        client_id: Name = None,
        ip: Name = None,
        strict: bool = False,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of matching entities: by name, DEFAULT or ANY; without arguments, all.

        `strict` leaves out entities with parts that are not named here.
        """
        from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest

        components = _components(QuotaEntity(user, client_id, ip))
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        response = await self._link.ask_any(request)
        raise_for(response.error_code, response.error_message)
        return {
            _entity(found.entity): {value.key: value.value for value in found.values}
            for found in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas by Kafka's keys; None removes a quota.

        >>> alice = QuotaEntity(user="alice")
        >>> await admin.alter_client_quotas({alice: {"producer_byte_rate": 1_048_576}})
        """
        from ottla.protocol.messages.alter_client_quotas import (
            AlterClientQuotasRequest,
            RequestEntryData,
        )

        entries = [
            RequestEntryData(entity=_parts(entity), ops=_operations(values))
            for entity, values in changes.items()
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        response = await self._link.change(lambda _: request)
        return {
            _entity(found.entity): error_of(found.error_code, found.error_message)
            for found in response.entries
        }


def _components(wanted: QuotaEntity) -> list[Any]:
    from ottla.protocol.messages.describe_client_quotas import ComponentData

    special = {QuotaName.DEFAULT: DEFAULT, QuotaName.ANY: ANY}
    return [
        ComponentData(entity_type=_KINDS[name], match_type=special[value], match=None)
        if isinstance(value, QuotaName)
        else ComponentData(entity_type=_KINDS[name], match_type=EXACT, match=value)
        for name, value in wanted._asdict().items()
        if value is not None
    ]


def _parts(entity: QuotaEntity) -> list[Any]:
    from ottla.protocol.messages.alter_client_quotas import EntityData

    if QuotaName.ANY in entity:
        raise ValueError("ANY is for questions; name whom the quota is for, or DEFAULT")
    return [
        EntityData(
            entity_type=_KINDS[name], entity_name=None if value is QuotaName.DEFAULT else value
        )
        for name, value in entity._asdict().items()
        if value is not None
    ]


def _operations(values: Mapping[str, float | None]) -> list[Any]:
    from ottla.protocol.messages.alter_client_quotas import OpData

    return [
        OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
        for key, value in values.items()
    ]


def _entity(parts: list[Any]) -> QuotaEntity:
    named: dict[str, Name] = {
        _FIELDS[part.entity_type]: QuotaName.DEFAULT
        if part.entity_name is None
        else part.entity_name
        for part in parts
        if part.entity_type in _FIELDS
    }
    return QuotaEntity(**named)
