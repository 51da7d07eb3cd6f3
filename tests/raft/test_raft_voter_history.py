"""Sets of voters along the log, as far as the log still goes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from raft_stage import voter

from ottla.broker.raft.ids import OffsetAndEpoch
from ottla.broker.raft.log_view import ControlRecord, LogView
from ottla.broker.raft.voters.history import VoterHistory
from ottla.broker.raft.voters.voters import VoterSet


class ChangingLog:
    """Sets of voters by offset, and the one that a snapshot at its start names."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end = OffsetAndEpoch(0, 0)
        self.changes: dict[int, VoterSet] = {}
        self.settled: VoterSet | None = None

    def change(self, offset: int, *voters: int) -> None:
        self.changes[offset] = VoterSet(map(voter, voters))
        self.end = OffsetAndEpoch(offset + 1, 1)

    def begin_at(self, offset: int, *voters: int) -> None:
        self.start_offset = offset
        self.settled = VoterSet(map(voter, voters))
        self.changes = {at: one for at, one in self.changes.items() if at >= offset}

    def control_records(self, offset: int) -> Iterable[tuple[int, ControlRecord]]:
        if offset < self.start_offset and self.settled is not None:
            yield self.start_offset - 1, self.settled.to_record()
        for at, voters in sorted(self.changes.items()):
            if at >= offset:
                yield at, voters.to_record()


def test_what_the_log_has_forgotten_is_forgotten_but_for_what_counts_at_its_start() -> None:
    log = ChangingLog()
    history = VoterHistory(VoterSet(()), cast("LogView", log))
    for offset, voters in ((5, (1,)), (9, (1, 2)), (14, (1, 2, 3))):
        log.change(offset, *voters)
        history.catch_up()
    log.begin_at(12, 1, 2)
    log.change(20, 1, 3)
    history.catch_up()
    assert history.voters_at(8) == VoterSet(()), "nobody can ask for it any more"
    assert history.voters_at(11) == VoterSet(map(voter, (1, 2)))
    assert history.voters_at(14) == VoterSet(map(voter, (1, 2, 3)))
    assert history.voters == VoterSet(map(voter, (1, 3)))


def test_a_snapshot_in_place_of_the_log_leaves_nothing_of_it() -> None:
    log = ChangingLog()
    history = VoterHistory(VoterSet(()), cast("LogView", log))
    log.change(5, 1, 2)
    log.change(8, 1, 2, 3)
    history.catch_up()
    log.changes.clear()
    log.begin_at(30, 2)
    log.end = OffsetAndEpoch(30, 3)
    history.restart()
    assert history.voters == VoterSet([voter(2)])
    assert history.voters_offset == 29
    assert not history.may_stand(voter(1).key), "its removal is in the snapshot"
    assert history.may_stand(voter(2).key)
