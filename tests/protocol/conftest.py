from __future__ import annotations

import os
from random import Random

import pytest


@pytest.fixture
def random() -> Random:
    """Seeded anew in each run. A failing test shows the seed: set OTTLA_TEST_SEED to repeat it."""
    seed = int(os.environ.get("OTTLA_TEST_SEED", 0)) or int.from_bytes(os.urandom(4), "big")
    print(f"OTTLA_TEST_SEED={seed}")
    return Random(seed)
