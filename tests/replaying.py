"""For programs that draw their choices from a seed: a failure ends with how to repeat it."""

import sys
from types import TracebackType


def end_failures_with(command: str) -> None:
    """Print `command` below the traceback of an exception that ends this program."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        print(f"replay it with: {command}", file=sys.stderr)

    sys.excepthook = hook
