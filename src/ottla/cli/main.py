"""The entry point of the command `ottla`.

`ottla start` bypasses typer, which takes 120 ms and 18 MB with its imports: too much for a broker
that should be ready in half a second and stay small while it runs.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    interrupted = _end_quietly_on_interrupt()
    _open_missing_streams()
    if sys.argv[1:2] == ["start"]:
        from ottla.cli.start import main as start

        sys.exit(start(sys.argv[2:]))
    from ottla.cli.root import app

    signal.signal(signal.SIGINT, interrupted)
    app()


def _end_quietly_on_interrupt() -> Any:
    """Let Ctrl-C end the process without a traceback while modules are imported; return the
    previous handler. Nothing is under way then that a traceback would explain."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return interrupted


def _open_missing_streams() -> None:
    """Open stdin, stdout and stderr if the caller closed them. Otherwise the first socket would get
    their number, and printed text would go to a client."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


if __name__ == "__main__":
    main()
