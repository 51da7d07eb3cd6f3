"""The notation in which messages are declared.

A message is one class for all of its versions. A field has its Kafka type and, if it differs from
the default, the versions in which it exists, where it may be null, its tag and its default:

    class TopicProduceData(Struct):
        name: str = string("0-12")
        topic_id: bytes = uuid("13+")
        partition_data: list[PartitionProduceData] = array(PartitionProduceData)

Classes are slotted and take their fields as keywords, all optional. A declaration costs little to
import: constructors, encoders and decoders are compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast, dataclass_transform

from ottla.buffers import Buffer
from ottla.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ottla.runtime.disk import FileSlice

# Decoded: a `memoryview` into the input. To encode: any bytes, or a part of a file.
Records: TypeAlias = "Buffer | FileSlice"

T = TypeVar("T")
ALL_VERSIONS = "0+"


class _Zero:
    """Means "the empty value of this type", since `None` means null."""

    def __repr__(self) -> str:
        return "ZERO"


ZERO = _Zero()


class Field:
    """A declared field. `kind` is the Kafka type; arrays and structs name their `element`."""

    __slots__ = ("default", "element", "ignorable", "kind", "name", "nullable", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: bool | str,
        default: object,
        tag: int | None,
        ignorable: bool,
        element: Callable[..., Any] | None = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.tag = tag
        self.ignorable = ignorable
        self.element = element

    def exists_in(self, version: int) -> bool:
        return in_versions(version, self.versions)

    def nullable_in(self, version: int) -> bool:
        if isinstance(self.nullable, str):
            return in_versions(version, self.nullable)
        return self.nullable

    @property
    def struct_class(self) -> type[Struct] | None:
        """The class of the struct, or of the structs in the array; None for plain values."""
        if isinstance(self.element, StructMeta):
            return cast("type[Struct]", self.element)
        return None


def in_versions(version: int, versions: str) -> bool:
    """True if `versions` ("3", "3+" or "3-5") includes `version`."""
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def _plain(kind: str, zero: T) -> Callable[..., T]:
    def declare(
        versions: str = ALL_VERSIONS,
        *,
        default: T = zero,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> T:
        return cast(T, Field(kind, versions, False, default, tag, ignorable))

    declare.__name__ = declare.__qualname__ = kind
    return declare


boolean: Callable[..., bool] = _plain("bool", False)
int8: Callable[..., int] = _plain("int8", 0)
int16: Callable[..., int] = _plain("int16", 0)
int32: Callable[..., int] = _plain("int32", 0)
int64: Callable[..., int] = _plain("int64", 0)
uint16: Callable[..., int] = _plain("uint16", 0)
uint32: Callable[..., int] = _plain("uint32", 0)
float64: Callable[..., float] = _plain("float64", 0.0)
uuid: Callable[..., bytes] = _plain("uuid", ZERO_UUID)


def string(
    versions: str = ALL_VERSIONS,
    *,
    nullable: bool | str = False,
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
) -> str:
    return cast(str, Field("string", versions, nullable, default, tag, ignorable))


def octets(
    versions: str = ALL_VERSIONS,
    *,
    nullable: bool | str = False,
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> bytes:
    """Kafka's `bytes`: copied from the input."""
    return cast(bytes, Field("bytes", versions, nullable, default, tag, ignorable))


def batches(versions: str = ALL_VERSIONS, *, nullable: bool | str = False) -> Any:
    """Kafka's `records`: never copied."""
    return Field("records", versions, nullable, None, None, False)


def array(
    element: Callable[..., T],
    versions: str = ALL_VERSIONS,
    *,
    nullable: bool | str = False,
    default: _Zero | None = ZERO,
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T]:
    """`element` is a struct, or one of the plain kinds above."""
    return cast(list[T], Field("array", versions, nullable, default, tag, ignorable, element))


