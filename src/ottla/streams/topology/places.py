"""Lines of the user's program, to name in errors."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

_OURS = str(Path(__file__).parents[2])
_NOT_THEIRS = (_OURS, "<", sys.prefix, sys.base_prefix)


@dataclass(frozen=True)
class Place:
    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    @property
    def code(self) -> str:
        """The line itself; empty if the file no longer exists."""
        return linecache.getline(self.file, self.line).strip()


def calling_place() -> Place | None:
    """Return the line of the program that called into streams."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_theirs(frame.f_code.co_filename):
            return Place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def failing_place(error: BaseException) -> Place | None:
    """Return the innermost line of the program in an error's traceback."""
    found = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if is_theirs(trace.tb_frame.f_code.co_filename):
            found = Place(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def is_theirs(file: str) -> bool:
    """True if the file belongs to the program: not to Ottla, Python or a package."""
    return not file.startswith(_NOT_THEIRS)
