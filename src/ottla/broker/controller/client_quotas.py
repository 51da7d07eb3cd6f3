"""Alters client quotas: checks whom they are for, their keys and values, and writes the changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from ottla.broker.controller.config_rules import invalid_request
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.security_image import (
    CLIENT_ID,
    IP,
    USER,
    QuotaEntity,
    QuotaKey,
    Quotas,
    quota_entity,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    ResponseEntryData,
)
from ottla.protocol.metadata_records.client_quota_record import ClientQuotaRecord
from ottla.protocol.metadata_records.client_quota_record import EntityData as RecordEntity

_LONG_MAX: Final = 2.0**63
_INT_MAX: Final = 2.0**31 - 1
_FRACTION_MAX: Final = 1e-6

_WHOLE_MAX: Final[Mapping[str, tuple[float, str]]] = {
    QuotaKey.PRODUCER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    QuotaKey.CONSUMER_BYTE_RATE: (_LONG_MAX, "a LONG"),
    QuotaKey.CONNECTION_CREATION_RATE: (_INT_MAX, "an INT"),
}
"""Quotas whose bounds are whole numbers, the largest one, and the name of its type."""
_OF_CLIENTS: Final = frozenset(
    {
        QuotaKey.PRODUCER_BYTE_RATE,
        QuotaKey.CONSUMER_BYTE_RATE,
        QuotaKey.REQUEST_PERCENTAGE,
        QuotaKey.CONTROLLER_MUTATION_RATE,
    }
)
_OF_ADDRESSES: Final = frozenset({QuotaKey.CONNECTION_CREATION_RATE})


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    """Change quotas. Each entity changes completely or not at all, independently of the others. As
    in Kafka, only the first of several changes of one entity is made, and the error of the others
    is what the response tells of that entity."""
    records: list[ClientQuotaRecord] = []
    errors: dict[QuotaEntity, KafkaError | None] = {}
    for entry in request.entries:
        entity = quota_entity(entry.entity)
        repeats_key = len({op.key for op in entry.ops}) < len(entry.ops)
        if entity in errors or repeats_key:
            errors[entity] = invalid_request(f"Ignoring duplicate entity {_text(entity)}")
            continue
        try:
            changes = _changes(entity, entry.ops, image.client_quotas.get(entity, {}))
        except KafkaError as error:
            errors[entity] = error.with_traceback(None)
        else:
            records += changes
            errors[entity] = None
    entries = [_result(entity, error) for entity, error in errors.items()]
    response = AlterClientQuotasResponse(entries=entries)
    return Decision([] if request.validate_only else records, response)


def _changes(
    entity: QuotaEntity, ops: Sequence[OpData], current: Quotas
) -> list[ClientQuotaRecord]:
    keys = _keys_of(entity)
    records = []
    for op in ops:
        if op.remove:
            is_change = op.key in current
        else:
            _check_value(keys, op.key, op.value)
            is_change = current.get(op.key) != op.value
        if is_change:
            parts = [RecordEntity(entity_type=kind, entity_name=name) for kind, name in entity]
            value = 0.0 if op.remove else op.value
            records.append(
                ClientQuotaRecord(entity=parts, key=op.key, value=value, remove=op.remove)
            )
    return records


def _keys_of(entity: QuotaEntity) -> frozenset[QuotaKey]:
    """Return the keys that this entity can have; raises if it is none."""
    if not entity:
        raise invalid_request("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise invalid_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise invalid_request(f"Empty {kind} not supported")
    named = dict(entity)
    if IP not in named:
        return _OF_CLIENTS
    if len(named) > 1:
        raise invalid_request(  # Kafka's words, without the missing space
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    if not _is_address(named[IP]):
        raise invalid_request(f"{named[IP]} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _is_address(name: str | None) -> bool:
    """True for an address or the default. Unlike Kafka's controller, this one asks no name server:
    the answer would take time, and could change."""
    if name is None:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _check_value(keys: frozenset[QuotaKey], key: str, value: float) -> None:
    if key not in keys:
        raise invalid_request(f"Invalid configuration key {key}")
    if not value > 0:  # NaN, too
        raise invalid_request(f"Quota {key} must be greater than 0")
    if key not in _WHOLE_MAX:
        return
    value_max, name = _WHOLE_MAX[key]
    if value > value_max:
        raise invalid_request(f"Proposed value for {key} is too large for {name}.")
    if math.fmod(value, 1) > _FRACTION_MAX:
        raise invalid_request(f"{key} cannot be a fractional value.")


def _text(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _result(entity: QuotaEntity, error: KafkaError | None) -> ResponseEntryData:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    if error is None:
        return ResponseEntryData(error_message=None, entity=parts)
    return ResponseEntryData(error_code=error.code, error_message=error.message, entity=parts)
