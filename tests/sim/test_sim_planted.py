"""Proof that the simulation can fail: each of eighteen planted bugs is found within a few seeds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from play_planted import LAST_STANDING

from ottla.sim.scenarios.cluster import play

PLAYER = Path(__file__).with_name("play_planted.py")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("bug", "seeds", "sign"),
    [
        pytest.param("early_ack", 5, "committed|lost write", id="acknowledges before replication"),
        pytest.param("truncation", 20, "committed|lost write", id="truncates by high watermark"),
        pytest.param(
            "vote",
            5,
            "of the quorum, others|has another log|is committed",
            id="votes without fsync",
        ),
        pytest.param(
            "kept_voters",
            8,
            "has voters|committed, others have",
            id="counts voters that were cut off the log",
        ),
        pytest.param(
            "hasty_change",
            12,
            "committed, others have|of the quorum, others",
            id="changes voters before the last change is committed",
        ),
        pytest.param(
            "removed_replica", 5, "not a part of the replicas", id="counts a removed replica"
        ),
        pytest.param("lost_end", 12, "is committed|lost write", id="counts on what lost power"),
        pytest.param(
            "void_record",
            5,
            "lost key",
            id="compacts away what an aborted record seemed to replace",
        ),
        pytest.param("forgotten_abort", 3, "aborted read", id="forgets an abort"),
        pytest.param(
            "fenced_end",
            3,
            "for no reason.*PRODUCER_FENCED",
            id="fences a producer whose last markers are on their way",
        ),
        pytest.param(
            "void_note",
            3,
            "for no reason.*INVALID_TXN_STATE",
            id="does not ask again after a marker",
        ),
        pytest.param(
            "unmuted", 2, "before its mute was over", id="tells to wait, and does not wait"
        ),
        pytest.param(
            "new_budgets", 3, "greedy got", id="forgets what was used when a quota changes"
        ),
        pytest.param(
            "borrowed_budget", 2, "free was throttled", id="takes a client for another of its user"
        ),
        pytest.param("endless_mute", 3, "is muted since", id="mutes for a thousand times too long"),
        pytest.param("full_buckets", 2, "changed .* partitions", id="forgets who changed how much"),
        pytest.param("open_door", 8, "connection_creation_rate", id="lets too many in"),
        pytest.param("lost_principal", 2, "without a right to", id="takes a broker for its client"),
    ],
)
def test_a_planted_bug_is_found(bug: str, seeds: int, sign: str) -> None:
    done = subprocess.run(
        [sys.executable, PLAYER, bug, str(seeds)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert re.search(sign, done.stdout)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [pytest.param(7, id="a move is cancelled meanwhile"), 1])
def test_the_last_in_sync_may_lose_power_where_others_are_eligible(seed: int) -> None:
    play(seed, nodes=3, synced=False, storm=LAST_STANDING)
