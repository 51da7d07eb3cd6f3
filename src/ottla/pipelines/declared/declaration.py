"""What a YAML pipeline says, checked: where from, through which steps, where to."""

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
"""The view of the only source, and after each step that of its result."""


@dataclass(frozen=True)
class TopicSource:
    """A stream. Values that are parsed give columns of the schema; where the record comes from is
    in columns with an underscore: `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`,
    `_headers`. Values as bytes or string keep the columns of Spark's Kafka source."""

    view: str
    choice: tuple[str, str]
    """The option that says which topics, and its value: subscribe, subscribePattern or assign."""
    format: ValueFormat = "bytes"
    schema: str | None = None
    starting: str = "earliest"
    bad_values: BadValues = "fail"
    dead_letters: str | None = None
    parse_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
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
    options: Mapping[str, str] = field(default_factory=dict)
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
    """One change of the frame. `arguments` are what its kind takes: see `steps.py`."""

    kind: StepKind
    number: int
    arguments: tuple[str, ...] = ()
    file: Path | None = None
    name: str | None = None
    line: int = 0

    @property
    def label(self) -> str:
        """How it is spoken of in errors: `step 2 (sql, line 14)`."""
        name = f" {self.name!r}" if self.name else ""
        return f"step {self.number}{name} ({self.kind}, line {self.line})"


@dataclass(frozen=True)
class TopicSink:
    topic: str
    key: str | None = None
    """An expression; without one, the column `_key` or `key` if there is one."""
    format: Literal["json", "raw"] | None = None
    """None: raw if the frame has nothing but columns of the sink, with `value` among them."""
    mode: Literal["append", "update"] = "append"
    options: Mapping[str, str] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True)
class FileSink:
    path: str
    format: FileFormat = "parquet"
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
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
    connection: Mapping[str, str] = field(default_factory=dict)
    """Options `kafka.*` for the source and the sink; bootstrap.servers may come from outside."""

    @property
    def topics(self) -> list[TopicSource]:
        return [one for one in self.sources if isinstance(one, TopicSource)]

    @property
    def dead_letters(self) -> str | None:
        return next((one.dead_letters for one in self.topics if one.dead_letters), None)
