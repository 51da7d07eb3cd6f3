"""The source against a model: random stories on a real broker and a real Spark.

    python tests/spark/source_model.py --stories 20 --seed 7

A story has topics of several kinds, a streaming query with random options, and rounds: something
happens to the topics (records, transactions, partitions, compaction, deletion), then the query runs
from its checkpoint, to its end, or until it is stopped or fails midway. After each complete run,
each record that must be there is in the result once, with the right columns, and no other.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent, HERE.parent.parent, HERE.parent.parent / "scripts"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from source_feed import APPEND_TIME, COMPACTED, Feed  # noqa: E402
from source_log import Fate, ModelTopic, Row  # noqa: E402
from source_query import Query, as_rows  # noqa: E402
from source_starts import LATEST, Reading, random_ends, random_reading  # noqa: E402

import fetch_spark_kafka  # noqa: E402
from broker_harness import build  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER_OPTIONS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "append-time": APPEND_TIME,
    "compacted": COMPACTED,
}
ACTS = (
    *("commit", "abort", "open", "end", "grow", "new topic", "compact"),
    *("delete read", "lose", "expire", "recreate"),
)


class Story:
    def __init__(
        self,
        spark: SparkSession,
        address: str,
        folder: Path,
        seed: int,
        acts: tuple[str, ...] = ACTS,
        form: str = "ottla",
    ) -> None:
        """`form` "kafka" is Spark's own connector: it shows that the model asks for the same."""
        self.spark, self.folder, self.seed, self.acts = spark, folder, seed, acts
        self.form = form
        self.chance = random.Random(seed)
        self.address = address
        self.feed = Feed(address, self.chance)
        self.name = f"story-{seed}-{time.time_ns() % 1_000_000}"
        self.done: Counter[str] = Counter()
        self.told: list[str] = []
        self.seen_once: set[Row] = set()
        """Every row that a reader may have met."""
        self.configs: dict[str, dict[str, str]] = {}
        self.topics: list[ModelTopic] = []

    # The story

    def play(self) -> Counter[str]:
        for _ in range(self.chance.randint(1, 3)):
            self.new_topic()
        for topic in self.topics:
            self.feed.write(topic, self.chance.randint(0, 60))
            if self.chance.random() < 0.5:
                self.act_on(topic, self.chance.choice(("commit", "abort", "open")))
        self.reading = self.choose_reading()
        self.query = Query(
            self.spark,
            self.form,
            self.reading.options,
            self.folder / self.name,
            may_compact=lambda name: self.configs[name] is COMPACTED,
        )
        # What "latest" means is settled by the first batch: one has to be planned.
        self.run(self.chance.choice(("available", "fails")))
        for act in self.chance.sample(self.acts, len(self.acts)):
            self.round(act)
        for topic in self.topics:
            self.feed.end_transaction(topic, commit=self.chance.random() < 0.5)
        self.run_to_end()
        self.check()
        self.check_batch_reads()
        self.done["batches"] = len(self.query.batches)
        self.done["repeated batches"] = self.query.repeated
        self.done["rows"] = self.query.rows().total()
        return self.done

    def choose_reading(self) -> Reading:
        pattern = f"{self.name}-.*" if self.chance.random() < 0.5 else None
        reading = random_reading(self.chance, self.address, self.topics, pattern=pattern)
        if self.chance.random() < 0.7:
            reading.options["maxOffsetsPerTrigger"] = str(self.chance.choice((40, 70, 150)))
        reading.options["failOnDataLoss"] = self.chance.choice(("true", "false"))
        self.done[f"failOnDataLoss={reading.options['failOnDataLoss']}"] += 1
        return reading

    def round(self, act: str) -> None:
        topic = self.chance.choice(self.topics)
        self.feed.write(topic, self.chance.randint(0, 25))
        is_run = self.act_on(topic, act)
        if not is_run:
            self.run()

    def new_topic(self) -> None:
        kind = self.chance.choice(sorted(KINDS))
        name = f"{self.name}-{len(self.topics)}-{kind}"
        self.configs[name] = KINDS[kind]
        self.topics.append(self.feed.create(name, self.chance.randint(1, 3), KINDS[kind]))

    # What happens to topics

    def act_on(self, topic: ModelTopic, act: str) -> bool:
        """Whether the query has run within it."""
        self.done[act] += 1
        self.told.append(f"{act} on {topic.name}")
        count = self.chance.randint(1, 20)
        match act:
            case "commit":
                self.feed.transact(topic, count, Fate.COMMITTED)
            case "abort":
                self.feed.transact(topic, count, Fate.ABORTED)
            case "open":
                self.feed.transact(topic, count, Fate.OPEN)
            case "end":
                self.feed.end_transaction(topic, commit=self.chance.random() < 0.5)
            case "grow":
                self.feed.add_partitions(topic)
                self.feed.write(topic, count)
            case "new topic":
                if "subscribePattern" in self.reading.options:
                    self.new_topic()
                    self.feed.write(self.topics[-1], count)
            case "compact":
                self.compact()
            case "delete read":
                self.delete_read()
            case _:
                return self.lose(topic, act)
        return False

    def compact(self) -> None:
        compacted = [topic for topic in self.topics if topic.is_compacted]
        for topic in compacted[:1]:
            self.feed.end_transaction(topic, commit=True)
            self.feed.write(topic, 30)
            self.done["records compacted away"] += self.feed.compact(topic)

    def delete_read(self) -> None:
        """What was read may go: nothing is lost."""
        self.run_to_end()
        self.query.must_repeat_equally = False
        self.remember()
        for row in self.query.rows():
            topic = next(topic for topic in self.topics if topic.name == row.topic)
            is_there = row.partition < len(topic.partitions) and not topic.is_compacted
            # Not beyond what the reader has left behind for sure.
            if is_there and self.chance.random() < 0.2 and self.is_current(topic, row):
                self.feed.delete_records(topic, row.partition, row.offset)

    def is_current(self, topic: ModelTopic, row: Row) -> bool:
        entry = topic.partitions[row.partition].entries.get(row.offset)
        return entry is not None and self.reading.shown(entry.row) == row

    def lose(self, topic: ModelTopic, act: str) -> bool:
        """Something goes that was not read. With failOnDataLoss the query has to say so."""
        if act != "recreate":  # brokers delete no records of a topic that is compacted only
            topic = next((one for one in self.topics if not one.is_compacted), topic)
            if topic.is_compacted:
                return False
        self.remember()
        self.feed.end_transaction(topic, commit=True)
        self.feed.write(topic, self.chance.randint(10, 20))
        unread = self.reading.rows([topic]) - set(self.query.rows())
        if not unread:  # of a topic with no assigned partition
            return False
        self.query.must_repeat_equally = False
        match act:
            case "lose":
                row = self.chance.choice(sorted(unread))
                self.feed.delete_records(topic, row.partition, row.offset + 1)
            case "expire":
                self.feed.expire(topic)
            case "recreate":
                self.recreate(topic)
        self.done[f"{act} really"] += 1
        if self.reading.options["failOnDataLoss"] == "true":
            self.expect_complaint(topic)
        self.feed.write(topic, self.chance.randint(0, 10))
        return False

    def recreate(self, topic: ModelTopic) -> None:
        before = max(partition.known_end() for partition in topic.partitions)
        self.feed.recreate(topic, self.configs[topic.name])
        # Fewer records than were read of the old one, or more: then offsets alone tell nothing.
        count = self.chance.choice((0, 3, (before + 5) * len(topic.partitions)))
        self.feed.write(topic, count)

    def expect_complaint(self, topic: ModelTopic) -> None:
        error = self.query.error_of_run()
        assert "failOnDataLoss" in error, error
        assert topic.name in error, error
        self.done["complaints"] += 1
        self.query.options["failOnDataLoss"] = "false"
        self.reading.options["failOnDataLoss"] = "false"

    # Runs

    def run(self, how: str | None = None) -> None:
        if how is None:
            ways = ("available", "available", "fails", "continuous", "broken off")
            how = self.chance.choice(ways)
        self.done[f"run: {how}"] += 1
        self.told.append(f"run: {how}")
        match how:
            case "available":
                self.run_to_end()
                self.check()
            case "fails":
                if self.query.run_available(fail_after=self.chance.randint(0, 1)):
                    self.check()
            case "continuous":
                self.query.run_continuously(self.write_meanwhile)
                self.check()
            case "broken off":
                self.query.run_and_break_off(self.chance)

    def write_meanwhile(self) -> None:
        for _ in range(self.chance.randint(0, 3)):
            time.sleep(self.chance.uniform(0.0, 0.4))
            self.feed.write(self.chance.choice(self.topics), self.chance.randint(1, 20))

    def run_to_end(self) -> None:
        assert self.query.run_available()

    # What must hold

    def remember(self) -> None:
        self.seen_once |= self.reading.rows(self.topics)

    def check(self) -> None:
        self.done["checks"] += 1
        self.remember()
        found = self.query.rows()
        twice = [row for row, count in found.items() if count > 1]
        missing = self.reading.rows(self.topics, kept_only=True) - set(found)
        foreign = set(found) - self.seen_once
        assert not twice, self.words("rows came twice", twice)
        assert not missing, self.words("rows are missing", missing)
        assert not foreign, self.words("rows that nobody may see", foreign)
        self.check_limits()

    def check_limits(self) -> None:
        limit = self.reading.options.get("maxOffsetsPerTrigger")
        if limit is not None:
            most = max((len(rows) for rows in self.query.batches.values()), default=0)
            partitions = sum(len(topic.partitions) for topic in self.topics)
            # Each partition may have one more, so that none starves.
            assert most <= int(limit) + partitions, f"a batch of {most} rows, the limit is {limit}"

    def words(self, what: str, rows: Collection[Row]) -> str:
        some = [tuple(row[:3]) for row in sorted(rows, key=lambda row: row[:3])[:8]]
        batches = {
            batch: sorted({(row.topic[-12:], row.partition) for row in rows})
            for batch, rows in self.query.batches.items()
        }
        told = "\n".join(self.told)
        return f"{len(rows)} {what}: {some}\n{told}\n{self.reading.options}\n{batches}"

    # Batch reads

    def check_batch_reads(self) -> None:
        for _ in range(2):
            reading = random_reading(self.chance, self.address, self.topics)
            options = reading.options
            if (
                "startingOffsets" not in options
                and "startingOffsetsByTimestampStrategy" not in options
            ):
                reading.begins.clear()  # the default of a batch is the earliest
            if options.get("startingOffsets") == "latest" or '": -1' in options.get(
                "startingOffsets", ""
            ):
                continue  # not allowed in a batch
            ends = self.choose_ends(reading)
            frame = self.spark.read.format(self.form).options(**options).load()
            found = Counter(as_rows(frame))
            asked = {row for row in reading.rows(self.topics) if row.offset < ends(row)}
            kept = reading.rows(self.topics, kept_only=True) & asked
            assert not [row for row, count in found.items() if count > 1], options
            missing, foreign = kept - set(found), set(found) - asked
            assert not missing, f"{self.words('rows are missing', missing)}\n{options}"
            assert not foreign, f"{self.words('rows not asked for', foreign)}\n{options}"
            self.done["batch reads"] += 1

    def choose_ends(self, reading: Reading) -> Callable[[Row], int]:
        everything = 1 << 62
        if self.chance.random() < 0.4:
            return lambda row: everything
        ends = random_ends(self.chance, reading, self.topics)
        reading.options["endingOffsets"] = json.dumps(ends)

        def end(row: Row) -> int:
            value = ends[row.topic][str(row.partition)]
            return everything if value == LATEST else value

        return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--stories", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--acts", default=",".join(ACTS), help="what happens to topics")
    parser.add_argument("--format", choices=("ottla", "kafka"), default="ottla")
    asked = parser.parse_args()
    from ottla.spark import spark_session

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
        if asked.format == "kafka":
            jars = sorted(map(str, fetch_spark_kafka.fetch().glob("*.jar")))
            options["spark.jars"] = ",".join(jars)
        spark = spark_session("source model", master="local[2]", options=options)
        spark.sparkContext.setLogLevel("OFF")  # many runs fail because they are to
        broker = build(folder / "broker", BROKER_OPTIONS)
        broker.start()
        total: Counter[str] = Counter()
        acts = tuple(asked.acts.split(","))
        if asked.format == "kafka":  # passes over the first records of a topic made anew
            acts = tuple(act for act in acts if act != "recreate")
        try:
            for number in range(asked.stories):
                seed = asked.seed + number
                print(f"--stories 1 --seed {seed}", flush=True)
                started = time.monotonic()
                total += Story(spark, broker.address, folder, seed, acts, asked.format).play()
                print(f"   {time.monotonic() - started:.1f} s", flush=True)
        finally:
            broker.kill()
            spark.stop()
    print(json.dumps(dict(sorted(total.items())), indent=2))


if __name__ == "__main__":
    main()
