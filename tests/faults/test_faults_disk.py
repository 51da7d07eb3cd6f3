"""A full disk, a disk that cannot be read, a disk that cannot be synced: one log dir of two."""

from __future__ import annotations

import errno
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from bench import wire
from confluent_kafka.admin import AdminClient, NewTopic

from broker_harness import MakeBroker, missing

SOURCE = Path(__file__).parent / "disk_faults.c"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail, compiled for this machine."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        missing("no C compiler for the library that makes disks fail")
    target = tmp_path_factory.mktemp("shim") / "disk_faults.so"
    command = [str(compiler), "-shared", "-fPIC", "-O1", "-o", str(target), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return target


class TwoDisks:
    """A broker with two log dirs, one of which can be broken while it runs.

    Two topics are made; `bad` is the one whose partition lies in the dir that will break.
    """

    def __init__(self, make: MakeBroker, shim: Path, folder: Path, **config: str) -> None:
        self.dirs = [folder / "disk-1", folder / "disk-2"]
        self.plan = folder / "faults"
        self.broker = make(
            {
                "log.dirs": ",".join(str(path) for path in self.dirs),
                "metadata.log.dir": str(folder / "metadata"),
            },
            start=False,
        )
        self.broker.variables = {"LD_PRELOAD": str(shim), "OTTLA_DISK_FAULTS": str(self.plan)}
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        wishes = [NewTopic(name, 1, config=config) for name in ("first", "second")]
        for future in admin.create_topics(wishes).values():
            future.result(30)
        time.sleep(0.5)
        homes = {name: self.home(name) for name in ("first", "second")}
        assert len(set(homes.values())) == 2, "each dir should hold one of the two partitions"
        self.bad, self.good = homes
        self.bad_dir = homes[self.bad]

    def home(self, topic: str) -> Path:
        (found,) = [path for path in self.dirs if (path / f"{topic}-0").is_dir()]
        return found

    def break_disk(self, call: str, code: int) -> None:
        self.plan.write_text(f"{call} {code} {self.bad_dir}/\n")

    def mend(self) -> None:
        self.plan.unlink()

    def produce(self, topic: str, value: bytes) -> wire.Produced:
        with wire.Peer(self.broker.port) as peer:
            frame = wire.produce_frame(topic, 0, wire.batch([value]))
            return wire.parse_produce(peer.ask(frame))

    def fetch(self, topic: str, offset: int) -> wire.Fetched:
        with wire.Peer(self.broker.port) as peer:
            frame = wire.fetch_frame(topic, 0, offset, max_wait_ms=100)
            return wire.parse_fetch(peer.ask(frame))

    def assert_the_rest_goes_on(self, value: bytes) -> None:
        sent = self.produce(self.good, value)
        assert sent.error == 0
        assert value in self.fetch(self.good, sent.base_offset).records
        assert self.broker.running

    def assert_offline(self) -> None:
        assert self.produce(self.bad, b"refused").error == wire.STORAGE_ERROR
        assert self.fetch(self.bad, 0).error == wire.STORAGE_ERROR


@pytest.mark.ottla_only
def test_faults_disk_full_takes_its_partitions_offline_and_no_others(
    fresh_broker: MakeBroker, shim: Path, tmp_path: Path
) -> None:
    disks = TwoDisks(fresh_broker, shim, tmp_path)
    assert disks.produce(disks.bad, b"before").error == 0
    disks.break_disk("write", errno.ENOSPC)
    assert disks.produce(disks.bad, b"lost").error == wire.STORAGE_ERROR
    disks.assert_the_rest_goes_on(b"still here")
    disks.assert_offline()
    # Space alone does not bring it back, a restart does, with all that was acknowledged.
    disks.mend()
    disks.assert_offline()
    disks.broker.restart()
    got = disks.fetch(disks.bad, 0)
    assert (got.error, got.high_watermark) == (0, 1)
    assert b"before" in got.records
    assert disks.produce(disks.bad, b"after") == (0, 1)


@pytest.mark.ottla_only
def test_faults_disk_that_cannot_be_read_goes_offline(
    fresh_broker: MakeBroker, shim: Path, tmp_path: Path
) -> None:
    disks = TwoDisks(fresh_broker, shim, tmp_path)
    for number in range(10):
        assert disks.produce(disks.bad, b"%d" % number).error == 0
    disks.break_disk("read", errno.EIO)
    # The first answer may have been promised before its bytes failed to come: it ends with the
    # connection. Whoever asks again is told.
    deadline = time.monotonic() + 10
    while True:
        try:
            if disks.fetch(disks.bad, 0).error == wire.STORAGE_ERROR:
                break
        except ConnectionError:
            pass
        assert time.monotonic() < deadline, "the dir never went offline"
    disks.assert_the_rest_goes_on(b"still here")
    disks.assert_offline()
    disks.mend()
    disks.broker.restart()
    assert disks.fetch(disks.bad, 0).high_watermark == 10


@pytest.mark.ottla_only
def test_faults_disk_that_cannot_be_synced_goes_offline(
    fresh_broker: MakeBroker, shim: Path, tmp_path: Path
) -> None:
    """Where each record is to be synced before it is acknowledged, a failed sync is no success."""
    disks = TwoDisks(fresh_broker, shim, tmp_path, **{"flush.messages": "1"})
    assert disks.produce(disks.bad, b"before").error == 0
    disks.break_disk("sync", errno.EIO)
    assert disks.produce(disks.bad, b"unsynced").error == wire.STORAGE_ERROR
    disks.assert_the_rest_goes_on(b"still here")
    disks.assert_offline()
    disks.mend()
    disks.broker.restart()
    assert b"before" in disks.fetch(disks.bad, 0).records


@pytest.mark.ottla_only
def test_faults_disk_broken_at_the_start_leaves_the_other_one_served(
    fresh_broker: MakeBroker, shim: Path, tmp_path: Path
) -> None:
    disks = TwoDisks(fresh_broker, shim, tmp_path)
    assert disks.produce(disks.bad, b"before").error == 0
    assert disks.produce(disks.good, b"before").error == 0
    disks.broker.kill()
    disks.break_disk("read", errno.EIO)
    disks.broker.start()
    disks.assert_the_rest_goes_on(b"still here")
    assert disks.produce(disks.bad, b"refused").error == wire.STORAGE_ERROR
    disks.mend()
    disks.broker.restart()
    assert b"before" in disks.fetch(disks.bad, 0).records
