"""Samples of requests: for each API one or more, with the right that allows it, and how it is
refused without. `test_rights.py` sends them to Ottla, `test_rights_beside_kafka.py` to
both brokers.

A sample names what it needs to exist (`topics`, `prepare`). Requests that change something name
resources of their own, so that samples do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Protocol

from ottla.broker.server.contract import BROKERS, CONTROLLERS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message, Struct
from ottla.security.rights import CLUSTER_NAME, Operation, ResourceType

CLUSTER, TOPIC, GROUP, TRANSACTION = (
    ResourceType.CLUSTER,
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
CLUSTER_ACTION = Operation.CLUSTER_ACTION

REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

EXISTING = "t"
"""A topic with one partition and some records that samples read; none changes it."""


class Grant(NamedTuple):
    """A right on one resource."""

    operation: Operation
    resource_type: ResourceType
    name: str


def on_cluster(operation: Operation) -> Grant:
    return Grant(operation, CLUSTER, CLUSTER_NAME)


class World(Protocol):
    """The broker that a sample is sent to, as a super user sees it."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    def topic_id(self, name: str) -> bytes: ...

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Ask as the super user; by default in the latest version."""
        ...


def _nothing_to_do(world: World) -> None:
    pass


def _nothing_shown(response: Any) -> Any:
    return ()


@dataclass(frozen=True)
class Sample:
    """A request that a principal without rights may not send."""

    key: ApiKey
    request: Callable[[World], Message]
    _: KW_ONLY
    grants: tuple[Grant, ...] = ()
    """Exactly these rights together allow it. Requests that another right also allows have another
    sample for that."""
    refused: ErrorCode = ErrorCode.NONE
    """The code without them; NONE if the answer only hides something, or if no right is needed."""
    lacking: tuple[ErrorCode, ...] = ()
    """Of several grants, what the answer to those is who have all but this one."""
    shown: Callable[[Any], Any] = _nothing_shown
    """(response) -> what only those see who have the right; without it, this is empty."""
    allowed: ErrorCode = ErrorCode.NONE
    """The code with the right: of some requests the next check fails, which is enough here."""
    version: int | None = None
    """None: the latest one."""
    listeners: frozenset[str] | None = None
    """The kinds of listeners to try; None: all that serve the API."""
    topics: tuple[str, ...] = ()
    """Topics of one partition to create before, if they do not exist."""
    prepare: Callable[[World], None] = _nothing_to_do
    """Called as the super user before the request."""
    name: str = ""
    """Tells apart the samples of one API."""
    needs_sign_in: bool = False
    """True if only clients that signed in may ask at all."""
    compared: bool = True
    """False if the sample is not sent to Apache Kafka."""

    @property
    def asked_version(self) -> int:
        return api(self.key).latest_stable if self.version is None else self.version

    @property
    def kinds(self) -> list[str]:
        return sorted(api(self.key).listeners if self.listeners is None else self.listeners)

    def __str__(self) -> str:
        return f"{self.key.name}-{self.name}" if self.name else self.key.name


BROKER_ONLY = frozenset({BROKERS})
CONTROLLER_ONLY = frozenset({CONTROLLERS})


REFUSALS = {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")}


def codes_in(response: Struct) -> set[ErrorCode]:
    """Return all error codes of a response, at whatever depth, but for NONE."""
    return {ErrorCode.of(code) for code in _codes(response) if code}


def texts_in(response: Struct) -> set[str]:
    """Return the texts of refusals, as clients show them: that of the code if there is no other."""
    named = {declared.name for declared in response.FIELDS}
    texts = set()
    if {"error_code", "error_message"} <= named and response.error_code in REFUSALS:  # type: ignore[attr-defined]
        text = response.error_message  # type: ignore[attr-defined]
        if not text or text.startswith("Request Request("):  # how Kafka prints its own objects
            text = ErrorCode.of(response.error_code).message  # type: ignore[attr-defined]
        texts.add(text)
    for declared in response.FIELDS:
        value = getattr(response, declared.name)
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Struct):
                texts |= texts_in(element)
    return texts


def _codes(message: Struct) -> Iterator[int]:
    for declared in message.FIELDS:
        value = getattr(message, declared.name)
        if declared.name in ("error_code", "partition_error_code"):
            yield value
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Struct):
                yield from _codes(element)
