"""CRC-32C (Castagnoli), the checksum of every batch.

The native function reads any contiguous buffer in place, with the processor's own instruction:
about 0.2 us for 1 KB, so that checking each produced batch costs next to nothing.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TypeAlias, cast

from ottla.buffers import Buffer

__all__ = ["crc32c"]

Crc32c: TypeAlias = Callable[..., int]


def _native_function() -> Crc32c:
    # Importing the package loads its command line and the metadata of all packages: 60 ms and 7 MB
    # that a broker does not need for one function. So only its extension is loaded.
    package = find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        name = "crc32c._crc32c"
        native = PathFinder.find_spec(name, package.submodule_search_locations)
        if native is not None and native.loader is not None:
            module = module_from_spec(native)
            native.loader.exec_module(module)
            return cast(Crc32c, module.crc32c)
    from crc32c import crc32c

    return crc32c


_crc32c = _native_function()


def crc32c(buffer: Buffer, start: int = 0) -> int:
    """Return the checksum of `buffer`, or of it and preceding bytes with the checksum `start`."""
    return _crc32c(buffer, start)
