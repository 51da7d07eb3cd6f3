"""A seeded world for the same code that runs on machines: time, threads, disks, network, crashes.

`World(seed)` owns everything; `World.boot(host)` gives a `Runtime` for one simulated machine. A run
is a pure function of its seed: the same seed gives the same run, to the byte.
"""

from ottla.sim.loop import Deadlock, NotSimulated, Stalled
from ottla.sim.process import ProcessDied, SimulatedCrash
from ottla.sim.runtime import SimRuntime
from ottla.sim.world import World

__all__ = [
    "Deadlock",
    "NotSimulated",
    "ProcessDied",
    "SimRuntime",
    "SimulatedCrash",
    "Stalled",
    "World",
]