def struct(
    element: type[T],
    versions: str = ALL_VERSIONS,
    *,
    nullable: bool | str = False,
    default: _Zero | None = ZERO,
    tag: int | None = None,
    ignorable: bool = False,
) -> T:
    """A nested struct. Its default is one shared, read-only value: see `shared_default`."""
    return cast(T, Field("struct", versions, nullable, default, tag, ignorable, element))


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns declared fields into slots and keeps the declarations in `FIELDS`."""

    FIELDS: tuple[Field, ...]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any
    ) -> StructMeta:
        fields = []
        for key, value in list(namespace.items()):
            if type(value) is Field:
                value.name = key
                fields.append(value)
                del namespace[key]
        namespace["__slots__"] = tuple([field.name for field in fields])
        if fields:
            namespace["FIELDS"] = tuple(fields)
        for fact, value in facts.items():
            namespace[fact.upper()] = value
        return super().__new__(mcs, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any
    ) -> None:
        super().__init__(name, bases, namespace)


class Struct(metaclass=StructMeta):
    """A group of fields inside a message."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    if not TYPE_CHECKING:

        def __init__(self, **values: object) -> None:
            # The first instance of a class compiles its real constructor.
            cls = _declared_class(type(self))
            cls.__init__ = constructor(cls)
            self.__init__(**values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _declared_class(type(self))):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{_declared_class(type(self)).__name__}({shown})"


class Message(Struct):
    """A whole message: a request, a response or a stored record.

    `API_KEY` is the key of the API, or the type of the record; None if there is neither.
    """

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE: ClassVar[int | None] = None


class _ReadOnly:
    """Forbids changes, so that a default value can be shared."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"cannot set {name!r} on the shared default of {type(self).__name__}; "
            "assign a new struct to the field instead"
        )


def _declared_class(cls: type[Struct]) -> type[Struct]:
    """Return `cls` itself, or for a shared default the class that it imitates."""
    return cls.__mro__[2] if issubclass(cls, _ReadOnly) else cls


_shared_defaults: dict[type[Struct], Struct] = {}


def shared_default(cls: type[Struct]) -> Struct:
    """Return the shared default value of a struct field: most responses contain several and change
    none."""
    shared = _shared_defaults.get(cls)
    if shared is None:
        read_only = cast("type[Struct]", StructMeta(cls.__name__, (_ReadOnly, cls), {}))
        shared = object.__new__(read_only)
        for field in cls.FIELDS:
            object.__setattr__(shared, field.name, default_value(field))
        _shared_defaults[cls] = shared
    return shared


def default_value(field: Field) -> object:
    """Return a value for a field that was not given; arrays are new each time."""
    if field.default is not ZERO:
        return field.default
    if field.kind == "array":
        return []
    struct_class = field.struct_class
    assert struct_class is not None
    return shared_default(struct_class)


def default_source(field: Field, names: dict[str, object]) -> str:
    """Return the default as an expression for generated code; adds the objects it refers to to
    `names`."""
    if field.default is not ZERO:
        return repr(field.default)
    if field.kind == "array":
        return "[]"
    struct_class = field.struct_class
    assert struct_class is not None
    name = f"default_{struct_class.__name__}"
    names[name] = shared_default(struct_class)
    return name


def constructor(cls: type[Struct]) -> Callable[..., None]:
    """Return a keyword-only `__init__`, generated so that it is as fast as one written by hand."""
    names: dict[str, object] = {}
    parameters = []
    body = []
    for field in cls.FIELDS:
        default = default_source(field, names)
        if default == "[]":
            parameters.append(f"{field.name}=MISSING")
            body.append(f"    self.{field.name} = [] if {field.name} is MISSING else {field.name}")
        else:
            parameters.append(f"{field.name}={default}")
            body.append(f"    self.{field.name} = {field.name}")
    names["MISSING"] = object()
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(
        body or ["    pass"]
    )
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), names)
    return cast(Callable[..., None], names["__init__"])
