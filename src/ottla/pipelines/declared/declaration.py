"""The content of a YAML pipeline, checked: sources, steps, sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

ValueFormat: TypeAlias = Literal["bytes", "string", "json", "csv"]
FileFormat: TypeAlias = Literal["parquet", "json", "csv", "orc"]
BadValues: TypeAlias = Literal["fail", "null", "skip", "dead-letters"]

VALUE_FORMATS: tuple[ValueFormat, ...] = ("bytes", "string", "json", "csv")
FILE_FORMATS: tuple[FileFormat, ...] = ("parquet", "json", "csv", "orc")
BAD_VALUES: tuple[BadValues, ...] = ("fail", "null", "skip", "dead-letters")

ONLY_VIEW = "input"
"""The view of the only source, and after each step the view of its result."""

RAW_COLUMNS = (
    *("key", "value", "headers", "timestamp"),
    *("topic", "partition", "offset", "timestampType"),
)
"""Columns of a source whose values are not parsed."""
ORIGIN_COLUMNS = {
    "_key": "cast(key as string)",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}
"""Columns, besides those of the schema, of a source whose values are parsed."""


@dataclass(frozen=True)
class TopicSource:
    """A stream. Parsed values give the columns of the schema; the origin of the record is in
    columns with an underscore: `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`, `_headers`.
    Values as bytes or string keep the columns of Spark's Kafka source."""

    view: str
    choice: tuple[str, str]
    """The option that selects topics, and its value: subscribe, subscribePattern or assign."""
    format: ValueFormat = "bytes"
    schema: str | None = None
    starting: str = "earliest"
    bad_values: BadValues = "fail"
    dead_letters: str | None = None
    parse_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    line: int = 0

    @property
    def is_parsed(self) -> bool:
        return self.format in ("json", "csv")


@dataclass(frozen=True)
class FileSource:
    """Files that do not change while the pipeline runs, to join with."""

    view: str
    path: str
    format: FileFormat = "parquet"
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    line: int = 0


StepKind: TypeAlias = Literal[
    "sql", "python", "filter", "select", "with", "drop", "watermark", "deduplicate"
]
STEP_KINDS: tuple[StepKind, ...] = (
    *("sql", "python", "filter", "select"),
    *("with", "drop", "watermark", "deduplicate"),
)


@dataclass(frozen=True)
class Step:
    """A change of the frame. `arguments` depend on its kind: see `steps.py`."""

    kind: StepKind
    number: int
    arguments: tuple[str, ...] = ()
    file: Path | None = None
    name: str | None = None
    line: int = 0

    @property
    def label(self) -> str:
        """Its name in errors: `step 2 (sql, line 14)`."""
        name = f" {self.name!r}" if self.name else ""
        return f"step {self.number}{name} ({self.kind}, line {self.line})"

    @property
    def where(self) -> str:
        """Its path in the file: `steps[1].sql`."""
        return f"steps[{self.number - 1}].{self.kind}"


@dataclass(frozen=True)
class TopicSink:
    topic: str
    key: str | None = None
    """An expression; by default the column `_key` or `key`, if there is one."""
    format: Literal["json", "raw"] | None = None
    """None: raw if the frame has only columns of the sink, with `value` among them."""
    mode: Literal["append", "update"] = "append"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    line: int = 0


@dataclass(frozen=True)
class FileSink:
    path: str
    format: FileFormat = "parquet"
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    line: int = 0


@dataclass(frozen=True)
class Declaration:
    file: Path
    name: str
    sources: tuple[TopicSource | FileSource, ...]
    steps: tuple[Step, ...]
    sink: TopicSink | FileSink
    trigger: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options `kafka.*` for the source and the sink; bootstrap.servers may come from outside."""

    @property
    def topics(self) -> list[TopicSource]:
        return [one for one in self.sources if isinstance(one, TopicSource)]

    @property
    def dead_letters(self) -> list[str]:
        """Return the topics of dead letters; several sources may share one."""
        return list(dict.fromkeys(one.dead_letters for one in self.topics if one.dead_letters))
