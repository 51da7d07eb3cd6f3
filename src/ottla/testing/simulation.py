"""`simulate` and `simulated`: run an application and its cluster, fully determined by a seed."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from ottla.sim.loop import Deadlock, Stalled
from ottla.sim.world import World
from ottla.testing import REPLAY_MARKER, SEED_VARIABLE
from ottla.testing.programs import begun
from ottla.testing.sim_cluster import SimulatedCluster
from ottla.testing.sim_layout import SimLayout, sim_layout
from ottla.testing.sim_machines import APP
from ottla.testing.virtual import virtual_python

T = TypeVar("T")
App = Callable[[SimulatedCluster], Coroutine[Any, Any, T]]

WATCH_EVERY_S = 1.0
STUCK_LOOKS = 3
"""How many checks in a row must find nothing due: one may fall between two steps of a wake-up."""

_real_time = time.monotonic


def simulate(
    app: App[T],
    *,
    seed: int | None = None,
    nodes: int = 3,
    storms: bool | Collection[str] = False,
    settings: Mapping[str, object] | None = None,
    node_settings: Mapping[int, Mapping[str, object]] | None = None,
    limit_s: float = 3600.0,
    real_limit_s: float = 120.0,
) -> T:
    """Return the result of `await app(cluster)`, run in virtual time with a cluster of `nodes`.

    Without a `seed`, the variable OTTLA_SIM_SEED is used, or a new seed. `storms` are faults of
    all kinds, or of the given kinds, from the beginning until `cluster.calm()`. `limit_s` limits
    the virtual time, `real_limit_s` the real one. Exceptions get a note with the seed.
    """
    _check_no_loop_runs()
    if seed is None:
        asked = seed_asked()
        seed = _fresh_seed() if asked is None else asked
    if not isinstance(seed, int):
        raise TypeError(f"seed is a number, not {seed!r}")
    layout = sim_layout(nodes, settings or {}, node_settings or {})
    world = World(seed, time_limit_s=limit_s + 2 * WATCH_EVERY_S)
    story = _Story(world, layout, storms, limit_s, real_limit_s)
    try:
        with virtual_python(world):
            return world.run(story.run(app))
    except BaseException as error:  # also those of pytest, such as from pytest.fail
        error.add_note(f"simulated with seed {seed}; the same again: {SEED_VARIABLE}={seed}")
        raise


def simulated(
    runs: int = 20, *, seed: int | None = None, **options: Any
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Make a test of `async def test(cluster)`, which runs `runs` times, each with its own seed.

    The seeds are new, or count from `seed`. With OTTLA_SIM_SEED, or pytest's option --ottla-seed,
    the test runs once, with that seed. The test may use fixtures besides `cluster`. The other
    options are those of `simulate`.
    """
    if not isinstance(runs, int) or runs < 1:
        raise TypeError(f"@simulated(runs=...) takes a number of runs, not {runs!r}")

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        signature = inspect.signature(test)
        if not asyncio.iscoroutinefunction(test) or "cluster" not in signature.parameters:
            raise TypeError(f"{test.__qualname__} must be `async def` and ask for `cluster`")

        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            async def app(cluster: SimulatedCluster) -> None:
                await test(*args, cluster=cluster, **fixtures)

            seeds = _seeds(runs, seed)
            for number, one in enumerate(seeds, 1):
                try:
                    simulate(app, seed=one, **options)
                except BaseException as error:
                    error.add_note(f"run {number} of {len(seeds)}{REPLAY_MARKER}{_replay(one)}")
                    raise

        rest = [one for name, one in signature.parameters.items() if name != "cluster"]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate


def seed_asked() -> int | None:
    text = os.environ.get(SEED_VARIABLE)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{SEED_VARIABLE} is the number of a seed, not {text!r}") from None


def _seeds(runs: int, first: int | None) -> list[int]:
    asked = seed_asked()
    if asked is not None:
        return [asked]
    first = _fresh_seed() if first is None else first
    return list(range(first, first + runs))


def _fresh_seed() -> int:
    return int.from_bytes(os.urandom(4), "big")


def _replay(seed: int) -> str:
    """Return the command that replays the seed, with the current test if pytest runs it."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return f"{SEED_VARIABLE}={seed} pytest '{test}'" if test else f"{SEED_VARIABLE}={seed}"


def _check_no_loop_runs() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("a simulation has a loop of its own: call it where no event loop is running")


class _Story:
    """Opens the cluster, then runs and watches the application until it is done."""

    def __init__(
        self,
        world: World,
        layout: SimLayout,
        storms: bool | Collection[str],
        limit_s: float,
        real_limit_s: float,
    ) -> None:
        self._world = world
        self._storms = storms
        self._limit_s = limit_s
        self._real_limit_s = real_limit_s
        self._began = _real_time()
        self._over: asyncio.Future[Any] = world.loop.create_future()
        self._cluster = SimulatedCluster(world, layout, self._fail)
        self._stuck = 0

    async def run(self, app: App[T]) -> T:
        watch = asyncio.create_task(self._watch())
        try:
            await self._cluster.open()
            if self._storms:
                self._cluster.storm(None if self._storms is True else self._storms)
            main = self._world.boot(APP).run(begun(app, self._cluster), name=APP)
            main.add_done_callback(self._ended)
            result: T = await self._over
            self._cluster.check()
            return result
        finally:
            watch.cancel()

    def _ended(self, done: asyncio.Future[Any]) -> None:
        if self._over.done():
            return
        if done.cancelled():
            self._over.set_exception(RuntimeError("the application was cancelled from within"))
        elif (error := done.exception()) is not None:
            self._over.set_exception(error)
        else:
            self._over.set_result(done.result())

    def _fail(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                self._check_progress()
            except Exception as error:
                self._fail(error)

    def _check_progress(self) -> None:
        self._cluster.check()
        now, real_s = self._world.loop.time(), _real_time() - self._began
        if now > self._limit_s:
            raise Stalled(f"not done after {now:.0f} simulated seconds; {self._waiting()}")
        if real_s > self._real_limit_s:
            raise Stalled(
                f"not done after {real_s:.0f} real seconds, {now:.0f} simulated; {self._waiting()}"
            )
        own = self._cluster.own_processes()
        goes_on = (
            not own
            or self._cluster.is_waited_for()
            or self._world.loop.has_plans(own)
            or self._world.network.has_connections(own)
        )
        self._stuck = 0 if goes_on else self._stuck + 1
        if self._stuck >= STUCK_LOOKS:
            raise Deadlock(
                f"the application waits for what cannot happen any more; {self._waiting()}"
            )

    def _waiting(self) -> str:
        return self._world.loop.waiting(self._cluster.own_processes())
