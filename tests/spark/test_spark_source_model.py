"""The source against a model: the short version of `python tests/spark/source_model.py`."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from source_model import ACTS, BROKER_OPTIONS, Story

from broker_harness import MakeBroker

STORIES = 3


@pytest.mark.ottla_only
def test_spark_source_shows_each_record_once_whatever_happens_to_topics_and_query(
    spark: SparkSession, fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    """All acts, dealt to a few stories."""
    seed = random.SystemRandom().randrange(1 << 31)
    broker = fresh_broker(BROKER_OPTIONS)
    acts = random.Random(seed).sample(ACTS, len(ACTS))
    done: Counter[str] = Counter()
    for number in range(STORIES):
        dealt = tuple(acts[number::STORIES])
        words = f"--stories 1 --seed {seed + number} --acts {','.join(dealt)!r}"
        print(f"python tests/spark/source_model.py {words}")
        done += Story(spark, broker.address, tmp_path, seed + number, dealt).play()
    print(dict(sorted(done.items())))
    assert done["rows"] > 0
    assert done["batch reads"] > 0
