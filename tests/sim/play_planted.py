"""`play_planted.py BUG SEEDS`: play seed after seed with a planted bug, until it is found.

In a process of its own, where hashes are not salted: what finds it today finds it tomorrow.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

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
FAIR = Storm(20.0, ("change_weather",), 3.0)
QUIET = Storm(60.0, ("restart",), 15.0)
STORMS: dict[str, dict[str, Any]] = {
    "early_ack": {"nodes": 3, "storm": DEATHS},
    "truncation": {"nodes": 3, "storm": RESTARTS},
    "vote": {"nodes": 3, "synced": True, "storm": ELECTIONS},
    "kept_voters": {"nodes": 3, "dynamic": True, "storm": STRANDED},
    "hasty_change": {"nodes": 3, "dynamic": True, "storm": STRANDED},
    "removed_replica": {"nodes": 4, "storm": CALM},
    "lost_end": {"nodes": 3, "synced": False, "storm": LAST_STANDING},
    "void_record": {"compacted": True, "storm": QUIET},
    "forgotten_abort": {"storm": CALM},
    "fenced_end": {"nodes": 3, "hasty": True, "storm": FAIR},
    "void_note": {"nodes": 3, "hasty": True, "storm": FAIR},
    "lost_principal": {"nodes": 3, "guarded": True, "storm": CALM},
    **{
        bug: {"nodes": 3, "limited": True, "storm": CALM}
        for bug in (
            "unmuted",
            "new_budgets",
            "borrowed_budget",
            "endless_mute",
            "full_buckets",
            "open_door",
        )
    },
}
"""What each bug has to fear."""


def main(bug: str, seeds: int) -> None:
    logging.disable(logging.CRITICAL)
    importlib.import_module(f"planted_{bug}").plant(pytest.MonkeyPatch())
    for seed in range(1, seeds + 1):
        try:
            play(seed, **{"hasty": False, "guarded": False, "limited": False, **STORMS[bug]})
        except Violation as found:
            print(f"seed {seed}: {found}")
            return
    sys.exit(f"{bug} was not found within {seeds} seeds")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
