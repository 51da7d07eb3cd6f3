"""Exactly once, whoever dies: the short version of `make soak`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import Broker
from exactly_once import BROKER_OPTIONS, Story


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_faults_a_copy_in_transactions_is_exact_under_kills_of_everyone(
    fresh_broker: Callable[..., Broker], tmp_path: Path, protocol: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}: python tests/faults/exactly_once.py --seed {seed} --protocol {protocol}")
    broker = fresh_broker(BROKER_OPTIONS)
    found = Story(broker, tmp_path, seed, protocol, print).play(10)
    print(found)
    assert found["kills_total"] >= 10
    assert found["zombies_fenced"] >= 2
