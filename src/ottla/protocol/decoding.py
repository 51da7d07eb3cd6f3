"""Writes decoders as straight-line source: no version is checked and no field looked up at run
time.

Adjacent fields of fixed size are read with one `struct` call, which also reads the first byte of
the variable-length integer that follows them; nearly always that byte is all of it. All input is
checked before memory is allocated for it.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import calcsize, error
from typing import Any

from ottla.protocol.errors import MalformedMessage, TooManyElements
from ottla.protocol.schema import Field, Message, Struct, default_source
from ottla.protocol.source import (
    FORMATS,
    STRING_SIZE_MAX,
    SourceWriter,
    element_kind,
    format_name,
)
from ottla.protocol.wire import TAGS_MAX, skip_tags, uvarint

# A request of 40 MB could name 20 million topics, and block all others for half a minute. No real
# cluster has so many; a response may, and is decoded by the client that asked for it.
REQUEST_ELEMENTS_MAX = 100_000

# Unpackers for arrays are cached up to this many elements; larger ones are made as needed.
_KEPT_ELEMENTS_MAX = 64


class _ArrayReaders(dict[int, Any]):
    """Functions that read n adjacent values of one kind, by n."""

    def __init__(self, layout: str) -> None:
        super().__init__()
        self._layout = layout

    def __missing__(self, count: int) -> Any:
        read = Layout(f">{count}{self._layout}").unpack_from
        if count <= _KEPT_ELEMENTS_MAX:
            self[count] = read
        return read


_array_readers = {layout: _ArrayReaders(layout) for layout in FORMATS.values() if layout != "16s"}


def _string_size(buffer: Any, position: int) -> tuple[int, int]:
    """Read a length of more than one byte, which is rare: a compact string's size plus one."""
    size, position = uvarint(buffer, position)
    if size > STRING_SIZE_MAX + 1:
        raise MalformedMessage(f"a string of {size - 1} bytes (at most {STRING_SIZE_MAX})")
    return size, position


def holds_records(cls: type[Struct]) -> bool:
    return any(
        field.kind == "records" or (field.struct_class and holds_records(field.struct_class))
        for field in cls.FIELDS
    )


