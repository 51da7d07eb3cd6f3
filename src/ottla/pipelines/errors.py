"""Errors of pipelines that a user can fix: what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path


class PipelineError(Exception):
    """Shown to users as one line, without a traceback."""


class InvalidFile(PipelineError):
    """An application file that cannot be run; `where` is the path in it, like `source.format`."""

    def __init__(self, file: Path, line: int | None, where: str, problem: str) -> None:
        place = f"{file}:{line}" if line else str(file)
        super().__init__(f"{place}: {where}: {problem}" if where else f"{place}: {problem}")


class StepFailed(PipelineError):
    """A step that Spark refused, or that failed on a record; `where` and `line` are its place in
    the YAML file, if there is one."""

    def __init__(
        self,
        step: str,
        problem: str,
        record: str | None = None,
        *,
        where: str = "",
        line: int = 0,
    ) -> None:
        self.step = step
        self.problem = problem
        self.record = record
        self.where = where
        self.line = line
        at = f" at record {record}" if record else ""
        super().__init__(f"{step} failed{at}: {problem}")


class UnknownPipeline(PipelineError):
    def __init__(self, name: str, known: list[str]) -> None:
        there = f"there are: {', '.join(known)}" if known else "there are none"
        super().__init__(f"there is no pipeline {name!r}; {there}")
