"""The log files of a version, and reading them.

`pipeline.log`: the actions of the process and full errors; `spark.log`: Spark's warnings and
errors; `output.log`: the output of the application and its workers. All are kept small.
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
    """Move the content of a long file that another process appends to, to `FILE.1`.

    The process always writes at the current end, so the file can be emptied meanwhile; text written
    between copy and truncation is lost.
    """
    try:
        if file.stat().st_size <= bytes_max:
            return
        old = file.with_name(f"{file.name}.1")
        old.write_bytes(file.read_bytes())
        os.truncate(file, 0)
    except FileNotFoundError:
        return


def tail(file: Path, lines: int) -> list[str]:
    """Return the last lines, read from the end."""
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
    """Return whole lines from `position` on, and where they end; start over if the file was cut."""
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
