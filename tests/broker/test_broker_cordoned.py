"""`cordoned.log.dirs` (KIP-1066): folders that take no new partitions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker_harness import MakeBroker
from ottla.blocking import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.values import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError

KEY = "cordoned.log.dirs"
PARTITIONS = 4


class Cordoning:
    """A broker with two log dirs, whose setting the test changes while it runs."""

    def __init__(self, make: MakeBroker, folder: Path, cordoned: str | None = None) -> None:
        self.dirs = [str(folder / "disk-1"), str(folder / "disk-2")]
        home = str(folder / "metadata")
        given = {"log.dirs": ",".join(self.dirs), "metadata.log.dir": home}
        self.broker = make(given if cordoned is None else given | {KEY: cordoned})
        self.admin = Admin(bootstrap_servers=self.broker.address)

    def __enter__(self) -> Cordoning:
        self.admin.start()
        (self.id,) = self.admin.describe_cluster().brokers
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def cordon(self, value: str | None) -> None:
        self.admin.alter_config(ConfigResource(ResourceType.BROKER, str(self.id)), {KEY: value})

    def create(self, topic: str) -> ErrorCode:
        try:
            self.admin.create_topic(topic, partitions=PARTITIONS)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def dirs_of(self, topic: str) -> set[str]:
        """Where its partitions are, once they are all there: Kafka makes them a moment later."""
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        deadline = time.monotonic() + 10
        while True:
            found = self.admin.describe_log_dirs(partitions=places)
            if sum(len(one.replicas) for one in found) == PARTITIONS:
                return {one.path for one in found if one.replicas}
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def created_within_s(self, limit_s: float) -> ErrorCode:
        """The last answer to topics that are created until one is refused."""
        deadline = time.monotonic() + limit_s
        code = ErrorCode.NONE
        while code is ErrorCode.NONE and time.monotonic() < deadline:
            code = self.create(f"t{time.monotonic_ns()}")
            time.sleep(0.05)
        return code


def test_a_star_cordons_all_log_dirs(fresh_broker: MakeBroker, tmp_path: Path) -> None:
    with Cordoning(fresh_broker, tmp_path) as one:
        assert one.create("before") is ErrorCode.NONE
        assert one.dirs_of("before") == set(one.dirs)
        one.cordon("*")
        assert one.created_within_s(10) is ErrorCode.INVALID_REPLICATION_FACTOR
        one.cordon(None)
        deadline = time.monotonic() + 10
        while one.create("after") is not ErrorCode.NONE:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert one.dirs_of("after") <= set(one.dirs)


def test_a_star_in_the_file_cordons_from_the_start(
    fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    with Cordoning(fresh_broker, tmp_path, "*") as one:
        assert one.create("never") is ErrorCode.INVALID_REPLICATION_FACTOR


def test_one_cordoned_log_dir_leaves_new_partitions_to_the_other(
    fresh_broker: MakeBroker, tmp_path: Path
) -> None:
    with Cordoning(fresh_broker, tmp_path) as one:
        one.cordon(one.dirs[0])
        time.sleep(0.5)
        assert one.create("topic") is ErrorCode.NONE
        assert one.dirs_of("topic") == {one.dirs[1]}


@pytest.mark.parametrize("value", ["*,DIR", "/elsewhere"])
def test_what_is_no_log_dir_is_refused(
    fresh_broker: MakeBroker, tmp_path: Path, value: str
) -> None:
    with Cordoning(fresh_broker, tmp_path) as one:
        with pytest.raises(KafkaError) as refused:
            one.cordon(value.replace("DIR", one.dirs[0]))
        assert refused.value.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
