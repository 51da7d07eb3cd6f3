"""Checks a YAML pipeline from its sources to its sink: is each step SQL, and does it find its
columns?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ottla.pipelines.checking.sql_names import (
    Unknown,
    find_unknown,
    select_columns,
    selected,
)
from ottla.pipelines.checking.sql_syntax import find_mistake
from ottla.pipelines.declared.declaration import (
    ONLY_VIEW,
    ORIGIN_COLUMNS,
    RAW_COLUMNS,
    Declaration,
    FileSource,
    Step,
    TopicSink,
    TopicSource,
)
from ottla.pipelines.declared.mistakes import line_with
from ottla.pipelines.declared.schemas import Shape, parse_schema
from ottla.pipelines.errors import InvalidFile

Frame = dict[str, Shape] | None
"""The columns of a frame; None: only Spark knows them."""


def check_declaration(declaration: Declaration) -> list[str]:
    """Raise InvalidFile for the first mistake; return what could not be checked."""
    return _Check(declaration).run()


class _Check:
    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._views: dict[str, Frame] = {one.view: _columns_of(one) for one in declaration.sources}
        self._unsure: list[str] = []

    def run(self) -> list[str]:
        frame = self._views[self._declaration.sources[-1].view]
        for step in self._declaration.steps:
            frame = self._after(step, frame)
            self._views[ONLY_VIEW] = frame
            if step.name:
                self._views[step.name] = frame
        self._check_sink(frame)
        return self._unsure

    def _after(self, step: Step, frame: Frame) -> Frame:
        if step.kind == "python":
            self._unsure.append(f"{step.label}: its columns are known when Spark runs it")
            return None
        if step.kind in ("filter", "select", "sql", "with"):
            written = step.arguments[1::2] if step.kind == "with" else step.arguments
            self._check_syntax(
                *(written, step.line, self._last_line(step), step.where),
                has_name=step.kind in ("select", "sql"),
            )
        if step.kind == "sql":
            return self._after_query(step)
        if frame is None:
            return None
        texts = list(step.arguments)
        match step.kind:
            case "with":
                names = texts[::2]
                self._check_columns(step, texts[1::2], {**frame, **dict.fromkeys(names)})
                return {**frame, **dict.fromkeys(names)}
            case "select":
                self._check_columns(step, [", ".join(texts)], frame)
                return select_columns(texts, frame)
            case "drop":
                dropped = {name.lower() for name in texts}
                return {name: one for name, one in frame.items() if name.lower() not in dropped}
            case "watermark":
                self._check_columns(step, texts[:1], frame)
            case _:  # filter, deduplicate
                self._check_columns(step, texts, frame)
        return frame

    def _after_query(self, step: Step) -> Frame:
        text = step.arguments[0]
        known: dict[str, Shape] = {}
        for name, columns in self._views.items():
            if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE):
                if columns is None:
                    return selected(text, self._views)
                known.update(columns)
        if unknown := find_unknown(text, known, self._views):
            self._fail(step.line, self._last_line(step), step.where, unknown)
        return selected(text, self._views)

    def _check_columns(self, step: Step, texts: list[str], frame: dict[str, Shape]) -> None:
        for text in texts:
            if unknown := find_unknown(text, frame, {}):
                self._fail(step.line, self._last_line(step), step.where, unknown)

    def _check_sink(self, frame: Frame) -> None:
        sink = self._declaration.sink
        if isinstance(sink, TopicSink) and sink.key:
            self._check_syntax([sink.key], sink.line, None, "sink.key", has_name=False)
        if frame is None:
            return
        name = "key" if isinstance(sink, TopicSink) else "partition_by"
        key = [sink.key] if isinstance(sink, TopicSink) else list(sink.partition_by)
        for text in filter(None, key):
            if unknown := find_unknown(text, frame, {}):
                self._fail(sink.line, None, f"sink.{name}", unknown)

    def _check_syntax(
        self,
        texts: Iterable[str],
        first: int,
        last: int | None,
        where: str,
        *,
        has_name: bool,
    ) -> None:
        for text in texts:
            if mistake := find_mistake(text, has_name=has_name):
                begin, end = text.rfind("\n", 0, mistake.at) + 1, text.find("\n", mistake.at)
                part = text[begin : end if end >= 0 else len(text)].strip()
                file = self._declaration.file
                line = line_with(file, part, first, last) if part else None
                told = f"in {part!r}: {mistake.problem}" if part else mistake.problem
                raise InvalidFile(file, line or first, where, told)

    def _last_line(self, step: Step) -> int | None:
        """Return the line at which the next step begins."""
        steps = self._declaration.steps
        return steps[step.number].line if step.number < len(steps) else None

    def _fail(self, first: int, last: int | None, where: str, unknown: Unknown) -> None:
        file = self._declaration.file
        line = line_with(file, unknown.name, first, last) or first
        raise InvalidFile(file, line, where, str(unknown))


def _columns_of(source: TopicSource | FileSource) -> Frame:
    if isinstance(source, FileSource):
        if source.schema is None or _has_partitions(source.path):
            return None
        return {**parse_schema(source.schema), "_metadata": None}
    if source.schema is None:
        return dict.fromkeys(RAW_COLUMNS)
    return {**parse_schema(source.schema), **dict.fromkeys(ORIGIN_COLUMNS)}


def _has_partitions(path: str) -> bool:
    """True if there may be folders like `country=AT`, which give Spark more columns."""
    folder = Path(path.removeprefix("file:"))
    return "://" in path or (folder.is_dir() and any("=" in one.name for one in folder.iterdir()))
