"""How tests start, end and do without the things outside: brokers and foreign programs.

Apart from `conftest.py`, so that a test module can import it by a name that no other folder uses.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
for _folder in (ROOT, ROOT / "scripts"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from bench.brokers import Broker as Broker  # noqa: E402
from bench.brokers import Kafka, Ottla  # noqa: E402

import fetch_kafka as fetch_kafka  # noqa: E402

MakeBroker = Callable[..., Broker]
"""What the fixture `fresh_broker` is."""

TARGET = os.environ.get("OTTLA_TEST_TARGET", "ottla")
JVM_ENDED_BY_SIGNAL = {0, 130, 143}


def build(folder: Path, options: Mapping[str, str] | None = None) -> Broker:
    if TARGET == "kafka":
        libs = fetch_kafka.find()
        if libs is None:
            pytest.fail("OTTLA_TEST_TARGET=kafka needs OTTLA_KAFKA_LIBS, the folder of its jars")
        return Kafka(folder, options, libs=libs)
    return Ottla(folder, options)


def end(broker: Broker, number: signal.Signals) -> None:
    """Stop as an operator would, and insist on a clean end."""
    code = broker.stop(number)
    clean = {0} if TARGET == "ottla" else JVM_ENDED_BY_SIGNAL
    assert code in clean, f"{broker.name} ended with {code} after {number.name}:\n{broker.tail()}"


def missing(what: str) -> None:
    """A tool is absent: a developer may skip what needs it, CI may not."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; in CI nothing may be skipped")
    pytest.skip(what)
