"""JSON files that are complete at every moment, also after a power cut."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ottla.pipelines.errors import PipelineError


def write_json(file: Path, value: Any, *, durable: bool = True) -> None:
    """Write atomically: a reader gets the old or the new content. Only the owner can read it,
    because client options may contain passwords."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    with open(new, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        json.dump(value, out, indent=2)
        out.write("\n")
        if durable:
            out.flush()
            os.fsync(out.fileno())
    new.replace(file)
    if durable:
        _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(file: Path) -> Any:
    """Return the content; None if there is no such file."""
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineError(f"{file} is damaged: {error}") from error
