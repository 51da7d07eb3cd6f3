"""Where the installed command `ottla` begins: outside the package, so that Ctrl-C while that is
imported ends the command without a traceback."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""What shells make of SIGINT."""


def main() -> None:
    try:
        from ottla.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