class DecoderWriter:
    """Writes `decode(buffer, position)` for one message in one version. With `steps` it writes a
    generator that yields after each element of an array and returns what `decode` would."""

    def __init__(self, cls: type[Message], version: int, *, steps: bool = False) -> None:
        self.cls = cls
        self.steps = steps
        self.version = version
        self.flexible = cls.FLEXIBLE is not None and version >= cls.FLEXIBLE
        # Records must stay views of the input. Without records, small copies are faster.
        self.by_view = holds_records(cls)
        self.source = SourceWriter(f"decoder of {cls.__name__} v{version}")
        self.source.names.update(
            new=object.__new__,
            uvarint=uvarint,
            string_size=_string_size,
            skip_tags=skip_tags,
            Malformed=MalformedMessage,
            TooMany=TooManyElements,
            malformed_causes=(error, IndexError, UnicodeDecodeError),
        )
        self._pending: list[tuple[str, str]] = []

    def write(self) -> SourceWriter:
        source = self.source
        kind = "memoryview" if self.by_view else "bytes"
        title = f"{self.cls.__name__} v{self.version}"
        bound = f", left={REQUEST_ELEMENTS_MAX}" if self._is_bounded else ""
        with source.block(f"def decode(data, pos=0{bound}):"):
            source.emit(f"if type(data) is not {kind}: data = {kind}(data)", "size = len(data)")
            with source.block("try:"):
                self._struct(self.cls, "message", title)
                self._flush()
                source.emit("return message, pos")
            with source.block("except malformed_causes as cause:"):
                source.emit(f"raise Malformed(f'{title}: {{cause}}') from cause")
        return source

    @property
    def _is_bounded(self) -> bool:
        return self.cls.__name__.endswith("Request")

    # Reading fixed sizes together

    def _fixed(self, target: str, layout: str) -> None:
        self._pending.append((target, layout))

    def _flush(self) -> None:
        """Read all pending fields at once."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        layout = "".join(entry for _, entry in pending)
        if layout == "B":
            self.source.emit(f"{pending[0][0]} = data[pos]", "pos += 1")
            return
        read = self.source.shared(
            format_name("read_", layout), lambda: Layout(">" + layout).unpack_from
        )
        targets = ", ".join(target for target, _ in pending)
        self.source.emit(f"{targets}, = {read}(data, pos)", f"pos += {calcsize('>' + layout)}")

    def _size(self, classic: str, longer: str = "uvarint") -> str:
        """Read a length or count; compact ones are stored plus one, and 0 is null."""
        size = self.source.fresh("n")
        self._fixed(size, "B" if self.flexible else classic)
        self._flush()
        if self.flexible:
            self.source.emit(f"if {size} > 127: {size}, pos = {longer}(data, pos - 1)")
        return size

    def _fail(self, text: str) -> str:
        return f"raise Malformed({text!r})"

    # Structs and their fields

    def _struct(self, cls: type[Struct], target: str, path: str) -> None:
        source = self.source
        tagged = []
        source.emit(f"{target} = new({source.name('Class', cls)})")
        for field in cls.FIELDS:
            place = f"{target}.{field.name}"
            exists = field.exists_in(self.version)
            if exists and field.tag is None:
                self._value(field, field.kind, place, f"{path} {field.name}")
                continue
            source.emit(f"{place} = {default_source(field, source.names)}")
            if exists:
                tagged.append(field)
        if self.flexible:
            self._tags(tagged, target, path)

    def _value(self, field: Field, kind: str, place: str, path: str) -> None:
        nullable = field.nullable_in(self.version)
        if kind in FORMATS:
            self._fixed(place, FORMATS[kind])
        elif kind == "string":
            size = self._size("h", "string_size")
            text = "str(data[pos:end], 'utf-8')" if self.by_view else "data[pos:end].decode()"
            self._sized(size, place, text, "''", nullable, path)
        elif kind == "bytes":
            copy = "bytes(data[pos:end])" if self.by_view else "data[pos:end]"
            self._sized(self._size("i"), place, copy, "b''", nullable, path)
        elif kind == "records":
            self._sized(self._size("i"), place, "data[pos:end]", "data[pos:pos]", nullable, path)
        elif kind == "array":
            self._array(field, place, nullable, path)
        else:
            self._nested(field, place, nullable, path)

    def _sized(
        self, size: str, place: str, expression: str, empty: str, nullable: bool, path: str
    ) -> None:
        """Read a value of `size` bytes by `expression` from `data[pos:end]`."""
        source = self.source
        with source.block(f"if {size} > {1 if self.flexible else 0}:"):
            source.emit(
                f"end = pos + {size}{' - 1' if self.flexible else ''}",
                f"if end > size: {self._fail(f'{path}: ends after the message does')}",
                f"{place} = {expression}",
                "pos = end",
            )
        with source.block(f"elif {size} == {1 if self.flexible else 0}:"):
            source.emit(f"{place} = {empty}")
        self._else_null(size, place, nullable, path)

    def _else_null(self, size: str, place: str, nullable: bool, path: str) -> None:
        source = self.source
        if nullable:
            with source.block("else:" if self.flexible else f"elif {size} == -1:"):
                source.emit(f"{place} = None")
            if self.flexible:
                return
        with source.block("else:"):
            source.emit(self._fail(f"{path}: null or a negative length where none may be"))

    def _array(self, field: Field, place: str, nullable: bool, path: str) -> None:
        source = self.source
        count = self._size("i")
        kind = element_kind(field)
        smallest = self._smallest(field, kind)
        with source.block(f"if {count} > 0:" if self.flexible else f"if {count} >= 0:"):
            if self.flexible:
                source.emit(f"{count} -= 1")
            needed = count if smallest == 1 else f"{count} * {smallest}"
            source.emit(
                f"if {needed} > size - pos: {self._fail(f'{path}: more elements than bytes')}"
            )
            if self._is_bounded:
                too_many = f"raise TooMany({f'{path}: more elements in all than allowed'!r})"
                source.emit(f"left -= {count}", f"if left < 0: {too_many}")
            if kind == "uuid":
                source.emit(
                    f"end = pos + {count} * 16",
                    f"{place} = [bytes(data[at : at + 16]) for at in range(pos, end, 16)]",
                    "pos = end",
                )
            elif kind in FORMATS:
                layout = FORMATS[kind]
                readers = source.name("readers", _array_readers[layout])
                source.emit(
                    f"{place} = list({readers}[{count}](data, pos))",
                    f"pos += {count} * {calcsize('>' + layout)}",
                )
            else:
                self._elements(field, kind, place, count, path)
        self._else_null(count, place, nullable, path)

    def _elements(self, field: Field, kind: str, place: str, count: str, path: str) -> None:
        source = self.source
        items, item = source.fresh("items"), source.fresh("item")
        source.emit(f"{place} = {items} = []")
        with source.block(f"for _ in range({count}):"):
            if field.struct_class is not None:
                self._struct(field.struct_class, item, path)
            else:
                self._value(_PLAIN_ELEMENT, kind, item, path)
            self._flush()
            source.emit(f"{items}.append({item})", *(["yield"] if self.steps else []))

    def _nested(self, field: Field, place: str, nullable: bool, path: str) -> None:
        assert field.struct_class is not None
        inner = self.source.fresh("struct")
        if not nullable:
            self._struct(field.struct_class, inner, path)
            self.source.emit(f"{place} = {inner}")
            return
        marker = self.source.fresh("n")
        self._fixed(marker, "b")
        self._flush()
        # The null marker of a tagged struct is a varint, of others a signed byte.
        null = "<= 0" if field.tag is not None else "< 0"
        with self.source.block(f"if {marker} {null}:"):
            self.source.emit(f"{place} = None")
        with self.source.block("else:"):
            self._struct(field.struct_class, inner, path)
            self._flush()
            self.source.emit(f"{place} = {inner}")

    def _tags(self, tagged: list[Field], target: str, path: str) -> None:
        source = self.source
        count = source.fresh("tags")
        self._fixed(count, "B")
        self._flush()
        with source.block(f"if {count}:"):
            if not tagged:
                source.emit("pos = skip_tags(data, pos - 1)")
                return
            stop = source.fresh("stop")
            tag = source.fresh("tag")
            too_many = self._fail(f"{path}: more than {TAGS_MAX} tagged fields")
            source.emit(
                f"{count}, pos = uvarint(data, pos - 1)", f"if {count} > {TAGS_MAX}: {too_many}"
            )
            with source.block(f"for _ in range({count}):"):
                source.emit(
                    f"{tag}, pos = uvarint(data, pos)",
                    f"{stop}, pos = uvarint(data, pos)",
                    f"{stop} += pos",
                    f"if {stop} > size: {self._fail(f'{path}: ends inside a tagged field')}",
                )
                for field in tagged:
                    with source.block(f"if {tag} == {field.tag}:"):
                        place = f"{target}.{field.name}"
                        self._value(field, field.kind, place, f"{path} {field.name}")
                        self._flush()
                        wrong = self._fail(f"{path} {field.name}: not of the size it is said to be")
                        source.emit(f"if pos != {stop}: {wrong}", "continue")
                source.emit(f"pos = {stop}")

    # The fewest bytes that a value takes, so that an impossible count can be refused early

    def _smallest(self, field: Field, kind: str) -> int:
        if kind in FORMATS:
            return calcsize(">" + FORMATS[kind])
        if field.struct_class is not None:
            return max(1, self._smallest_struct(field.struct_class))
        return 1 if self.flexible else 2

    def _smallest_struct(self, cls: type[Struct]) -> int:
        total = 1 if self.flexible else 0
        for field in cls.FIELDS:
            if not field.exists_in(self.version) or field.tag is not None:
                continue
            if field.kind in FORMATS:
                total += calcsize(">" + FORMATS[field.kind])
            elif field.kind == "struct":
                assert field.struct_class is not None
                nullable = field.nullable_in(self.version)
                total += 1 if nullable else self._smallest_struct(field.struct_class)
            elif self.flexible:
                total += 1
            else:
                total += 2 if field.kind == "string" else 4
        return total


_PLAIN_ELEMENT = Field("", "0+", False, None, None, False)
