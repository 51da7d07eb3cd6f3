"""Finds a program saved as `copy.py`, which is imported instead of Python's module `copy`.

It imports almost nothing, because it is called when imports have failed.
"""

from __future__ import annotations

import os
import sys


def hidden_module() -> str | None:
    """Return a sentence about a file beside the program that hides a module of Python's, if any."""
    if sys.flags.safe_path or not sys.path:
        return None
    folder = os.path.abspath(sys.path[0])
    for name in sys.stdlib_module_names:
        file = os.path.join(folder, f"{name}.py")
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if os.path.isfile(file) and loaded in (None, file):
            return f"{file} hides Python's own module of that name: rename it"
    return None
