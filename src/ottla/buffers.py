"""The one name for "some bytes lying in memory", shared by every room."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
