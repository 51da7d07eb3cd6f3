"""Where the command `ottla` begins.

`ottla start` goes around typer: it and what it brings along take 120 ms and 18 MB, which a broker
that is to be ready in half a second, and small for as long as it runs, does not have to spare.
"""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ["start"]:
        from ottla.cli.start import main as start

        sys.exit(start(sys.argv[2:]))
    from ottla.cli.root import app

    app()


if __name__ == "__main__":
    main()
