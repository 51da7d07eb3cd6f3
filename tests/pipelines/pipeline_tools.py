"""Pipelines by the command line, and the topics around them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ottla.blocking import Admin, Consumer, Producer
from ottla.cli.root import app
from ottla.client.values import TopicPartition

SMALL: tuple[str, ...] = ("--master", "local[2]", "--option", "spark.driver.memory=512m")
SMALL += ("--option", "spark.sql.shuffle.partitions=1")


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Pipelines:
    """`ottla pipeline ...` in a folder of its own, against a broker."""

    folder: Path
    bootstrap: str

    def __call__(self, *arguments: object) -> Outcome:
        environment = {
            "OTTLA_PIPELINES": str(self.folder / "pipelines"),
            "OTTLA_BOOTSTRAP": self.bootstrap,
        }
        texts = ["pipeline", *(str(one) for one in arguments)]
        result = CliRunner().invoke(app, texts, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def status(self, name: str) -> Any:
        return self("status", name, "--json").json

    def stop_all(self) -> None:
        for one in self("list", "--json").json:
            self("stop", one["name"], "--timeout-s", "10")
            if one["reprocess"]:
                self("reprocess", "cancel", one["name"])

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def create(self, *topics: str, partitions: int = 2) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            for topic in topics:
                admin.create_topic(topic, partitions=partitions)

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes]], **more: Any) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for key, value in records:
                producer.send(topic, key=key, value=value, **more)
            producer.flush()

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """All that is committed."""
        options: dict[str, Any] = {"isolation_level": "read_committed"}
        with Consumer(bootstrap_servers=self.bootstrap, **options) as consumer:
            places = [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            found = []
            while any(consumer.position(one) < ends[one] for one in places):
                for records in consumer.poll(1000).values():
                    found += [(one.key, one.value) for one in records]
            return found


def wait(happens: Callable[[], Any], within_s: float = 200) -> Any:
    """What it gives as soon as it gives something."""
    deadline = time.monotonic() + within_s
    while not (found := happens()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.2)
    return found
