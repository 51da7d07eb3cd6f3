"""The two brokers of a comparison, and the rounds in which they take turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.brokers import Broker, Kafka, Ottla
from bench.results import BEFORE, KAFKA, Reading, Results

MakeBroker = Callable[[Path, Mapping[str, str] | None], Broker]
Work = Callable[[Broker], list[Reading]]


class Side:
    """One of the two sides: makes brokers of its kind, and keeps one running from its first use on.

    That one is for all warm measurements; a JVM needs a while to reach full speed.
    """

    def __init__(self, name: str, folder: Path, make: MakeBroker) -> None:
        self.name = name
        self._folder = folder
        self._make = make
        self._numbers = itertools.count()
        self._lasting: Broker | None = None

    def fresh(self, options: Mapping[str, str] | None = None) -> Broker:
        """Return a broker with an empty folder, not yet started; the caller removes it."""
        return self._make(self._folder / f"{self.name}-{next(self._numbers)}", options)

    @property
    def lasting(self) -> Broker:
        if self._lasting is None:
            self._lasting = self.fresh()
            self._lasting.start()
        return self._lasting

    def close(self) -> None:
        if self._lasting is not None:
            self._lasting.remove()
            self._lasting = None


class Bench:
    def __init__(
        self,
        folder: Path,
        libs: Path | None,
        *,
        quick: bool,
        say: Callable[..., None],
        beside: Path | None = None,
    ) -> None:
        """`beside` is another checkout of Ottla, set up, which takes Kafka's place."""
        self.quick = quick
        self.folder = folder
        self.libs = libs
        self.results = Results(quick=quick, peer=BEFORE if beside is not None else KAFKA)
        self.say = say
        self.sides = [Side("Ottla", folder, Ottla)]
        if beside is not None:
            programs = beside / ".venv" / "bin"
            self.sides.append(
                Side(
                    "before",
                    folder,
                    lambda path, options: Ottla(path, options, bin_folder=programs),
                )
            )
        elif libs is not None:
            self.sides.append(
                Side(KAFKA, folder, lambda path, options: Kafka(path, options, libs=libs))
            )

    def pick(self, quick: int, full: int) -> int:
        return quick if self.quick else full

    def alternate(self, title: str, work: Work, *, rounds: int, warm_up: int = 1) -> None:
        """Run rounds on the lasting brokers, in changing order; the warm-up does not count."""
        for number in range(warm_up + rounds):
            for side in self.sides[:: 1 if number % 2 else -1]:
                self.say(f"{title}: {side.name}, " + _round_name(number, warm_up, rounds))
                readings = work(side.lasting)
                if number >= warm_up:
                    self.results.add(side.name, readings)

    def alternate_fresh(self, title: str, work: Work, *, rounds: int) -> None:
        """Run rounds in which every broker starts with an empty folder, alone on the machine."""
        for side in self.sides:
            side.close()
        for number in range(rounds):
            for side in self.sides[:: 1 if number % 2 else -1]:
                self.say(f"{title}: {side.name}, " + _round_name(number, 0, rounds))
                broker = side.fresh()
                try:
                    self.results.add(side.name, work(broker))
                finally:
                    broker.remove()

    def close(self) -> None:
        for side in self.sides:
            side.close()


def _round_name(number: int, warm_up: int, rounds: int) -> str:
    return "warm-up" if number < warm_up else f"round {number - warm_up + 1} of {rounds}"
