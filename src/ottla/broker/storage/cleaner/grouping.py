"""Groups adjacent segments into one: as many as fit into a segment before they are cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.storage.segments.mapped_index import RELATIVE_OFFSET_MAX
from ottla.config.topic import TopicConfig

SEGMENTS_MAX = 1000
"""The most segments in one group: the renames of a swap then take only milliseconds."""


class Source(NamedTuple):
    """A segment to copy, with the sizes and time of its files."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int
    modified_ms: int


def group_segments(
    segments: Sequence[Source], config: TopicConfig, uncleanable_offset: int
) -> list[list[Source]]:
    """Group the segments, bounded by the size of the log and of both indexes, and by the range of
    an index entry."""
    groups: list[list[Source]] = []
    size = index_bytes = time_index_bytes = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        upper_offset = uncleanable_offset if is_last else segments[number + 1].base_offset
        fits = (
            bool(groups)
            and size + segment.size <= config.segment_bytes
            and index_bytes + segment.index_bytes <= config.segment_index_bytes
            and time_index_bytes + segment.time_index_bytes <= config.segment_index_bytes
            and len(groups[-1]) < SEGMENTS_MAX
            and (
                not segment.size
                or upper_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if not fits:
            groups.append([])
            size = index_bytes = time_index_bytes = 0
        groups[-1].append(segment)
        size += segment.size
        index_bytes += segment.index_bytes
        time_index_bytes += segment.time_index_bytes
    return groups
