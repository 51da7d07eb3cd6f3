"""What the simulation says of voters that nodes have committed."""

import pytest

from ottla.broker.raft.ids import ReplicaKey
from ottla.broker.raft.voters.voters import VersionRange, Voter, VoterSet
from ottla.sim.cluster.voters.sets import FORMATTED, VoterSets
from ottla.sim.history import Violation


def voters(*ids: int, disk: bytes = b"d") -> VoterSet:
    return VoterSet(Voter(ReplicaKey(one, disk * 16), (), VersionRange(0, 1)) for one in ids)


FIRST, LESS = voters(1, 2, 3), voters(2, 3)


@pytest.fixture
def known() -> VoterSets:
    """One node has shown 20 records."""
    sets = VoterSets()
    sets.check("a", 0, 20, [(FORMATTED, FIRST), (1, FIRST), (10, LESS)])
    return sets


def test_nodes_may_know_more_or_less_of_the_same_log(known: VoterSets) -> None:
    known.check("b", 0, 5, [(1, FIRST)])
    known.check("c", 0, 30, [(1, FIRST), (10, LESS), (25, voters(3))])
    known.check("d", 12, 20, [(11, LESS)])
    assert known.changes == 2


def test_who_is_ahead_by_a_snapshot_alone_is_compared_later(known: VoterSets) -> None:
    known.check("b", 40, 50, [(39, voters(7)), (45, voters(7, 8))])
    known.check("a", 0, 42, [(1, FIRST), (10, LESS), (30, voters(3))])
    assert known.changes == 2


@pytest.mark.parametrize(
    ("start", "timeline"),
    [
        pytest.param(0, [(1, FIRST), (10, voters(1, 3))], id="another set"),
        pytest.param(0, [(1, FIRST)], id="a set is missing"),
        pytest.param(0, [(1, FIRST), (7, LESS), (10, LESS)], id="a set too many"),
        pytest.param(12, [(11, FIRST)], id="an old set in a snapshot"),
    ],
)
def test_other_sets_than_the_others_have_are_noticed(
    start: int, timeline: list[tuple[int, VoterSet]], known: VoterSets
) -> None:
    with pytest.raises(Violation, match=r"b has voters .* others"):
        known.check("b", start, 20, timeline)


@pytest.mark.parametrize("after", [voters(1), voters(1, 2, 4), voters(1, 2, 3, disk=b"e")])
def test_more_than_one_change_at_a_time_is_noticed(after: VoterSet) -> None:
    with pytest.raises(Violation, match="more than one voter"):
        VoterSets().check("a", 0, 9, [(1, FIRST), (5, after)])
