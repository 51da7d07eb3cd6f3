"""Proof that the simulation can fail: each of nine planted bugs is found within a few seeds."""

from types import ModuleType
from typing import Any

import planted_early_ack
import planted_forgotten_abort
import planted_hasty_change
import planted_kept_voters
import planted_lost_end
import planted_removed_replica
import planted_truncation
import planted_void_record
import planted_vote
import pytest

from ottla.sim.cluster.nemesis import Storm
from ottla.sim.history import Violation
from ottla.sim.scenarios.cluster import play

DEATHS = Storm(30.0, ("kill", "isolate", "freeze", "cut_pair"), 1.0)
RESTARTS = Storm(40.0, ("kill", "restart", "freeze"), 0.7)
ELECTIONS = Storm(60.0, ("swap_majorities",), 2.0, working=False)
STRANDED = Storm(60.0, ("strand_leader",), 1.0)
LAST_STANDING = Storm(90.0, ("fail_last",), 1.0)
CALM = Storm(30.0)
QUIET = Storm(60.0, ("restart",), 15.0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("bug", "seeds", "how", "sign"),
    [
        pytest.param(
            planted_early_ack,
            5,
            {"nodes": 3, "storm": DEATHS},
            "committed|lost write",
            id="acknowledges before replication",
        ),
        pytest.param(
            planted_truncation,
            20,
            {"nodes": 3, "storm": RESTARTS},
            "committed|lost write",
            id="truncates by high watermark",
        ),
        pytest.param(
            planted_vote,
            5,
            {"nodes": 3, "synced": True, "storm": ELECTIONS},
            "of the quorum, others|has another log|is committed",
            id="votes without fsync",
        ),
        pytest.param(
            planted_kept_voters,
            8,
            {"nodes": 3, "dynamic": True, "storm": STRANDED},
            "has voters|committed, others have",
            id="counts voters that were cut off the log",
        ),
        pytest.param(
            planted_hasty_change,
            12,
            {"nodes": 3, "dynamic": True, "storm": STRANDED},
            "committed, others have|of the quorum, others",
            id="changes voters before the last change is committed",
        ),
        pytest.param(
            planted_removed_replica,
            5,
            {"nodes": 4, "storm": CALM},
            "not a part of the replicas",
            id="counts a removed replica",
        ),
        pytest.param(
            planted_lost_end,
            5,
            {"nodes": 3, "synced": False, "storm": LAST_STANDING},
            "is committed|lost write",
            id="counts on what lost power",
        ),
        pytest.param(
            planted_void_record,
            5,
            {"compacted": True, "storm": QUIET},
            "lost key",
            id="compacts away what an aborted record seemed to replace",
        ),
        pytest.param(
            planted_forgotten_abort, 3, {"storm": CALM}, "aborted read", id="forgets an abort"
        ),
    ],
)
def test_a_planted_bug_is_found(
    bug: ModuleType, seeds: int, how: dict[str, Any], sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(Violation, match=sign):
        play_all(range(1, seeds + 1), how)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [pytest.param(7, id="a move is cancelled meanwhile"), 1])
def test_the_last_in_sync_may_lose_power_where_others_are_eligible(seed: int) -> None:
    play(seed, nodes=3, synced=False, storm=LAST_STANDING)


def play_all(seeds: range, how: dict[str, Any]) -> None:
    for seed in seeds:
        play(seed, **how)
