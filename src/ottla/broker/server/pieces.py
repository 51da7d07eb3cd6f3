"""Splits requests with many elements into several requests with few.

An element of a request costs a handler microseconds, or milliseconds if there is much to say about
it. A request may have 100,000 of them, and the event loop must not be blocked for longer than some
milliseconds at a time. So an API whose elements can be served separately declares here which array
of the request to split and where the answers go; its handler only sees small requests. An API that
is not declared here serves `AT_ONCE_ELEMENTS_MAX` elements and refuses more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.decoding import REQUEST_ELEMENTS_MAX
from ottla.protocol.errors import TooManyElements
from ottla.protocol.schema import Message, Struct

AT_ONCE_ELEMENTS_MAX: Final = 2_000
"""The most elements decoded, handled and encoded in one go, which takes a few milliseconds."""
AT_ONCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A larger request is served in slices (see `large_requests`)."""
PIECE_ELEMENTS_MAX: Final = 500
BYTES_PER_ELEMENT: Final = 8192
"""Checking and writing this many bytes of records costs as much as one element of other APIs."""
UNIT_ELEMENTS_MAX: Final = 10_000
"""The most elements in something that cannot be split, such as the keys of one config or the
partitions of one new topic."""
NULL_WEIGHT: Final = 20
"""The weight of a null array, which means "all there are"."""
GATHERED_ELEMENTS_MAX: Final = 200_000
"""The most elements in a response that is combined from pieces."""
TOPICS_TOGETHER_MAX: Final = 5_000
"""The most new topics in one request. Each is answered with its configs, about 35 elements. Kafka
bounds a request by the records it causes: 10,000, with two or more for a topic."""
KEPT_REPETITIONS_MAX: Final = 2
"""The number of times that a request may name the same thing; further repetitions are dropped.
Handlers refuse repeated elements, or answer each of them; they need not see a thousand."""
WHOLE_ELEMENTS_MAX: Final = UNIT_ELEMENTS_MAX * KEPT_REPETITIONS_MAX
"""The most elements of the same name, which stay in one piece."""

Path = tuple[str, ...]


class Split(NamedTuple):
    """Which arrays of a request and its response correspond."""

    request: Path
    """The array that is split, and the arrays inside its elements that are split too."""
    response: Path
    """The array that collects the answers, and the arrays inside its elements that are merged."""
    piece_max: int = PIECE_ELEMENTS_MAX
    """The most elements that a handler gets at once: few, if one costs milliseconds."""
    together_max: int | None = None
    """The most elements of a request, for APIs whose answers are much larger than their requests.
    If there are more, each is refused before anything is done: by the time the response is seen to
    be too large, the work would be done."""


_PARTITIONS: Final = Split(("topics", "partitions"), ("topics", "partitions"))

