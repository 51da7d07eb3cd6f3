"""Finds the file and line of a mistake in a YAML pipeline that only Spark can detect."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import ottla
from ottla.pipelines.declared.declaration import Declaration
from ottla.pipelines.errors import InvalidFile, StepFailed

_CALL_SITE = re.compile(r"^(?P<file>.+):(?P<line>\d+)$")
_PLACE_IN_QUERY = re.compile(r";( line \d+ pos \d+;?)?$")
_PACKAGE = Path(ottla.__file__).parent


def located(declaration: Declaration, failure: StepFailed) -> InvalidFile:
    """Return the failure with its place: a line of a Python step, or of the YAML file."""
    cause = failure.__cause__
    if isinstance(cause, InvalidFile):
        return cause
    problem = _PLACE_IN_QUERY.sub("", failure.problem)
    if cause is not None and failure.where.endswith(".python"):
        place = _call_site(cause) or _last_own_line(cause, declaration.file.resolve().parent)
        if place is not None:
            return InvalidFile(_as_typed(place[0], declaration.file), place[1], "", problem)
    if not failure.line:
        return InvalidFile(declaration.file, None, failure.where, problem)
    after = _line_after(declaration, failure.line)
    found = (line_with(declaration.file, one, failure.line, after) for one in _fragments(cause))
    line = next((one for one in found if one is not None), failure.line)
    return InvalidFile(declaration.file, line, failure.where, problem)


def line_with(file: Path, text: str, first: int, after: int | None) -> int | None:
    """Return the first line from `first` on, before `after`, with the text as whole words."""
    lines = file.read_text().splitlines()
    wanted = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    for number in range(first, after or len(lines) + 1):
        if wanted.search(lines[number - 1]):
            return number
    return None


def _line_after(declaration: Declaration, line: int) -> int | None:
    """Return the line at which the next source, step or sink begins; None for the last one."""
    parts = (*declaration.sources, *declaration.steps, declaration.sink)
    return min((part.line for part in parts if part.line > line), default=None)


def _fragments(error: BaseException | None) -> list[str]:
    """Return the first lines of the expressions that Spark reports."""
    return [text.splitlines()[0] for one in _contexts(error) if (text := one.fragment().strip())]


def _call_site(error: BaseException) -> tuple[Path, int] | None:
    """Return where Python created the column that Spark reports."""
    for one in _contexts(error):
        if one.contextType().name == "DataFrame" and (found := _CALL_SITE.match(one.callSite())):
            return Path(found["file"]), int(found["line"])
    return None


def _contexts(error: BaseException | None) -> list[Any]:
    """Return the `QueryContext` objects that Spark adds to some errors."""
    contexts = getattr(error, "getQueryContext", list)
    return list(contexts())


def _last_own_line(error: BaseException, folder: Path) -> tuple[Path, int] | None:
    """Return the last line of a file below `folder` that is no installed package."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        is_installed = file.is_relative_to(_PACKAGE) or "site-packages" in file.parts
        if file.is_relative_to(folder) and not is_installed:
            found = (file, line)
    return found


def _as_typed(file: Path, beside: Path) -> Path:
    """Return the path as the user would type it, if the YAML file was named relatively."""
    folder = beside.resolve().parent
    return beside.parent / file.relative_to(folder) if file.is_relative_to(folder) else file
