"""Where the command `ottla` begins.

`ottla start` goes around typer: it and what it brings along take 120 ms and 18 MB, which a broker
that is to be ready in half a second, and small for as long as it runs, does not have to spare.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    _open_missing_streams()
    if sys.argv[1:2] == ["start"]:
        from ottla.cli.start import main as start

        sys.exit(start(sys.argv[2:]))
    from ottla.cli.root import app

    app()


def _open_missing_streams() -> None:
    """Give stdin, stdout and stderr a place if whoever started this closed them: or else the first
    socket gets their number, and what is printed goes to a client."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


if __name__ == "__main__":
    main()
