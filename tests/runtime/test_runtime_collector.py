"""Python's collector of garbage pauses while somebody asks for it, and no longer."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.runtime.collector import collector_paused


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_the_collector_runs_again_when_the_last_user_has_left() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_somebody_else_stopped_stays_so() -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_collector_runs_again_after_a_failure() -> None:
    with pytest.raises(RuntimeError), collector_paused():
        raise RuntimeError
    assert gc.isenabled()


KEEP = """
import gc
import weakref
from ottla.runtime import collector

class Ring:
    def __init__(self):
        self.itself = self

collector.settle()
gc.disable()
{before}
ring = Ring()
gc.collect(0)
gc.collect(1)
seen = weakref.ref(ring)
del ring
frozen = gc.get_freeze_count()
collector.keep()
print(seen() is None, gc.get_freeze_count() > frozen)
"""


def kept(before: str = "") -> str:
    """Whether garbage that had outlived two collections is gone, and whether the rest is exempt."""
    program = [sys.executable, "-c", KEEP.format(before=before)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def test_what_is_kept_is_free_of_garbage() -> None:
    assert kept() == "True True"


def test_keeping_does_not_look_through_more_objects_than_there_is_time_for() -> None:
    assert kept("many = [[] for _ in range(collector.COLLECTED_OBJECTS_MAX)]") == "False True"
