"""The last offset of each key, in one buffer of a fixed size.

A key is represented by a hash of 16 bytes, so that 24 bytes hold an entry whatever the key is: two
keys with the same hash are not to be expected in the lifetime of a universe. Collisions of places
are resolved by double hashing, which stays fast until the buffer is nearly full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

HASH_BYTES = 16
ENTRY_BYTES = HASH_BYTES + 8
MEMORY_BYTES_MAX = 2**31 - 1
"""As much as Kafka gives one thread."""
_SLOTS_MIN = 3


class OffsetMap:
    """Entries are never removed. `end_offset`: all records before it are known to the map."""

    __slots__ = ("_buffer", "_entries_max", "_offsets", "_slots", "end_offset", "entries")

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self._slots = _greatest_prime(min(memory_bytes, MEMORY_BYTES_MAX) // ENTRY_BYTES)
        self._entries_max = int(self._slots * load_factor)
        if self._entries_max < 1 or self._slots < _SLOTS_MIN:
            raise ValueError(
                f"{memory_bytes} bytes with load factor {load_factor} hold no key: raise "
                "log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        # Fresh zeros from the OS: pages that no key falls into cost nothing.
        self._buffer = bytearray(self._slots * ENTRY_BYTES)
        # Offset + 1, so that 0 means: free.
        self._offsets = memoryview(self._buffer)[self._slots * HASH_BYTES :].cast("q")
        self.entries = 0
        self.end_offset = 0

    @property
    def utilization(self) -> float:
        return self.entries / self._slots

    def put(
        self, keys: Iterable[bytes | None], deltas: Iterable[int], base_offset: int, first: int
    ) -> int | None:
        """Note the records of a batch from offset `first` on that have a key; the offset of the
        first one for which there was no room."""
        buffer, stored, slots = self._buffer, self._offsets, self._slots
        for key, delta in zip(keys, deltas, strict=True):
            offset = base_offset + delta
            if key is None or offset < first:
                continue
            digest = blake2b(key, digest_size=HASH_BYTES).digest()
            number = hash(digest)
            slot = number % slots
            while stored[slot]:
                position = slot * HASH_BYTES
                if buffer[position : position + HASH_BYTES] == digest:
                    break
                slot = (slot + 1 + number // slots % (slots - 1)) % slots
            else:
                if self.entries >= self._entries_max:
                    return offset
                position = slot * HASH_BYTES
                buffer[position : position + HASH_BYTES] = digest
                self.entries += 1
            stored[slot] = offset + 1
        return None

    def find(self, keys: Sequence[bytes | None]) -> list[int]:
        """The last offset of each key, -1 for those that the map does not know."""
        buffer, stored, slots = self._buffer, self._offsets, self._slots
        found = []
        for key in keys:
            if key is None:
                found.append(-1)
                continue
            digest = blake2b(key, digest_size=HASH_BYTES).digest()
            number = hash(digest)
            slot = number % slots
            while True:
                following = stored[slot]
                position = slot * HASH_BYTES
                if not following or buffer[position : position + HASH_BYTES] == digest:
                    break
                slot = (slot + 1 + number // slots % (slots - 1)) % slots
            found.append(following - 1)
        return found


def _greatest_prime(limit: int) -> int:
    """Not above `limit`. A prime number of slots lets every step width reach every slot."""
    for number in range(limit, _SLOTS_MIN, -1):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            return number
    return limit
