"""Memory directly from the system."""

from __future__ import annotations

import mmap


def mapped_memory(size: int) -> memoryview:
    """Return zeroed memory whose pages are taken when they are written to, and are returned to the
    system when the last view is dropped."""
    return memoryview(mmap.mmap(-1, size))
