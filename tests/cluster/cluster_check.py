"""What must hold at the end of the story of a cluster under faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactly_once_check import (
    LiveReader,
    Seen,
    aborts,
    await_count,
    by_key,
    check_nothing_is_open,
    check_offsets,
    check_once_each_in_order,
    check_transactions_are_whole,
    read_to_end,
)
from steady_feed import KEYS, UNKNOWN, Acked, read_acked

if TYPE_CHECKING:
    from cluster_faults import ClusterStory


def check(story: ClusterStory, live: list[LiveReader]) -> dict[str, Any]:
    from cluster_faults import PARTITIONS
    from exactly_once import SOURCE, TARGET

    address = story.address
    fed = read_to_end(address, SOURCE, PARTITIONS)
    acked = read_acked(Path(story.acked_path))
    check_acknowledged(acked, fed)
    await_count(story, live[1], len(fed))  # type: ignore[arg-type]
    story.end_copies()
    copied = read_to_end(address, TARGET, PARTITIONS)
    check_once_each_in_order(fed, copied)
    cut_short = check_transactions_are_whole(story, copied)  # type: ignore[arg-type]
    for reader, read in zip(live, (fed, copied), strict=True):
        assert not reader.refused, reader.refused
        assert sorted(reader.found) == read, "a reader along the way saw something else than after"
    check_nothing_is_open(address, (SOURCE, TARGET), PARTITIONS)
    check_offsets(address, fed)
    complaints = story.cluster.complaints()
    assert not complaints, complaints[:5]
    return {
        "records": len(fed),
        "offset_unknown": sum(one.offset == UNKNOWN for one in acked),
        "transactions": len({one.value.split()[1] for one in copied}),
        "aborted_by_copies": dict(aborts(story)),  # type: ignore[arg-type]
        **cut_short,
    }


def check_acknowledged(acked: list[Acked], fed: list[Seen]) -> None:
    """Everything acknowledged lies where it was said to be, once, in the order of sending."""
    there = {(one.partition, one.offset): (one.key, int(one.value)) for one in fed}
    placed = [one for one in acked if one.offset != UNKNOWN]
    lost = [
        one for one in placed if there.get((one.partition, one.offset)) != (one.key, one.number)
    ]
    assert not lost, f"acknowledged, but not there: {len(lost)} of {len(acked)}, as {lost[:3]}"
    numbers = by_key(fed)
    for key in KEYS:
        found = numbers.get(key, [])
        assert found == list(range(len(found))), f"{key} is not once each, in order"
    # Records are acknowledged or still to be sent when the feed ends: none was refused.
    assert len(acked) == len(fed), f"{len(fed)} records for {len(acked)} acknowledgements"