SPLITS: Final[dict[ApiKey, tuple[Split, ...]]] = {
    ApiKey.PRODUCE: (
        Split(("topic_data", "partition_data"), ("responses", "partition_responses")),
    ),
    ApiKey.LIST_OFFSETS: (_PARTITIONS,),
    ApiKey.METADATA: (Split(("topics",), ("topics",)),),
    ApiKey.OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.OFFSET_FETCH: (
        Split(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 20),
        Split(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    ApiKey.FIND_COORDINATOR: (Split(("coordinator_keys",), ("coordinators",)),),
    ApiKey.LEAVE_GROUP: (Split(("members",), ("members",)),),
    ApiKey.DESCRIBE_GROUPS: (Split(("groups",), ("groups",), 50),),
    ApiKey.CREATE_TOPICS: (Split(("topics",), ("topics",), 100, TOPICS_TOGETHER_MAX),),
    ApiKey.DELETE_TOPICS: (
        Split(("topics",), ("responses",), 100),
        Split(("topic_names",), ("responses",), 100),
    ),
    ApiKey.DELETE_RECORDS: (_PARTITIONS,),
    ApiKey.WRITE_TXN_MARKERS: (
        Split(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"), 200),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_PARTITIONS,),
    ApiKey.DESCRIBE_CONFIGS: (Split(("resources",), ("results",), 8),),
    ApiKey.ALTER_CONFIGS: (Split(("resources",), ("responses",), 50),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        Split(("dirs", "topics", "partitions"), ("results", "partitions"), 100),
    ),
    ApiKey.CREATE_PARTITIONS: (Split(("topics",), ("results",), 100),),
    ApiKey.DELETE_GROUPS: (Split(("groups_names",), ("results",), 200),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (Split(("resources",), ("responses",), 50),),
    ApiKey.OFFSET_DELETE: (_PARTITIONS,),
    ApiKey.DESCRIBE_PRODUCERS: (
        Split(("topics", "partition_indexes"), ("topics", "partitions"), 50),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (Split(("transactional_ids",), ("transaction_states",), 50),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Split(("group_ids",), ("groups",), 50),),
    ApiKey.ELECT_LEADERS: (
        Split(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Split(("topics", "partitions"), ("responses", "partitions")),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        Split(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    ApiKey.ALTER_PARTITION: (_PARTITIONS,),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (
        Split(("directories", "topics", "partitions"), ("directories", "topics", "partitions")),
    ),
}
"""If there are two, older versions have the second."""


WHOLE: Final[dict[ApiKey, int]] = {
    ApiKey.FETCH: 20_000,
    ApiKey.SYNC_GROUP: 10_000,
    ApiKey.ADD_PARTITIONS_TO_TXN: 10_000,
    ApiKey.CREATE_ACLS: 10_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 10_000,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 20_000,
    ApiKey.DESCRIBE_LOG_DIRS: 20_000,
    ApiKey.ALTER_CLIENT_QUOTAS: 10_000,
}
"""The most elements of APIs that cannot be split but serve more than usual. Their handlers pause by
themselves, or are fast enough."""


LONG_ANSWERS: Final[dict[ApiKey, Path]] = {
    ApiKey.LIST_GROUPS: ("groups",),
    ApiKey.LIST_TRANSACTIONS: ("transaction_states",),
    ApiKey.LIST_CONFIG_RESOURCES: ("config_resources",),
    ApiKey.DESCRIBE_ACLS: ("resources", "acls"),
    ApiKey.DELETE_ACLS: ("filter_results", "matching_acls"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ("entries",),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("results",),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ("tokens",),
}
"""Arrays of answers that grow with what is stored, not with the request."""


def elements_max(key: ApiKey, *, of_quorum: bool = False) -> int:
    """Return how many elements a request of this API may have in all. `of_quorum`: the request came
    by a controller listener, where Fetch reads only the metadata partition."""
    if key in SPLITS:
        return REQUEST_ELEMENTS_MAX
    if of_quorum and key == ApiKey.FETCH:
        return AT_ONCE_ELEMENTS_MAX
    return WHOLE.get(key, AT_ONCE_ELEMENTS_MAX)


def split_of(key: ApiKey, request_class: type[Message], version: int) -> Split | None:
    for split in SPLITS.get(key, ()):
        field = next(field for field in request_class.FIELDS if field.name == split.request[0])
        if field.exists_in(version):
            return split
    return None


# --- cutting --------------------------------------------------------------------------------


def cut(
    request: Message, split: Split, size: Callable[[], int]
) -> Generator[Message | None, None, None]:
    """Yield requests of at most `size()` elements that together ask for the same, and None between
    them wherever the caller may pause. The request is emptied meanwhile, so that its memory is free
    before the answers take theirs."""
    piece: list[_Leaf] = []
    weight = 0
    units = _units(request, split.request)
    for unit in units:
        if unit is None:
            yield None
            continue
        cost = sum(leaf.weight for leaf in unit)
        if cost > WHOLE_ELEMENTS_MAX:
            # Elements that are refused are freed in steps, too: that takes as long as creating
            # them.
            yield from _freed(unit)
            for rest in units:
                yield from _freed(rest or ())
            raise TooManyElements(
                f"{split.request[-1]}: one of them has more than {WHOLE_ELEMENTS_MAX} elements"
            )
        if piece and weight + cost > size():
            yield _rebuilt(request, split.request, piece)
            piece, weight = [], 0
        piece += unit
        weight += cost
    if piece:
        yield _rebuilt(request, split.request, piece)


def _freed(unit: Iterable[_Leaf]) -> Iterator[None]:
    for leaf in unit:
        if isinstance(leaf.value, Struct):
            yield from _emptied(leaf.value)
    yield None


def _emptied(struct: Struct) -> Iterator[None]:
    """Empty all arrays of structs inside, step by step."""
    for name, kind in _weighty_fields(type(struct)):
        elements = getattr(struct, name)
        if elements and kind in ("structs", "flat structs"):
            for element in _used_up(elements):
                if kind == "structs":
                    yield from _emptied(element)
                yield None


class _Leaf(NamedTuple):
    chain: tuple[Struct, ...]
    """The structs around the innermost array, outermost first."""
    value: Any
    """An element of that array; `_NOTHING` for an array that is empty or null."""
    weight: int


_NOTHING: Final = object()


def _units(request: Message, path: Path) -> Iterator[list[_Leaf] | None]:
    """Yield groups of elements that must stay in one piece: structs of the same name."""
    if len(path) > 1:
        yield from _distinct(_leaves(request, path, ()))
        return
    firsts: dict[Any, Any] = {}
    repetitions: dict[Any, list[Any]] = {}
    for element in _used_up(getattr(request, path[0])):
        yield None
        key = _key(element) if isinstance(element, Struct) else element
        if firsts.setdefault(key, element) is not element and key is not element:
            same = repetitions.setdefault(key, [])
            if len(same) < KEPT_REPETITIONS_MAX - 1:
                same.append(element)
    for key, element in _taken_out(firsts):
        same = repetitions.pop(key, [])
        yield [_Leaf((), one, weight_of(one, WHOLE_ELEMENTS_MAX)) for one in (element, *same)]


def _distinct(leaves: Iterable[_Leaf]) -> Iterator[list[_Leaf] | None]:
    seen: set[Any] = set()
    innermost = key = None
    for leaf in leaves:
        yield None
        if isinstance(leaf.value, int):
            if leaf.chain[-1] is not innermost:
                innermost = leaf.chain[-1]
                key = tuple(map(_key, leaf.chain))
            named = (key, leaf.value)
            if named in seen:
                continue
            seen.add(named)
        yield [leaf]
    while seen:  # clearing it in one go takes tens of milliseconds
        seen.pop()
        yield None


def _leaves(struct: Struct, path: Path, chain: tuple[Struct, ...]) -> Iterator[_Leaf]:
    elements = getattr(struct, path[0])
    if not elements:
        yield _Leaf(chain, _NOTHING, NULL_WEIGHT if elements is None else 1)
    elif len(path) > 1:
        for element in _used_up(elements):
            yield from _leaves(element, path[1:], (*chain, element))
    else:
        for element in _used_up(elements):
            yield _Leaf(chain, element, weight_of(element, WHOLE_ELEMENTS_MAX))


def _used_up(elements: list[Any]) -> Iterator[Any]:
    elements.reverse()
    while elements:
        yield elements.pop()


def _taken_out(named: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Remove and yield the items in their order."""
    for key in _used_up(list(named)):
        yield key, named.pop(key)


def _key(struct: Struct) -> Any:
    """Return the value or values that identify a struct among its neighbours."""
    telling = _telling_fields(type(struct))
    if len(telling) == 1:
        return getattr(struct, telling[0])
    return tuple([getattr(struct, name) for name in telling])


@cache
def _telling_fields(struct_class: type[Struct]) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in struct_class.FIELDS
        if field.kind not in ("array", "struct", "bytes", "records")
    )


def weight_of(value: Any, enough: int = GATHERED_ELEMENTS_MAX) -> int:
    """Return the number of elements, including those of arrays inside. The elements of an array
    longer than `enough` are not searched: it is too long anyway, and searching takes long."""
    if not isinstance(value, Struct):
        return 1
    weight = 1
    for name, kind in _weighty_fields(type(value)):
        inner = getattr(value, name)
        if not inner:
            continue
        if kind == "records":
            weight += len(inner) // BYTES_PER_ELEMENT
        elif kind == "structs" and len(inner) <= enough:
            weight += sum([weight_of(element, enough) for element in inner])
        else:
            weight += len(inner)
    return weight


@cache
def _weighty_fields(struct_class: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Return the fields that may hold many elements, each with its content: "structs", "flat
    structs" (which hold nothing to count), "values" or "records"."""
    found = []
    for field in struct_class.FIELDS:
        if field.kind == "records":
            found.append((field.name, "records"))
        elif field.kind == "array" and field.struct_class is None:
            found.append((field.name, "values"))
        elif field.kind == "array":
            deep = _weighty_fields(field.struct_class)
            found.append((field.name, "structs" if deep else "flat structs"))
    return tuple(found)


def _rebuilt(request: Message, path: Path, leaves: list[_Leaf]) -> Message:
    """Return a copy of the request with only these leaves."""
    copies: dict[int, Struct] = {}

    def copied(struct: Struct, depth: int) -> Struct:
        copy = copies.get(id(struct))
        if copy is None:
            copy = copies[id(struct)] = _copy(struct)
            if getattr(struct, path[depth]) is not None:
                setattr(copy, path[depth], [])
            if depth:
                getattr(around, path[depth - 1]).append(copy)
        return copy

    around: Any
    for leaf in leaves:
        around = copied(request, 0)
        for depth, struct in enumerate(leaf.chain, 1):
            if depth < len(path):
                around = copied(struct, depth)
        if leaf.value is not _NOTHING:
            getattr(around, path[-1]).append(leaf.value)
    piece: Message = copies[id(request)]  # type: ignore[assignment]
    return piece


def _copy(struct: Struct) -> Struct:
    copy = object.__new__(type(struct))
    for field in struct.FIELDS:
        setattr(copy, field.name, getattr(struct, field.name))
    return copy


def dismantled(message: Any, path: Path) -> Generator[None, None, None]:
    """Free a message of many elements step by step, which takes as long as creating it did."""
    elements = getattr(message, path[0])
    while elements:
        element = elements.pop()
        if len(path) > 1:
            yield from dismantled(element, path[1:])
        yield


# --- combining ------------------------------------------------------------------------------


class Gathered:
    """The response to a split request, as it grows."""

    def __init__(self, split: Split) -> None:
        self.response: Any = None
        self._path = split.response
        self._count = 0

    @property
    def is_too_large(self) -> bool:
        return self._count > GATHERED_ELEMENTS_MAX

    def add(self, answer: Any) -> None:
        """Merge `answer` into `response`; the first answer becomes the response."""
        if answer is None:
            return  # a produce with acks=0 has no answer
        self._count += weight_of(answer)
        if self.response is None:
            self.response = answer
            return
        total = self.response
        for field in answer.FIELDS:
            if field.name in ("error_code", "error_message") and not getattr(total, field.name):
                setattr(total, field.name, getattr(answer, field.name))
            if field.name == "throttle_time_ms":
                total.throttle_time_ms = max(total.throttle_time_ms, answer.throttle_time_ms)
            if field.name == "node_endpoints":
                told = {endpoint.node_id for endpoint in total.node_endpoints}
                total.node_endpoints += [e for e in answer.node_endpoints if e.node_id not in told]
        _merge(total, answer, self._path)


def _merge(total: Any, answer: Any, path: Path) -> None:
    here, there = getattr(total, path[0]), getattr(answer, path[0])
    if len(path) > 1 and here and there and _name(here[-1]) == _name(there[0]):
        # Pieces are cut in order, so only the last struct of one piece and the first of the next
        # can have the same name.
        _merge(here[-1], there[0], path[1:])
        there = there[1:]
    here.extend(there)


def _name(struct: Struct) -> tuple[Any, ...]:
    return tuple(
        getattr(struct, field.name)
        for field in struct.FIELDS
        if field.kind in ("string", "uuid", "int64") and not field.name.startswith("error")
    )
