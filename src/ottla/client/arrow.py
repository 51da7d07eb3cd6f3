"""Loads pyarrow, if it is installed: only the columnar calls need it, so only they import it."""

from __future__ import annotations

from typing import Any

from ottla.client.errors import MissingExtra


def load_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
    return pyarrow


def load_compute() -> Any:
    load_pyarrow()
    import pyarrow.compute

    return pyarrow.compute
