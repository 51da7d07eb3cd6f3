"""The conditions of the simulated network, all drawn from the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import log


@dataclass
class Weather:
    latency_s: float = 0.0004
    """Mean one-way delay between two machines; each packet draws its own."""

    spike_rate: float = 0.005
    spike_s: float = 0.1
    bandwidth_bytes_s: float = 50e6
    buffer_bytes_min: int = 4096
    buffer_bytes_max: int = 262_144
    split_rate: float = 0.3
    """How often a read or a write moves fewer bytes than it could."""

    refuse_rate: float = 0.0
    local_latency_s: float = 0.00002

    def delay_s(self, chance: random.Random, *, local: bool) -> float:
        delay_s = -log(1.0 - chance.random()) * (self.local_latency_s if local else self.latency_s)
        if not local and chance.random() < self.spike_rate:
            delay_s += chance.random() * self.spike_s
        return delay_s

    def part_of(self, count: int, chance: random.Random) -> int:
        """Return how many bytes to move: a stream has no message borders."""
        if count > 1 and chance.random() < self.split_rate:
            return chance.randint(1, count)
        return count


def drawn(chance: random.Random, split_rates: Sequence[float] = (0.0, 0.3, 0.8)) -> Weather:
    """Draw conditions between a calm rack and a bad link."""
    return Weather(
        latency_s=chance.choice((0.0001, 0.0005, 0.005)),
        spike_rate=chance.choice((0.0, 0.005, 0.03)),
        bandwidth_bytes_s=chance.choice((1e6, 20e6, 500e6)),
        buffer_bytes_max=chance.choice((8192, 65_536, 1_048_576)),
        split_rate=chance.choice(split_rates),
    )
