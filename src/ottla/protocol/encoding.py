"""Writes encoders as straight-line source, the mirror image of `decoding`.

A message becomes a list of small byte strings that is joined once at the end. Adjacent fields of
fixed size are packed together with the count or empty tag section that follows them. Records are
not joined: they are separate chunks, so that they are neither copied nor even read.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error
from typing import Any

from ottla.protocol.decoding import holds_records
from ottla.protocol.errors import TooManyElements
from ottla.protocol.schema import ZERO, Field, Message, Struct, shared_default
from ottla.protocol.source import (
    FORMATS,
    STRING_SIZE_MAX,
    SourceWriter,
    element_kind,
    format_name,
)
from ottla.protocol.uuids import UUID_SIZE, ZERO_UUID
from ottla.protocol.wire import write_uvarint

# Records up to this size are cheaper to copy than to send as a separate chunk.
JOINED_RECORDS_BYTES_MAX = 256
# No response has more elements: it would take gigabytes to build.
RESPONSE_ELEMENTS_MAX = 1_000_000
STEP_STRINGS_MAX = 4_096
_KEPT_STRINGS_MAX = 2048
_KEPT_STRING_SIZE_MAX = 128
_KEPT_ELEMENTS_MAX = 64
_VARINT = "V"
_ONE_BYTE_VARINTS = tuple(bytes((number,)) for number in range(128))


class _Strings(dict[str | None, bytes]):
    """Strings with their length in front, cached: topic names are repeated again and again."""

    def __init__(self, compact: bool, null: bytes | None, kept_max: int) -> None:
        super().__init__()
        self._compact = compact
        self._null = null
        self._kept_max = kept_max
        self._restart()

    def _restart(self) -> None:
        self.clear()
        if self._null is not None:
            self[None] = self._null

    def __missing__(self, text: str | None) -> bytes:
        if not isinstance(text, str):
            raise TypeError(f"a string was expected, not {text!r}")
        encoded = text.encode()
        size = len(encoded)
        if size > STRING_SIZE_MAX:
            raise ValueError(f"a string of {size} bytes (at most {STRING_SIZE_MAX})")
        encoded = (write_uvarint(size + 1) if self._compact else size.to_bytes(2, "big")) + encoded
        if size <= _KEPT_STRING_SIZE_MAX and self._kept_max:
            if len(self) >= self._kept_max:
                self._restart()
            self[text] = encoded
        return encoded


def _every_kind(kept_max: int) -> dict[tuple[bool, bool], _Strings]:
    """Return the caches by (compact, nullable)."""
    return {
        (False, False): _Strings(False, None, kept_max),
        (False, True): _Strings(False, b"\xff\xff", kept_max),
        (True, False): _Strings(True, None, kept_max),
        (True, True): _Strings(True, b"\0", kept_max),
    }


_strings = _every_kind(_KEPT_STRINGS_MAX)
_strings_not_kept = _every_kind(0)
"""For messages of many elements: a few cached strings would keep all the memory around them, of a
message that is gone, from being returned to the system."""


class _ArrayWriters(dict[int, Any]):
    """Functions that write some fixed values, a count and n adjacent values of one kind, by n."""

    def __init__(self, before: str, compact: bool, layout: str) -> None:
        super().__init__()
        self._before = before
        self._compact = compact
        self._layout = layout

    def __missing__(self, count: int) -> Any:
        if count <= _KEPT_ELEMENTS_MAX:
            head = "B" if self._compact else "i"
            self[count] = Layout(f">{self._before}{head}{count}{self._layout}").pack
            return self[count]
        before, elements = Layout(">" + self._before), Layout(f">{count}{self._layout}")

        def write(*values: Any) -> bytes:
            head = values[-count - 1]
            size = write_uvarint(head) if self._compact else head.to_bytes(4, "big")
            return before.pack(*values[: -count - 1]) + size + elements.pack(*values[-count:])

        return write


_array_writers: dict[tuple[str, bool, str], _ArrayWriters] = {}


def _array_writer(*key: Any) -> _ArrayWriters:
    if key not in _array_writers:
        _array_writers[key] = _ArrayWriters(*key)
    return _array_writers[key]


def _bad_uuid(path: str, value: object) -> ValueError:
    return ValueError(f"{path}: a uuid is {UUID_SIZE} bytes, not {value!r}")


class EncoderWriter:
    """Writes `encode(message)` for one message in one version. With `steps` it writes a generator
    that yields after each element of an array and returns what `encode` would."""

    def __init__(self, cls: type[Message], version: int, *, steps: bool = False) -> None:
        self.cls = cls
        self.steps = steps
        self.version = version
        self.flexible = cls.FLEXIBLE is not None and version >= cls.FLEXIBLE
        self.chunked = holds_records(cls)
        self.source = SourceWriter(f"encoder of {cls.__name__} v{version}")
        self.source.names.update(
            join=b"".join,
            uvarint=write_uvarint,
            one_byte=_ONE_BYTE_VARINTS,
            bad_uuid=_bad_uuid,
            joinable=frozenset((bytes, bytearray, memoryview)),
            zero_uuid=ZERO_UUID,
            TooMany=TooManyElements,
            wrong_values=(error, TypeError, AttributeError, OverflowError),
        )
        self._pending: list[tuple[str, str]] = []
        # The list that bytes are appended to; tagged fields are first written to a list of their
        # own.
        self._out = "out"

    def write(self) -> SourceWriter:
        source = self.source
        title = f"{self.cls.__name__} v{self.version}"
        bound = f", left={RESPONSE_ELEMENTS_MAX}" if self._is_bounded else ""
        with source.block(f"def encode(message{bound}):"):
            with source.block("try:"):
                source.emit("out = []", *(["chunks = []"] if self._has_chunks else []))
                self._struct(self.cls, "message", title)
                self._flush()
                if self._has_chunks:
                    source.emit("if out: chunks.append(join(out))", "return chunks")
                else:
                    source.emit("return [join(out)]")
            with source.block("except wrong_values as cause:"):
                source.emit(f"raise ValueError(f'cannot encode {title}: {{cause}}') from cause")
        return source

    @property
    def _has_chunks(self) -> bool:
        return self.chunked or self.steps

    @property
    def _is_bounded(self) -> bool:
        return self.cls.__name__.endswith("Response")

    # Writing fixed sizes together

    def _fixed(self, expression: str, layout: str) -> None:
        self._pending.append((expression, layout))

    def _add(self, expression: str) -> None:
        self._flush()
        self.source.emit(f"{self._out}.append({expression})")

    def _flush(self) -> None:
        """Write all pending fields at once; only the last of them can be a varint."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        last, layout = pending[-1]
        if layout != _VARINT:
            packed = self._packed(pending)
        elif len(pending) == 1:
            packed = f"one_byte[{last}] if {last} < 128 else uvarint({last})"
        else:
            short = self._packed([*pending[:-1], (last, "B")])
            longer = f"{self._packed(pending[:-1])} + uvarint({last})"
            packed = f"{short} if {last} < 128 else {longer}"
        self.source.emit(f"{self._out}.append({packed})")

    def _packed(self, entries: list[tuple[str, str]]) -> str:
        layout = "".join(entry for _, entry in entries)
        if not layout.strip("x"):
            return repr(bytes(len(layout)))
        write = self.source.shared(format_name("write_", layout), lambda: Layout(">" + layout).pack)
        values = ", ".join(expression for expression, entry in entries if entry != "x")
        return f"{write}({values})"

    def _size(self, expression: str, nullable: bool, classic: str) -> str:
        """Write the length or count of the value; null has a number of its own."""
        size = self.source.fresh("n")
        number = f"len({expression}){' + 1' if self.flexible else ''}"
        if nullable:
            number = f"{0 if self.flexible else -1} if {expression} is None else {number}"
        self.source.emit(f"{size} = {number}")
        self._fixed(size, _VARINT if self.flexible else classic)
        self._flush()
        return size

    # Structs and their fields

    def _struct(self, cls: type[Struct], place: str, path: str) -> None:
        tagged = []
        for field in cls.FIELDS:
            value = f"{place}.{field.name}"
            where = f"{path} {field.name}"
            if not field.exists_in(self.version):
                if not field.ignorable:
                    self._refuse(field, value, where)
            elif field.tag is not None:
                tagged.append(field)
            else:
                self._value(field, field.kind, value, where)
        if self.flexible:
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), place, path)

    def _refuse(self, field: Field, value: str, path: str) -> None:
        """Emit a check that refuses a value which this version cannot contain."""
        text = f"{path}: version {self.version} cannot carry it, and it is not the default"
        self.source.emit(f"if not ({self._is_default(field, value)}): raise ValueError({text!r})")

    def _is_default(self, field: Field, value: str) -> str:
        if field.kind == "array" and field.default is ZERO:
            return f"not {value} and {value} is not None" if field.nullable else f"not {value}"
        if field.default is ZERO:
            assert field.struct_class is not None
            default = self.source.name("default", shared_default(field.struct_class))
            return f"{value} is {default} or {value} == {default}"
        if field.default is None:
            return f"{value} is None"
        if field.kind == "uuid":
            return f"{value} == zero_uuid"
        return f"{value} == {field.default!r}"

    def _value(self, field: Field, kind: str, value: str, path: str) -> None:
        nullable = field.nullable_in(self.version)
        if kind == "uuid":
            self._uuid(value, path)
        elif kind in FORMATS:
            self._fixed(value, FORMATS[kind])
        elif kind == "string":
            by_kind = _strings_not_kept if self.steps else _strings
            strings = self.source.name("strings", by_kind[self.flexible, nullable])
            self._add(f"{strings}[{value}]")
        elif kind == "bytes":
            local = self._local("octets", value)
            size = self._size(local, nullable, "i")
            self.source.emit(f"if {size} > 0: {self._out}.append({local})")
        elif kind == "records":
            self._records(value, nullable)
        elif kind == "array":
            self._array(field, value, nullable, path)
        else:
            self._nested(field, value, nullable, path)

    def _local(self, stem: str, value: str) -> str:
        local = self.source.fresh(stem)
        self.source.emit(f"{local} = {value}")
        return local

    def _uuid(self, value: str, path: str) -> None:
        # `struct` would silently pad or cut it.
        local = self._local("uuid", value)
        self.source.emit(f"if len({local}) != 16: raise bad_uuid({path!r}, {local})")
        self._fixed(local, "16s")

    def _records(self, value: str, nullable: bool) -> None:
        source = self.source
        local = self._local("records", value)
        size = self._size(local, nullable, "i")
        with source.block(f"if {size} > {1 if self.flexible else 0}:"):
            limit = JOINED_RECORDS_BYTES_MAX
            with source.block(f"if {size} > {limit} or type({local}) not in joinable:"):
                source.emit("chunks.append(join(out))", "out.clear()", f"chunks.append({local})")
            with source.block("else:"):
                source.emit(f"out.append({local})")

    def _array(self, field: Field, value: str, nullable: bool, path: str) -> None:
        source = self.source
        local = self._local("items", value)
        kind = element_kind(field)
        if kind in FORMATS and kind != "uuid":
            self._plain_array(FORMATS[kind], local, nullable)
            return
        size = self._size(local, nullable, "i")
        item = source.fresh("item")
        some = f"if {size} > {1 if self.flexible else 0}:"
        if self._is_bounded:
            too_many = f"raise TooMany({f'{path}: more elements in all than allowed'!r})"
            source.emit(f"left -= {size}", f"if left < 0: {too_many}")
        with source.block(some), source.block(f"for {item} in {local}:"):
            if field.struct_class is not None:
                self._struct(field.struct_class, item, path)
            else:
                self._value(_PLAIN_ELEMENT, kind, item, path)
            self._flush()
            if self.steps:
                if self._out == "out":
                    # Join them as they come: joining all at the end would be one long step.
                    full = f"if len(out) > {STEP_STRINGS_MAX}:"
                    with source.block(full):
                        source.emit("chunks.append(join(out))", "out.clear()")
                source.emit("yield")

    def _plain_array(self, layout: str, local: str, nullable: bool) -> None:
        """Write the array, packed together with the fixed values before it."""
        source = self.source
        pending, self._pending = self._pending, []
        before = "".join(entry for _, entry in pending)
        values = "".join(f"{expression}, " for expression, entry in pending if entry != "x")
        writers = source.name("writers", _array_writer(before, self.flexible, layout))
        size = source.fresh("n")
        head = f"{size} + 1" if self.flexible else size
        lines = (
            f"{size} = len({local})",
            f"{self._out}.append({writers}[{size}]({values}{head}, *{local}))",
        )
        if not nullable:
            source.emit(*lines)
            return
        with source.block(f"if {local} is not None:"):
            source.emit(*lines)
        with source.block("else:"):
            self._pending = [*pending, ("0", "B") if self.flexible else ("-1", "i")]
            self._flush()

    def _nested(self, field: Field, value: str, nullable: bool, path: str) -> None:
        assert field.struct_class is not None
        local = self._local("struct", value)
        if not nullable:
            self._struct(field.struct_class, local, path)
            return
        self._flush()
        # The null marker of a tagged struct is a varint, of others a signed byte.
        null = b"\0" if field.tag is not None else b"\xff"
        with self.source.block(f"if {local} is None:"):
            self.source.emit(f"{self._out}.append({null!r})")
        with self.source.block("else:"):
            self.source.emit(f"{self._out}.append(b'\\x01')")
            self._struct(field.struct_class, local, path)
            self._flush()

    def _tags(self, tagged: list[Field], place: str, path: str) -> None:
        if not tagged:
            self._fixed("", "x")
            return
        source = self.source
        count, tags = source.fresh("tags"), source.fresh("tagged")
        self._flush()
        defaults = [f"({self._is_default(field, f'{place}.{field.name}')})" for field in tagged]
        with source.block(f"if {' and '.join(defaults)}:"):
            source.emit(f"{self._out}.append(b'\\x00')")
        with source.block("else:"):
            source.emit(f"{count} = 0", f"{tags} = []")
            for field, is_default in zip(tagged, defaults, strict=True):
                with source.block(f"if not {is_default}:"):
                    source.emit(f"{count} += 1")
                    self._tag(field, tags, f"{place}.{field.name}", f"{path} {field.name}")
            source.emit(f"{self._out}.append(uvarint({count}))", f"{self._out} += {tags}")

    def _tag(self, field: Field, tags: str, value: str, path: str) -> None:
        assert field.tag is not None
        around, self._out = self._out, self.source.fresh("out")
        self.source.emit(f"{self._out} = []")
        self._value(field, field.kind, value, path)
        self._flush()
        data = self._local("data", f"join({self._out})")
        head = write_uvarint(field.tag)
        self.source.emit(
            f"{tags}.append({head!r} + uvarint(len({data})))", f"{tags}.append({data})"
        )
        self._out = around


_PLAIN_ELEMENT = Field("", "0+", False, None, None, False)
