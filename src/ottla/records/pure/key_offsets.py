"""The last offset of each key, in memory of a fixed size, for compaction.

A key is represented by a hash of 16 bytes, so that an entry takes 24 bytes whatever the key is: two
keys with the same hash are practically impossible. Slot collisions are resolved by double hashing,
which stays fast until the memory is nearly full.
"""

from ottla.buffers import Buffer
from ottla.records.kept_records import KeptRecords
from ottla.records.payload import decode_records

HASH_BYTES = 16
ENTRY_BYTES = HASH_BYTES + 8
MEMORY_BYTES_MAX = 2**31 - 1
"""The same limit as for one thread in Kafka."""
_SLOTS_MIN = 3
_UNKNOWN = -1


class KeyOffsets:
    """Entries are never removed. `end_offset`: all records before it have been added."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        # Imported here, because it takes milliseconds, and the compiled code does not need it.
        from hashlib import blake2b

        self._hash = blake2b
        self.slots, self._entries_max = dimensions(memory_bytes, load_factor)
        # Zeroed memory from the OS: pages without a key cost nothing.
        self._buffer = bytearray(self.slots * ENTRY_BYTES)
        # Offset + 1, so that 0 means free.
        self._offsets = memoryview(self._buffer)[self.slots * HASH_BYTES :].cast("q")
        self.entries = 0
        self.end_offset = 0

    @property
    def utilization(self) -> float:
        return self.entries / self.slots

    def put(self, payload: Buffer, count: int, base_offset: int) -> int | None:
        """Add those of `count` records that have a key, from `end_offset` on; return the offset of
        the first one for which there was no room, if any."""
        for offset, _, key, _, _ in decode_records(bytes(payload), count, base_offset, 0, 0):
            if key is None or offset < self.end_offset:
                continue
            slot, digest = self._find(key)
            if not self._offsets[slot]:
                if self.entries >= self._entries_max:
                    return offset
                position = slot * HASH_BYTES
                self._buffer[position : position + HASH_BYTES] = digest
                self.entries += 1
            self._offsets[slot] = offset + 1
        return None

    def keep(
        self, payload: Buffer, count: int, base_offset: int, tombstones_go: bool
    ) -> KeptRecords:
        """Return which records are kept: the last of their key, and all from `end_offset` on."""
        mask = bytearray()
        has_tombstones, without_key = False, 0
        for offset, _, key, value, _ in decode_records(bytes(payload), count, base_offset, 0, 0):
            stays = True
            if offset < self.end_offset:
                if key is None:
                    without_key += 1
                    stays = False
                else:
                    stays = not (tombstones_go and value is None) and (
                        offset >= self.last_offset(key)
                    )
            mask.append(stays)
            if stays and value is None:
                has_tombstones = True
        return KeptRecords(bytes(mask), sum(mask), has_tombstones, without_key)

    def last_offset(self, key: bytes) -> int:
        """Return the last offset of a key; -1 if it is not known."""
        slot, _ = self._find(key)
        return self._offsets[slot] - 1

    def _find(self, key: bytes) -> tuple[int, bytes]:
        """Return the slot of the key; it is free if the key is not known."""
        buffer, stored, slots = self._buffer, self._offsets, self.slots
        digest = self._hash(key, digest_size=HASH_BYTES).digest()
        number = hash(digest)
        slot = number % slots
        while stored[slot]:
            position = slot * HASH_BYTES
            if buffer[position : position + HASH_BYTES] == digest:
                break
            slot = (slot + 1 + number // slots % (slots - 1)) % slots
        return slot, digest


def dimensions(memory_bytes: int, load_factor: float) -> tuple[int, int]:
    """Return how many slots there are, and how many of them may be used: never all, so that a
    search for an unknown key ends."""
    slots = _greatest_prime(min(memory_bytes, MEMORY_BYTES_MAX) // ENTRY_BYTES)
    entries_max = min(int(slots * load_factor), slots - 1)
    if entries_max < 1 or slots < _SLOTS_MIN:
        raise ValueError(
            f"{memory_bytes} bytes with load factor {load_factor} hold no key: raise "
            "log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
        )
    return slots, entries_max


def _greatest_prime(limit: int) -> int:
    """Return the greatest prime not above `limit`. A prime number of slots lets every step width
    reach every slot."""
    for number in range(limit, _SLOTS_MIN, -1):
        if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
            return number
    return limit
