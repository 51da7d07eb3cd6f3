"""Runs one seed of one scenario from beginning to end, and reports its outcome."""

from __future__ import annotations

import gc
import time
import traceback
from dataclasses import dataclass
from typing import Any

from ottla.sim.world import World

LIVES_DEFAULT = 6
LINES_SHOWN = 60
TIME_LIMIT_S = 36_000.0


@dataclass(frozen=True)
class Game:
    scenario: str = "cluster"
    nodes: int | None = None
    lives: int | None = None
    verbose: bool = False
    quorum: str | None = None
    """"static" if the voters are fixed, "dynamic" if they can change; None: drawn."""
    compaction: str | None = None
    """"on" if logs are compacted, "off" if not; None: drawn."""

    def start(self, world: World) -> Any:
        if self.scenario == "cluster":
            from ottla.sim.scenarios import cluster

            dynamic = None if self.quorum is None else self.quorum == "dynamic"
            compacted = None if self.compaction is None else self.compaction == "on"
            return cluster.play(
                world.seed, nodes=self.nodes, compacted=compacted, dynamic=dynamic, world=world
            )
        from ottla.sim.scenarios import single_node

        return single_node.play(world.seed, lives=self.lives or LIVES_DEFAULT, world=world)

    def replay(self, seed: int) -> str:
        """Return the command that plays this seed again."""
        line = f"make sim SEED={seed}"
        if self.scenario != "cluster":
            line += f" SCENARIO={self.scenario}"
        if self.nodes is not None:
            line += f" NODES={self.nodes}"
        if self.quorum is not None:
            line += f" QUORUM={self.quorum}"
        if self.compaction is not None:
            line += f" COMPACTION={self.compaction}"
        if self.lives is not None:
            line += f" LIVES={self.lives}"
        return line


@dataclass(frozen=True)
class Outcome:
    seed: int
    text: str
    """A summary of the run, or why it failed."""
    simulated_s: float
    cpu_s: float
    digest: str
    replay: str
    report: str = ""
    """The last events and the traceback, if it failed."""

    @property
    def failed(self) -> bool:
        return bool(self.report)


def play(task: tuple[Game, int]) -> Outcome:
    game, seed = task
    world = World(seed, time_limit_s=TIME_LIMIT_S, tell=print if game.verbose else None)
    began = time.process_time()
    report = ""
    try:
        text = str(game.start(world))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        report = "\n".join([*list(world.trace.lines)[-LINES_SHOWN:], traceback.format_exc()])
    outcome = Outcome(
        seed,
        text,
        world.loop.time(),
        time.process_time() - began,
        world.trace.digest()[:12],
        game.replay(seed),
        report,
    )
    gc.collect()
    return outcome
