"""What goes wrong with pipelines and a person can mend: what, where, and what to do."""

from __future__ import annotations

from pathlib import Path


class PipelineError(Exception):
    """Told to people as one line, without a traceback."""


class InvalidFile(PipelineError):
    """An application file that cannot be run; `where` is the place in it, like `source.format`."""

    def __init__(self, file: Path, line: int | None, where: str, problem: str) -> None:
        place = f"{file}:{line}" if line else str(file)
        super().__init__(f"{place}: {where}: {problem}" if where else f"{place}: {problem}")


class StepFailed(PipelineError):
    """A step that Spark refused, or that failed on a record."""

    def __init__(self, step: str, problem: str, record: str | None = None) -> None:
        self.step = step
        self.record = record
        at = f" at record {record}" if record else ""
        super().__init__(f"{step} failed{at}: {problem}")


class UnknownPipeline(PipelineError):
    def __init__(self, name: str, known: list[str]) -> None:
        there = f"there are: {', '.join(known)}" if known else "there are none"
        super().__init__(f"there is no pipeline {name!r}; {there}")
