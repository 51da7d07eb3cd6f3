"""DescribeClientQuotas: the quotas of the entities that match a filter."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.metadata.security_image import CLIENT_ID, IP, USER
from ottla.broker.server.contract import Handler
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.runtime.pace import at_once, many_in_slices

if TYPE_CHECKING:
    from ottla.broker.metadata.security_image import QuotaEntity, Quotas
    from ottla.broker.server.context import BrokerContext

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
_MATCH_NAMES: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}

AT_ONCE_ENTITIES_MAX: Final = 1_000
"""Above this number of entities they are searched in slices."""


class Filter(NamedTuple):
    names: dict[str, str | None]
    """The name that an entity must have, by type; None is the default entity."""
    types: set[str]
    """The types of which an entity must have any."""
    strict: bool
    """True if matching entities may have no other parts."""

    def matches(self, entity: QuotaEntity) -> bool:
        if self.strict and len(entity) != len(self.names) + len(self.types):
            return False
        named = dict(entity)
        return self.types <= named.keys() and self.names.items() <= named.items()


def handle(
    context: BrokerContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Coroutine[Any, Any, DescribeClientQuotasResponse]:
    try:
        wanted = _filter(request.components, strict=request.strict)
    except KafkaError as error:
        return refuse(request, error)
    quotas = context.services.metadata.image.client_quotas
    steps = _answer(quotas, wanted)
    if len(quotas) <= AT_ONCE_ENTITIES_MAX:
        return at_once(steps)
    return many_in_slices(context.services.runtime, steps)


def _filter(components: Sequence[ComponentData], *, strict: bool) -> Filter:
    found = Filter({}, set(), strict)
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in found.names or kind in found.types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        if component.match_type == SPECIFIED:
            found.types.add(kind)
        else:
            found.names[kind] = component.match
    kinds = found.types | found.names.keys()
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return found


def _check_match(component: ComponentData) -> None:
    if component.match_type == EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type not in _MATCH_NAMES:
        raise _invalid(f"Unknown match type {component.match_type}")
    elif component.match is not None:
        name = _MATCH_NAMES[component.match_type]
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _answer(
    quotas: Mapping[QuotaEntity, Quotas], wanted: Filter
) -> Generator[None, None, DescribeClientQuotasResponse]:
    entries: list[EntryData] = []
    for entity, values in quotas.items():
        if wanted.matches(entity):
            entries.append(_entry(entity, values))
        yield
    return DescribeClientQuotasResponse(entries=entries)


def _entry(entity: QuotaEntity, values: Quotas) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


def refuse(_: DescribeClientQuotasRequest, error: KafkaError) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message, entries=None
    )


HANDLER = Handler(on_broker=handle, refuse=refuse)
