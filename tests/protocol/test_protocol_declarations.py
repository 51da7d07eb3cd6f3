"""Declarations say the same to mypy and to the codec, and cost little to import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from protocol_samples import RECORD_PACKAGES, message_classes

from ottla.protocol.schema import Message, Struct
from ottla.protocol.source import element_kind

PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def structs_of(cls: type[Struct]) -> set[type[Struct]]:
    found = {cls}
    for field in cls.FIELDS:
        if field.struct_class is not None:
            found |= structs_of(field.struct_class)
    return found


@pytest.mark.parametrize(
    "cls", list(message_classes("messages", *RECORD_PACKAGES)), ids=lambda cls: cls.__name__
)
def test_annotations_agree_with_the_fields(cls: type[Message]) -> None:
    for struct in structs_of(cls):
        annotations = inspect.get_annotations(struct)
        assert list(annotations) == [field.name for field in struct.FIELDS]
        for field in struct.FIELDS:
            kind = element_kind(field) if field.kind == "array" else field.kind
            expected = PYTHON_TYPES.get(kind, "int")
            if field.struct_class is not None:
                expected = field.struct_class.__name__
            if field.kind == "array":
                expected = f"list[{expected}]"
            if field.nullable or field.default is None:
                expected += " | None"
            assert annotations[field.name] == expected, (struct, field.name)


def test_importing_a_message_imports_no_other_and_compiles_nothing() -> None:
    script = (
        "import sys, time, ottla.protocol.schema; before = set(sys.modules)\n"
        "import ottla.protocol.messages.produce\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    expected = ["ottla.protocol.messages", "ottla.protocol.messages.produce"]
    assert result.stdout.strip() == str(expected)


def test_tags_are_unique_and_only_in_flexible_versions() -> None:
    for cls in message_classes("messages", *RECORD_PACKAGES):
        for struct in structs_of(cls):
            tags = [field.tag for field in struct.FIELDS if field.tag is not None]
            assert len(tags) == len(set(tags))
            assert not tags or cls.FLEXIBLE is not None
