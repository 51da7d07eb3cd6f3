"""The log files of a version, and reading them.

`pipeline.log`: what the process did and the errors in full; `spark.log`: Spark's warnings and
errors; `output.log`: what the application and its workers print. All are kept small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PIPELINE_LOG = "pipeline.log"
SPARK_LOG = "spark.log"
OUTPUT_LOG = "output.log"
LOGS = {"pipeline": PIPELINE_LOG, "spark": SPARK_LOG, "output": OUTPUT_LOG}

_BLOCK_BYTES = 64 << 10


def trim(file: Path, bytes_max: int) -> None:
    """Moves what is in a file that another process appends to, once it is long, to `FILE.1`.

    A process writes at the end wherever that is by now, so the file can be emptied under it; what
    is written in the moment between copy and cut is lost."""
    try:
        if file.stat().st_size <= bytes_max:
            return
        old = file.with_name(f"{file.name}.1")
        old.write_bytes(file.read_bytes())
        os.truncate(file, 0)
    except FileNotFoundError:
        return


def tail(file: Path, lines: int) -> list[str]:
    """The last lines, read from the end."""
    try:
        with file.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            data = b""
            while size > 0 and data.count(b"\n") <= lines:
                step = min(_BLOCK_BYTES, size)
                size -= step
                source.seek(size)
                data = source.read(step) + data
    except FileNotFoundError:
        return []
    return data.decode(errors="replace").splitlines()[-lines:]


def added(file: Path, position: int) -> tuple[list[str], int]:
    """Whole lines from `position` on, and where they end; begins anew when the file was cut."""
    try:
        with file.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(position if position <= size else 0)
            start = source.tell()
            data = source.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), start + len(whole)


def existing(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, file in LOGS.items():
        if (folder / file).exists():
            yield name, folder / file
