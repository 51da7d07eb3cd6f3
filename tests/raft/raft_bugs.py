"""Bugs that the simulation must find: patches of the core, kept here and not in the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ottla.broker.raft.effects import Effects
from ottla.broker.raft.ids import Endpoints
from ottla.broker.raft.replica import Replica
from ottla.broker.raft.states.leader import Leader
from ottla.broker.raft.voters.voters import VoterSet


def vote_without_persisting() -> list[mock._patch[Any]]:
    """The vote is sent, and written down only when the epoch changes or a leader is known."""
    finish = Replica.finish_effects

    def finish_effects(self: Replica) -> Effects:
        effects = finish(self)
        election = self.quorum.election
        if election.voted is not None and not election.has_leader:
            effects.persist = None
        return effects

    return [mock.patch.object(Replica, "finish_effects", finish_effects)]


def commit_former_epoch() -> list[mock._patch[Any]]:
    """A majority is enough, though the record be of a former leader."""

    def committed_offset(self: Leader) -> int | None:
        ends = sorted((voter.end_offset or 0 for voter in self.voters), reverse=True)
        return ends[len(ends) // 2]

    return [mock.patch.object(Leader, "committed_offset", committed_offset)]


def count_removed_voter() -> list[mock._patch[Any]]:
    """Who was a voter once is counted for ever."""
    change = Leader.change_voters

    def change_voters(self: Leader, voters: VoterSet, now_ms: int) -> None:
        before = {voter.key.id: voter for voter in self.voters}
        change(self, voters, now_ms)
        self._voters = {**before, **self._voters}

    return [mock.patch.object(Leader, "change_voters", change_voters)]


def truncate_to_high_watermark() -> list[mock._patch[Any]]:
    """A follower of a new leader goes back to what it knows to be committed, which may be less than
    what is."""
    follow = Replica.follow

    def follow_truncated(self: Replica, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        if epoch > self.quorum.epoch:
            self.truncate(self.high_watermark or 0)
        follow(self, epoch, leader_id, endpoints)

    return [mock.patch.object(Replica, "follow", follow_truncated)]


def fetch_before_flush() -> list[mock._patch[Any]]:
    """A follower asks for more before what it has is on its disk."""
    return [mock.patch.object(Replica, "is_durable", return_value=True)]


BUGS: dict[str, Callable[[], list[mock._patch[Any]]]] = {
    "vote-without-persisting": vote_without_persisting,
    "commit-former-epoch": commit_former_epoch,
    "count-removed-voter": count_removed_voter,
    "truncate-to-high-watermark": truncate_to_high_watermark,
    "fetch-before-flush": fetch_before_flush,
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    patches = BUGS[name]()
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
