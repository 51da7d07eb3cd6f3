"""Changes configs: key by key, or (the old API) all keys of a resource at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.broker.controller.config_rules import ConfigRules, invalid_request, is_list, key_table
from ottla.broker.controller.eligible import check_min_isr, min_isr_changed
from ottla.broker.controller.limits import repeated
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.resources import ConfigResource, ResourceType
from ottla.protocol.errors import ErrorCode, KafkaError, without_traceback
from ottla.protocol.metadata_records.config_record import ConfigRecord
from ottla.protocol.schema import Message


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class KeyChange(NamedTuple):
    key: str
    operation: int
    value: str | None


class ConfigChange(NamedTuple):
    """The change that a request wants for one resource."""

    resource: ConfigResource
    keys: Sequence[KeyChange]
    replace: bool = False
    """True if the given keys are to be all configs of the resource: others are removed."""


Outcome = KafkaError | None


def alter_configs(
    image: MetadataImage,
    changes: Sequence[ConfigChange],
    rules: ConfigRules,
    *,
    validate_only: bool,
) -> Decision[list[Outcome]]:
    """Alter configs. Each resource changes completely or not at all, independently of the
    others."""
    twice = repeated(change.resource for change in changes)
    records: list[Message] = []
    outcomes: list[Outcome] = []
    for change in changes:
        try:
            if change.resource in twice:
                raise invalid_request("Each resource must appear at most once.")
            records += _alter(image, change, rules)
            outcomes.append(None)
        except KafkaError as error:
            outcomes.append(without_traceback(error))
    if validate_only:
        return Decision([], outcomes)
    return Decision([*min_isr_changed(image, records), *records], outcomes)


def check_keys(keys: Sequence[KeyChange]) -> None:
    """Check key changes as far as possible without knowing the resource."""
    if repeated(change.key for change in keys):
        raise invalid_request("Error due to duplicate config keys")
    null = [c.key for c in keys if c.value is None and c.operation != Operation.DELETE]
    if null:
        raise invalid_request(f"Null value not supported for : {', '.join(null)}")
    for change in keys:
        if change.operation not in Operation._value2member_map_:
            raise invalid_request(f"Unknown operations type {change.operation}")


def _alter(image: MetadataImage, change: ConfigChange, rules: ConfigRules) -> list[Message]:
    check_keys(change.keys)
    rules.check_resource(change.resource)
    before = image.config(change.resource)
    after = applied(change, before)
    rules.check_configs(change.resource, after, image)
    # Brokers get a record even if the value is unchanged: it makes them read a renewed key store.
    always = change.resource[0] == ResourceType.BROKER
    named = [c.key for c in change.keys]
    implied = [key for key in before if key not in after and key not in named]
    check_min_isr(image, change.resource, {*named, *implied}, after)
    return [
        _record(change.resource, key, after.get(key))
        for key in named + implied
        if always or after.get(key) != before.get(key)
    ]


def applied(change: ConfigChange, before: Mapping[str, str]) -> dict[str, str]:
    """Return all configs of the resource after the change."""
    after = {} if change.replace else dict(before)
    for key, operation, value in change.keys:
        if operation == Operation.DELETE:
            after.pop(key, None)
        elif operation == Operation.SET:
            after[key] = value or ""
        else:
            after[key] = _changed_list(change.resource, key, operation, value or "", before)
    return after


def _changed_list(
    resource: ConfigResource, key: str, operation: int, value: str, before: Mapping[str, str]
) -> str:
    """Return the list with items added (unless it has them already) or removed."""
    if not is_list(resource[0], key):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {Operation(operation).name} to key {key} because its type is not LIST.",
        )
    old = before.get(key)
    if old is None:
        old = key_table(resource[0])[key].default_text or ""
    items = [item for item in old.split(",") if item]
    for item in value.split(","):
        if operation == Operation.APPEND and item not in items:
            items.append(item)
        elif operation == Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _record(resource: ConfigResource, key: str, value: str | None) -> ConfigRecord:
    kind, name = resource
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
