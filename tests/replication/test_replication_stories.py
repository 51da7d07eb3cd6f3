"""Random stories of three replicas: what was acknowledged stays, and what was shown never changes.

A failing story prints its seed; `tell_story(seed, STEPS)` tells it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from replication_world import Broken, tell_story

from ottla.broker.replication import follower_fetch
from ottla.broker.replication.following import truncate
from ottla.broker.replication.leader_state import LeaderState
from ottla.broker.replication.partition import Partition

STEPS = 600
STORIES = 60


def stories(count: int, first_seed: int) -> dict[str, int]:
    totals: dict[str, int] = {}
    for seed in range(first_seed, first_seed + count):
        try:
            counts = tell_story(seed, STEPS).counts
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        for what, number in counts.items():
            totals[what] = totals.get(what, 0) + number
    return totals


def test_acknowledged_records_survive_elections_losses_and_restarts() -> None:
    totals = stories(STORIES, random.randrange(1 << 30))
    # The stories must have had something to survive.
    for what in ("acknowledged", "truncated", "killed", "lost power", "isr changed"):
        assert totals.get(what, 0) >= 10, totals


def test_a_truncation_that_power_loss_undoes_shows_nothing_of_what_was_truncated() -> None:
    tell_story(282884208, STEPS)


# The stories can fail: with one rule broken, they find out.


def commits_at_once(self: LeaderState, end_offset: int, *_: Any) -> int:
    return end_offset


def truncates_to_high_watermark(self: Partition, assigned: Any) -> bool:
    is_news: bool = FOLLOW(self, assigned)
    if is_news and self.log is not None:
        truncate(self, self.high_watermark)
    return is_news


def shows_all_at_start(self: Partition, log: Any, high_watermark: int | None = None) -> None:
    ATTACH(self, log, log.end_offset)


def shrinks_before_it_may(self: LeaderState, isr: tuple[int, ...], epoch: int) -> Any:
    proposal = PROPOSE(self, isr, epoch)
    self.maximal_isr = frozenset(isr)
    return proposal


def never_parts(log: Any, fetch: Any) -> None:
    return None


FOLLOW: Any = Partition.follow
ATTACH: Any = Partition.attach
PROPOSE: Any = LeaderState._propose


@pytest.mark.parametrize(
    ("owner", "name", "mistake"),
    [
        (LeaderState, "high_watermark", commits_at_once),
        (Partition, "follow", truncates_to_high_watermark),
        (Partition, "attach", shows_all_at_start),
        (LeaderState, "_propose", shrinks_before_it_may),
        (follower_fetch, "_parting", never_parts),
    ],
)
def test_a_broken_rule_is_found_within_forty_stories(
    owner: Any, name: str, mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mistake)
    for seed in range(40):
        try:
            tell_story(seed, STEPS)
        except Broken:
            return
    pytest.fail(f"forty stories, and nobody noticed {mistake.__name__}")
