"""Where the last appended batches lie."""

from __future__ import annotations

import gc

from ottla.broker.storage.segments.recent_batches import GENERATION_ENTRIES_MAX, RecentBatches

LARGEST = 2**31 - 1


def test_the_last_batches_are_found():
    recent = RecentBatches()
    for number in range(3 * GENERATION_ENTRIES_MAX):
        recent.add(number, number * 70, 70)
    assert recent.get(0) is None
    for number in range(2 * GENERATION_ENTRIES_MAX, 3 * GENERATION_ENTRIES_MAX):
        assert recent.get(number) == (number * 70, 70)
    recent.clear()
    assert recent.get(number) is None


def test_the_largest_place_there_is():
    recent = RecentBatches()
    recent.add(2**63 - 1, LARGEST, LARGEST)
    assert recent.get(2**63 - 1) == (LARGEST, LARGEST)


def test_the_collector_of_garbage_has_nothing_to_look_at():
    recent = RecentBatches()
    for number in range(GENERATION_ENTRIES_MAX):
        recent.add(number, number * 70, 70)
    kept = [one for one in gc.get_referents(recent) if isinstance(one, dict)]
    assert sum(map(len, kept)) == GENERATION_ENTRIES_MAX
    assert not any(map(gc.is_tracked, kept))
