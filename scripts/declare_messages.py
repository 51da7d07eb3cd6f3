"""Write message declarations from Kafka's message definitions.

    python scripts/declare_messages.py FOLDER_OR_JAR... [--into src/ottla/protocol]

Takes the facts of each definition (names, types, versions, nullability, tags, defaults) and writes
them in the notation of `ottla.protocol.schema`. Run it once for a new release of Kafka; the result
is ordinary source that people read and edit, so check the diff before you commit it.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Definition = dict[str, Any]
Range = tuple[int, int]
OPEN_END = 0x7FFF
COMMENT_LINE = re.compile(r"(?m)^\s*//.*$")
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Kafka type: (function of the notation, Python type)
PLAIN = {
    "bool": ("boolean", "bool"),
    "int8": ("int8", "int"),
    "int16": ("int16", "int"),
    "int32": ("int32", "int"),
    "int64": ("int64", "int"),
    "uint16": ("uint16", "int"),
    "uint32": ("uint32", "int"),
    "float64": ("float64", "float"),
    "uuid": ("uuid", "bytes"),
    "string": ("string", "str"),
    "bytes": ("octets", "bytes"),
    "records": ("batches", "Records"),
}

# Messages that belong neither to an API, nor to the metadata log, nor to a coordinator.
PACKAGE_BY_NAME = {
    "LeaderChangeMessage": "control_records",
    "SnapshotHeaderRecord": "control_records",
    "SnapshotFooterRecord": "control_records",
    "KRaftVersionRecord": "control_records",
    "VotersRecord": "control_records",
    "EndTxnMarker": "control_records",
    "ControlRecordTypeSchema": "control_records",
    "QuorumStateData": "stored_files",
    "ProducerSnapshot": "stored_files",
    "ConsumerProtocolAssignment": "embedded",
    "ConsumerProtocolSubscription": "embedded",
    "DefaultPrincipalData": "embedded",
}
PACKAGES = {
    "messages": "The messages of every API, one module an API, imported when needed.",
    "metadata_records": "The records of the metadata log, one module a record.",
    "coordinator_records": "What coordinators store in their internal topics: keys and values.",
    "control_records": "The values (and type) of control records inside batches.",
    "remote_log_records": "The records that track segments in remote storage.",
    "stored_files": "Files beside the log that have a declared form.",
    "embedded": "Data that other messages carry as plain bytes.",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("src/ottla/protocol"))
    arguments = parser.parse_args()
    modules: dict[tuple[str, str], list[Definition]] = {}
    for definition in read_definitions(arguments.sources):
        if definition["type"] != "header" and definition["validVersions"] != "none":
            modules.setdefault(module_of(definition), []).append(definition)
    for (package, module), definitions in sorted(modules.items()):
        write_module(arguments.into / package, module, definitions)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", arguments.into], check=True)
    print(f"{len(modules)} modules written below {arguments.into}")


def read_definitions(sources: Iterable[Path]) -> Iterator[Definition]:
    for source in sources:
        for text in read_texts(source):
            yield json.loads(COMMENT_LINE.sub("", text))


def read_texts(source: Path) -> Iterator[str]:
    if source.is_dir():
        for path in sorted(source.rglob("*.json")):
            yield path.read_text()
        return
    with zipfile.ZipFile(source) as jar:
        for name in sorted(jar.namelist()):
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                yield jar.read(name).decode()


def snake(name: str) -> str:
    words = WORD_START.sub("_", name).lower()
    return words + "_" if keyword.iskeyword(words) else words


def module_of(definition: Definition) -> tuple[str, str]:
    """Return (package, module); request and response share one, as do key and value."""
    name, kind = definition["name"], definition["type"]
    if kind in ("request", "response"):
        return "messages", snake(re.sub("(Request|Response)$", "", name))
    if kind in ("coordinator-key", "coordinator-value"):
        return "coordinator_records", snake(re.sub("(Key|Value)$", "", name))
    if name in PACKAGE_BY_NAME:
        return PACKAGE_BY_NAME[name], snake(name)
    return ("remote_log_records" if name.startswith("Remote") else "metadata_records"), snake(name)


def write_module(folder: Path, module: str, definitions: list[Definition]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(f'"""{PACKAGES[folder.name]}"""\n')
    order = {"request": 0, "coordinator-key": 0}
    definitions.sort(key=lambda definition: order.get(definition["type"], 1))
    writer = ModuleWriter(definitions)
    (folder / f"{module}.py").write_text(writer.source())


class ModuleWriter:
    def __init__(self, definitions: list[Definition]) -> None:
        self.definitions = definitions
        self.used: set[str] = set()
        self.written: dict[str, str] = {}
        self.ambiguous = ambiguous_names(definitions)

    def source(self) -> str:
        bodies = [text for definition in self.definitions for text in self.classes(definition)]
        first = self.definitions[0]
        key = first.get("apiKey")
        if first["type"] == "request":
            about = f"{first['name'].removesuffix('Request')}, API {key}."
        elif key is not None:
            about = f"{first['name'].removesuffix('Key')}, record type {key}."
        else:
            about = f"{first['name']}."
        imported = ", ".join(sorted(self.used, key=isort_key))
        head = f'"""{about}"""\n\nfrom __future__ import annotations\n\n'
        return head + f"from ottla.protocol.schema import {imported}\n\n\n" + "\n\n".join(bodies)

    def classes(self, definition: Definition) -> Iterator[str]:
        valid = parse_range(definition["validVersions"])
        scope = Scope(self, definition, valid)
        lines = scope.fields(definition["fields"], valid)
        yield from scope.structs
        self.used.add("Message")
        facts = "" if definition.get("apiKey") is None else f"api_key={definition['apiKey']}, "
        flexible = parse_range(definition["flexibleVersions"])
        facts += f"versions=({valid[0]}, {valid[1]})"
        if flexible[0] <= valid[1]:
            facts += f", flexible={flexible[0]}"
        yield class_text(f"class {definition['name']}(Message, {facts}):", lines)


class Scope:
    """The message being written: its fields, and the structs that they use."""

    def __init__(self, module: ModuleWriter, definition: Definition, valid: Range) -> None:
        self.module = module
        self.valid = valid
        self.direction = definition["type"].capitalize()
        self.common = {entry["name"]: entry for entry in definition.get("commonStructs", [])}
        self.structs: list[str] = []

    def fields(self, fields: list[Definition], around: Range) -> list[str]:
        """Return lines for the fields that exist in some version of what is around them."""
        lines = []
        for field in fields:
            versions = clip(field_range(field), around)
            if versions[0] <= versions[1]:
                lines.append(self.field(field, versions, around))
        return lines

    def field(self, field: Definition, versions: Range, around: Range) -> str:
        kind = field["type"]
        is_array = kind.startswith("[]")
        element = kind.removeprefix("[]")
        if element in PLAIN:
            function, python_type = PLAIN[element]
        else:
            function = python_type = self.struct(element, field, versions)
        if is_array:
            arguments = [function]
            self.module.used.update(("array", *([function] if element in PLAIN else [])))
            function, python_type = "array", f"list[{python_type}]"
        elif element not in PLAIN:
            arguments = [function]
            function = "struct"
        else:
            arguments = []
        self.module.used.add(function)
        arguments += self.arguments(field, versions, around)
        if "nullableVersions" in field or kind == "records":
            python_type += " | None"
        if kind == "records":
            self.module.used.add("Records")
        return f"    {snake(field['name'])}: {python_type} = {function}({', '.join(arguments)})"

    def arguments(self, field: Definition, versions: Range, around: Range) -> Iterator[str]:
        if versions != around:
            yield f'"{range_text(versions, self.valid)}"'
        if "nullableVersions" in field:
            nullable = clip(parse_range(field["nullableVersions"]), versions)
            if nullable == versions:
                yield "nullable=True"
            elif nullable[0] <= nullable[1]:
                yield f'nullable="{range_text(nullable, self.valid)}"'
        if (default := default_text(field)) is not None:
            yield f"default={default}"
        if "tag" in field:
            yield f"tag={field['tag']}"
        if field.get("ignorable"):
            yield "ignorable=True"

    def struct(self, name: str, field: Definition, versions: Range) -> str:
        """Write the struct of this field, unless it exists already; return its name.

        A struct that several fields share is written for all versions of the message.
        """
        entry = field if "fields" in field else self.common[name]
        around = versions if "fields" in field else self.valid
        class_name = self.direction + name if name in self.module.ambiguous else name
        lines = self.fields(entry["fields"], around)
        text = class_text(f"class {class_name}(Struct):", lines)
        self.module.used.add("Struct")
        if class_name not in self.module.written:
            self.module.written[class_name] = text
            self.structs.append(text)
        elif self.module.written[class_name] != text:
            raise SystemExit(f"two different structs are called {class_name}")
        return class_name


def ambiguous_names(definitions: list[Definition]) -> set[str]:
    """Return names that request and response use for different structs."""
    seen: dict[str, str] = {}
    ambiguous: set[str] = set()

    def visit(name: str, fields: list[Definition]) -> None:
        facts = json.dumps(fields_without_words(fields), sort_keys=True)
        if seen.setdefault(name, facts) != facts:
            ambiguous.add(name)
        for field in fields:
            if "fields" in field:
                visit(field["type"].removeprefix("[]"), field["fields"])

    for definition in definitions:
        visit(definition["name"], definition["fields"])
        for entry in definition.get("commonStructs", []):
            visit(entry["name"], entry["fields"])
    return ambiguous


def fields_without_words(fields: list[Definition]) -> list[Definition]:
    return [
        {
            key: fields_without_words(value) if key == "fields" else value
            for key, value in field.items()
            if key not in ("about", "entityType", "mapKey")
        }
        for field in fields
    ]


def default_text(field: Definition) -> str | None:
    """Return the default as Python source; None if it is the zero of its type.

    To Kafka a JSON null is no default; the string "null" is one.
    """
    default = field.get("default")
    kind = field["type"]
    if default is None or default == "":
        return None
    if default == "null":
        return "None"
    if kind == "bool":
        return "True" if str(default).lower() == "true" else None
    if kind == "string":
        return json.dumps(default)
    number = int(str(default), 0)
    return str(number) if number else None


def parse_range(text: str) -> Range:
    if text == "none":
        return OPEN_END, -1
    if text.endswith("+"):
        return int(text[:-1]), OPEN_END
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def field_range(field: Definition) -> Range:
    """Return the versions of a field; one that only has tagged versions exists just there."""
    return parse_range(field.get("versions") or field["taggedVersions"])


def clip(versions: Range, valid: Range) -> Range:
    return max(versions[0], valid[0]), min(versions[1], valid[1])


def range_text(versions: Range, valid: Range) -> str:
    first, last = versions
    if last == valid[1]:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


def class_text(head: str, lines: list[str]) -> str:
    return "\n".join([head, *(lines or ["    pass"])]) + "\n"


def isort_key(name: str) -> tuple[bool, str, int]:
    """Sort classes first, and numbers inside names by value, as the linter sorts imports."""
    word = name.rstrip("0123456789")
    return not name[0].isupper(), word, int(name[len(word) :] or 0)


if __name__ == "__main__":
    main()
