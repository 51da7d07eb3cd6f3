"""Exactly once under crashes: a driver copies a topic through the sink, crashed at each step.

    python tests/spark/sink_crashes.py --crashes 40 --seed 7

The points are those that an undisturbed batch comes by, in its tasks and in its commit, and those
of recovery. What is done there: a worker is killed or fails, the driver with all its processes is
killed, its JVM alone, all but the one worker at that point, the broker; or the driver is stopped,
replaced, and wakes when its successor has done its work.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE / "crash_site", HERE.parent / "faults", HERE.parent, HERE.parent.parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from sink_story import ACTIONS, BROKER_OPTIONS, LATE, MODES, Crash, Story, Told  # noqa: E402

from broker_harness import build  # noqa: E402
from replaying import end_failures_with  # noqa: E402

T = TypeVar("T")

# Where crashes are placed

DECIDED = "commit after commit_transaction 1"
UNDECIDED = "commit before commit_transaction 1"
Place = tuple[str, tuple[str, str] | None]
"""A point, and the crash that comes first: its point and action."""

AFTER_ANY: tuple[Place, ...] = (
    # A task's first attempt has left its transaction prepared: the commit finds and aborts it.
    ("commit before abort_prepared 1", ("task after prepare_transaction 1", "worker killed")),
    ("commit after abort_prepared 1", ("task after prepare_transaction 1", "worker killed")),
    # A commit that fails is followed by an abort: before the decision it undoes,
    ("abort before abort 1", (UNDECIDED, "worker fails")),
    ("abort after init_transactions 1", (UNDECIDED, "worker killed")),
    ("abort before abort_prepared 1", (UNDECIDED, "worker fails")),
    ("abort after abort_prepared 1", (UNDECIDED, "worker fails")),
    ("abort after abort 1", (UNDECIDED, "worker fails")),
    # and after it, it finishes.
    ("abort after init_transactions 1", (DECIDED, "worker fails")),
    ("abort before commit_prepared 1", (DECIDED, "worker killed")),
    ("abort after commit_prepared 1", (DECIDED, "worker killed")),
    ("abort after abort 1", ("commit before commit_prepared 2", "worker killed")),
)
# Decided, and nothing or a part of it done: the next run of the batch finishes it,
IN_RECOVERY: dict[str, tuple[Place, ...]] = {
    "copy": (
        *AFTER_ANY,
        # in its commit,
        ("commit before commit_prepared 1", (DECIDED, "driver killed")),
        ("commit after commit_prepared 1", (DECIDED, "driver killed")),
        ("commit before commit_prepared 2", ("commit after commit_prepared 1", "driver killed")),
        ("commit before abort_prepared 1", (DECIDED, "driver killed")),
        ("commit after abort_prepared 2", (DECIDED, "driver killed")),
    ),
    "count": (
        *AFTER_ANY,
        # or before it begins to write.
        ("plan before commit_prepared 1", (DECIDED, "driver killed")),
        ("plan after commit_prepared 1", (DECIDED, "driver killed")),
        ("plan before commit_prepared 2", ("commit after commit_prepared 1", "driver killed")),
        ("plan after commit_prepared 2", (DECIDED, "JVM killed")),
    ),
}


def plan(mode: str, points: Sequence[str], chance: random.Random, count: int) -> list[Crash]:
    """Points of a batch, and a third of recovery; none twice before all had their turn. Actions
    come in turn, too."""
    recovery = count // 3
    undisturbed: list[Place] = [(point, None) for point in points]
    places = dealt(undisturbed, chance, count - recovery)
    places += dealt(IN_RECOVERY[mode], chance, recovery)
    actions = dealt(ACTIONS, chance, count)
    crashes = [
        Crash(point, action, after) for (point, after), action in zip(places, actions, strict=True)
    ]
    return chance.sample(crashes, count)


def dealt(cards: Sequence[T], chance: random.Random, count: int) -> list[T]:
    found: list[T] = []
    while len(found) < count:
        found += chance.sample(cards, min(len(cards), count - len(found)))
    return found


def late_plan(chance: random.Random, count: int) -> list[Crash]:
    """Before the decision, behind it, and between the commits of its transactions."""
    places = [UNDECIDED, DECIDED, "commit before commit_prepared 2", "commit after commit 1"]
    chance.shuffle(places)
    return [Crash(places[number % len(places)], LATE) for number in range(count)]


def play(folder: Path, seed: int, mode: str, count: int, say: Callable[[str], None]) -> list[Told]:
    broker = build(folder / "broker", BROKER_OPTIONS)
    broker.start()
    story = Story(broker, folder, seed, mode, say)
    try:
        if mode == "late":
            story.begin()
            crashes = late_plan(story.chance, count)
        else:
            first = [f"commit {when} create_topic 1" for when in ("before", "after")]
            story.begin(Crash(story.chance.choice(first), story.chance.choice(ACTIONS)))
            crashes = plan(mode, story.points(), story.chance, count - 1)
        for crash in crashes:
            story.place(crash)
            story.check()
        story.end()
    finally:
        story.remove()
        broker.kill()
    return story.told


def table(told: Sequence[Told]) -> str:
    """What was placed where."""
    found: dict[str, Counter[str]] = {}
    for one in told:
        found.setdefault(one.crash.point, Counter())[one.crash.action] += 1
    lines = [
        f"{point:45} " + ", ".join(f"{action} {n}x" for action, n in sorted(counts.items()))
        for point, counts in sorted(found.items())
    ]
    actions = Counter(one.crash.action for one in told)
    return "\n".join([*lines, "", *(f"{action:45} {n}" for action, n in sorted(actions.items()))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--crashes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--mode", choices=MODES, help="only this one")
    asked = parser.parse_args()
    shares = {"copy": 0.6, "count": 0.35, "late": 0.05}
    if asked.mode is not None:
        shares = {asked.mode: 1.0}
    print(f"--crashes {asked.crashes} --seed {asked.seed}", flush=True)
    mode = f" --mode {asked.mode}" if asked.mode is not None else ""
    end_failures_with(
        f"python tests/spark/sink_crashes.py --crashes {asked.crashes} --seed {asked.seed}{mode}"
    )
    told: list[Told] = []
    for mode, share in shares.items():
        count = math.ceil(asked.crashes * share)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            told += play(
                Path(folder), asked.seed, mode, count, lambda text: print(text, flush=True)
            )
    print(table(told))
    print(f"{len(told)} crashes; each record came out once, no transaction is open")


if __name__ == "__main__":
    main()
