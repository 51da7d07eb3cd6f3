"""Exactly once, whoever dies: the short version of `make soak`."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import Broker
from exactly_once import BROKER_OPTIONS, Story

from broker_harness import missing

MakeBroker = Callable[..., Broker]


def play(
    fresh_broker: MakeBroker, folder: Path, protocol: str, *, libs: Path | None = None
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    words = f"--seed {seed} --protocol {protocol}{' --java' if libs else ''}"
    print(f"seed {seed}: python tests/faults/exactly_once.py {words}")
    broker = fresh_broker(BROKER_OPTIONS)
    found = Story(broker, folder, seed, protocol, print, libs).play(10)
    print(found)
    assert found["kills_total"] >= 10
    assert found["zombies_fenced"] >= 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_faults_a_copy_in_transactions_is_exact_under_kills_of_everyone(
    fresh_broker: MakeBroker, tmp_path: Path, protocol: str
) -> None:
    play(fresh_broker, tmp_path, protocol)


def test_faults_a_copy_by_the_second_protocol_of_transactions_is_exact_too(
    fresh_broker: MakeBroker, tmp_path: Path, kafka_libs: Path
) -> None:
    if shutil.which("javac") is None:
        missing("javac is not installed")
    play(fresh_broker, tmp_path, "consumer", libs=kafka_libs)
