"""Records worked on in parallel: what may be committed, what may run at the same time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.client.consumer.parallel.done_offsets import DoneOffsets
from ottla.client.consumer.parallel.lanes import Lanes


@given(data=st.data(), gaps=st.lists(st.integers(1, 5), min_size=1, max_size=30))
def test_what_can_be_committed_ends_at_the_first_record_not_done(
    data: st.DataObject, gaps: list[int]
) -> None:
    offsets = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    progress = DoneOffsets()
    for offset in offsets:
        progress.begin(offset, leader_epoch=offset * 10)
    left = list(offsets)
    for offset in data.draw(st.permutations(offsets)):
        progress.finish(offset)
        left.remove(offset)
        done_before = [one for one in offsets if not left or one < left[0]]
        expected = done_before[-1] + 1 if done_before else offsets[0]
        assert progress.committable.offset == expected
        if done_before:
            assert progress.committable.leader_epoch == done_before[-1] * 10
        assert progress.count == len(left)
    assert progress.all_done


def test_before_the_first_record_there_is_nothing_to_commit() -> None:
    assert DoneOffsets().committable is None
    assert DoneOffsets().all_done


class LanesModel(RuleBasedStateMachine):
    """Pieces are (lane, number); each lane must give them out in order, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: Lanes[tuple[int, int]] = Lanes()
        self.queued: dict[int, list[int]] = {}
        self.running: dict[int, int] = {}
        self.number = 0

    @rule(lane=st.integers(0, 3))
    def add(self, lane: int) -> None:
        self.number += 1
        self.lanes.add(lane, (lane, self.number))
        self.queued.setdefault(lane, []).append(self.number)

    @precondition(lambda self: self.lanes.has_ready)
    @rule()
    def begin(self) -> None:
        lane, (owner, number) = self.lanes.next()
        assert lane == owner
        assert lane not in self.running
        assert self.queued[owner].pop(0) == number
        self.running[owner] = number

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[lane]
        self.lanes.done(lane)

    @rule(lane=st.integers(0, 3), odd=st.integers(0, 1))
    def drop(self, lane: int, odd: int) -> None:
        def unwanted(piece: tuple[int, int]) -> bool:
            return piece[0] == lane and piece[1] % 2 == odd

        dropped = self.lanes.drop(unwanted)
        queued = self.queued.get(lane, [])
        assert sorted(dropped) == [(lane, one) for one in queued if one % 2 == odd]
        self.queued[lane] = [one for one in queued if one % 2 != odd]

    @invariant()
    def what_can_run_is_ready(self) -> None:
        free = [lane for lane, queued in self.queued.items() if queued and lane not in self.running]
        assert self.lanes.has_ready == bool(free)
        assert self.lanes.waiting == sum(map(len, self.queued.values()))


TestLanes = LanesModel.TestCase


def test_lanes_without_work_take_no_memory() -> None:
    lanes: Lanes[int] = Lanes()
    for number in range(1000):
        lanes.add(number, number)
        lane, _ = lanes.next()
        lanes.done(lane)
    assert not lanes._behind
    with pytest.raises(IndexError):
        lanes.next()
