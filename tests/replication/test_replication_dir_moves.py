"""A replica moves between the data folders of its broker, which is killed at every step of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.replication.following import truncate
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.record_deletion import delete_before
from ottla.broker.server.context import RequestContext
from ottla.broker.server.handlers import describe_log_dirs
from ottla.config.broker import BrokerConfig
from ottla.node import Node
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.records.builder import build_batch
from ottla.records.header import read_header
from ottla.records.reader import read_records
from ottla.records.record import Record
from ottla.sim.process import ProcessDied
from ottla.sim.world import World

BROKER = "broker"
A, B, C = "/data/a", "/data/b", "/data/c"
Story = Callable[[Node], Awaitable[None]]


def config(**settings: str) -> BrokerConfig:
    given = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{BROKER}:9092",
        "log.dirs": f"{A},{B},{C}",
        "log.index.size.max.bytes": "4096",
        "metadata.log.dir": "/metadata",
    }
    return BrokerConfig.parse(
        given | {name.replace("_", "."): value for name, value in settings.items()}
    )


class Home:
    """One broker on one machine, of whose disks the story may ask."""

    def __init__(self, seed: int = 1, **settings: str) -> None:
        self.world = World(seed)
        self._config = config(**settings)

    def tell(self, main: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await main()

        self.world.run(run())

    async def live(self, story: Story, *, stop: bool = False) -> None:
        """A life of the broker that ends with the story, in a kill or a stop."""
        runtime = self.world.boot(BROKER)

        async def run() -> None:
            node = Node(runtime, self._config)
            await node.start()
            await story(node)
            if stop:
                await node.stop()
                await runtime.close()

        await runtime.run(run(), name="story")
        failures = list(runtime.failures)
        self.world.crash(BROKER)
        assert not failures

    def crash_at(self, operation: int, *, power_loss: bool) -> None:
        self.world.crash_within(BROKER, operation, power_loss=power_loss)


def partition_of(node: Node) -> Partition:
    return node.replicas.topics["t"].partitions[0]


def append(node: Node, *values: bytes) -> None:
    now_ms = node.runtime.clock.wall_ms()
    for value in values:
        batch = bytearray(build_batch([Record(0, now_ms, None, value, ())]))
        partition_of(node).append(batch, read_header(batch), now_ms)


def values(node: Node) -> list[bytes]:
    partition = partition_of(node)
    found: list[bytes] = []
    offset = partition.log_start_offset
    while (piece := partition.read(offset, 1 << 20, min_one=True)) is not None:
        for record in read_records(piece.read()):
            if record.offset >= offset:
                found.append(record.value or b"")
                offset = record.offset + 1
    return found


def folders(node: Node, name: str = "t-0") -> list[str]:
    """The data folders that hold an entry of this name."""
    return [path for path in (A, B, C) if name in node.runtime.disk.list_dir(path)]


def copies(node: Node) -> list[str]:
    disk = node.runtime.disk
    return [p for p in (A, B, C) for name in disk.list_dir(p) if name.endswith("-future")]


async def create(node: Node, **configs: str) -> None:
    wish = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    await node.controller.create_topics(CreateTopicsRequest(topics=[wish]))
    await until(lambda: "t" in node.replicas.topics)
    partition_of(node).usable_log()


def other_than(node: Node) -> str:
    return next(path for path in (B, A) if path not in folders(node))


async def until(condition: Callable[[], object], within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # what changes tells nobody
            await asyncio.sleep(0.01)


def assigned(node: Node) -> str:
    """Which folder the metadata names."""
    named = node.metadata.image.topics["t"].partitions[0].directory_of(1)
    return next((d.path for d in node.log_manager.dirs if d.id == named), "")


def described(node: Node) -> dict[str, tuple[int, int, bool]]:
    context = RequestContext.__new__(RequestContext)
    context.services = node.broker.services
    response = describe_log_dirs.handle(context, DescribeLogDirsRequest(topics=None))
    return {
        result.log_dir: (p.partition_size, p.offset_lag, p.is_future_key)
        for result in response.results
        for topic in result.topics
        for p in topic.partitions
    }


def test_a_replica_moves_while_it_is_written() -> None:
    home = Home()

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node, segment_bytes="1048576")
            source, target = folders(node)[0], other_than(node)
            written = [b"%06d" % n + b"x" * 2000 for n in range(2000)]
            append(node, *written[:1000])
            node.replicas.move("t", 0, target)
            assert described(node)[target][1:] == (1000, True)
            for value in written[1000:]:
                append(node, value)
                await asyncio.sleep(0.0005)
            await until(lambda: folders(node) == [target])
            assert values(node) == written
            assert assigned(node) == target
            assert [*described(node)] == [target]
            append(node, b"after")
            await asyncio.sleep(120)
            left = [n for n in node.runtime.disk.list_dir(source) if n.startswith("t-0")]
            assert left == []

        await home.live(story, stop=True)

        async def again(node: Node) -> None:
            assert len(values(node)) == 2001
            assert len(folders(node)) == 1

        await home.live(again)

    home.tell(main)


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_broker_killed_at_any_step_of_a_move_has_one_log_with_all_records(
    power_loss: bool,
) -> None:
    """Every record was flushed before it was acknowledged, so power loss takes none either."""
    operation, done = 0, False
    while not done:
        done = _killed_at(operation, power_loss)
        operation += 1
    assert operation > 20


def _killed_at(operation: int, power_loss: bool) -> bool:
    """Whether the move was done before the kill."""
    home = Home(seed=operation, log_flush_interval_messages="1")
    written = [b"%03d" % n + b"y" * 3000 for n in range(200)]
    state = {"target": "", "done": False}

    async def main() -> None:
        async def first(node: Node) -> None:
            await create(node)
            append(node, *written[:150])
            await until(lambda: partition_of(node).high_watermark == 150)
            state["target"] = target = other_than(node)
            home.crash_at(operation, power_loss=power_loss)
            node.replicas.move("t", 0, target)
            await until(lambda: folders(node) == [target])
            await asyncio.sleep(1)
            state["done"] = True

        with contextlib.suppress(ProcessDied):
            await home.live(first)

        async def second(node: Node) -> None:
            assert len(folders(node)) == 1, (operation, folders(node))
            assert values(node) == written[:150], operation
            append(node, *written[150:])
            await until(lambda: not copies(node))
            await until(lambda: partition_of(node).high_watermark == 200)
            assert values(node) == written
            # A broker tells the controller where its replicas are in the background.
            await until(lambda: [assigned(node)] == folders(node))

        await home.live(second)

        async def third(node: Node) -> None:
            assert len(folders(node)) == 1
            assert values(node) == written

        await home.live(third)

    home.tell(main)
    return bool(state["done"])


@pytest.mark.parametrize("seed", range(12))
def test_moves_to_and_fro_through_kills_and_power_losses_keep_what_was_acknowledged(
    seed: int,
) -> None:
    home = Home(seed, log_flush_interval_messages="1", log_segment_bytes="1048576")
    chance = home.world.chance("story")
    appended: list[bytes] = []
    acknowledged = 0

    async def begin(node: Node) -> None:
        await create(node)

    async def life(node: Node) -> None:
        nonlocal acknowledged
        found = values(node)
        assert len(folders(node)) == 1
        assert found == appended[: len(found)]
        assert len(found) >= acknowledged
        del appended[len(found) :]
        home.crash_at(chance.randint(0, 400), power_loss=chance.random() < 0.5)
        while True:
            if chance.random() < 0.05:
                node.replicas.move("t", 0, chance.choice((A, B, C)))
            value = b"%06d" % len(appended) + b"z" * chance.choice((10, 100, 30_000))
            appended.append(value)
            append(node, value)
            await asyncio.sleep(chance.expovariate(200))
            acknowledged = partition_of(node).high_watermark

    async def last(node: Node) -> None:
        await until(lambda: not copies(node))
        found = values(node)
        assert found == appended[: len(found)]
        assert len(found) >= acknowledged
        assert [assigned(node)] == folders(node)

    async def main() -> None:
        await home.live(begin, stop=True)
        for _ in range(10):
            with contextlib.suppress(ProcessDied):
                await home.live(life)
        await home.live(last)

    home.tell(main)
    assert acknowledged > 20


def test_a_source_that_fails_during_a_move_takes_the_replica_along() -> None:
    home = Home(replica_alter_log_dirs_io_max_bytes_per_second="1000")
    written = [b"%03d" % n + b"x" * 20_000 for n in range(50)]

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            source, target = folders(node)[0], other_than(node)
            append(node, *written)
            node.replicas.move("t", 0, target)
            await until(lambda: described(node)[target][1] < 50)
            home.world.machine(BROKER).faults.fail(source, "write")
            with pytest.raises(KafkaError) as refused:
                append(node, b"lost")
            node.replicas.fail_dir_if_needed(refused.value)
            await asyncio.sleep(5)
            assert partition_of(node).error == ErrorCode.KAFKA_STORAGE_ERROR
            assert assigned(node) == source

        await home.live(story)
        home.world.machine(BROKER).faults.heal()

        async def again(node: Node) -> None:
            assert values(node) == written
            await until(lambda: not copies(node), 3600)
            assert values(node) == written

        await home.live(again)

    home.tell(main)


def test_a_copy_loses_what_the_log_loses() -> None:
    home = Home(replica_alter_log_dirs_io_max_bytes_per_second="20000")

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            target = other_than(node)
            append(node, *(b"%06d" % n + b"x" * 20_000 for n in range(100)))
            node.replicas.move("t", 0, target)
            await until(lambda: 0 < described(node)[target][1] < 90)
            partition = partition_of(node)
            cut = 100 - described(node)[target][1] - 3
            truncate(partition, cut)
            append(node, *(b"new %d" % n for n in range(200)))
            delete_before(partition, 5)
            wanted = values(node)
            assert len(wanted) == cut - 5 + 200
            await until(lambda: folders(node) == [target], 3600)
            assert values(node) == wanted

        await home.live(story)

    home.tell(main)


def test_a_move_waits_for_its_share_of_the_disk() -> None:
    home = Home(replica_alter_log_dirs_io_max_bytes_per_second="100000")

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            target = other_than(node)
            append(node, *(b"x" * 50_000 for n in range(100)))
            begun = node.runtime.clock.now()
            node.replicas.move("t", 0, target)
            await until(lambda: folders(node) == [target], 3600)
            # 5 MB at 0.1 MB a second, of which a beginning comes in advance.
            assert 20 < node.runtime.clock.now() - begun < 60

        await home.live(story)

    home.tell(main)


def test_a_move_is_called_off_redirected_and_ended_with_its_topic() -> None:
    home = Home(replica_alter_log_dirs_io_max_bytes_per_second="1000")

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            source = folders(node)[0]
            first, second = [path for path in (A, B, C) if path != source]
            append(node, *(b"x" * 10_000 for n in range(100)))
            node.replicas.move("t", 0, first)
            await asyncio.sleep(1)
            assert copies(node) == [first]
            node.replicas.move("t", 0, second)
            await until(lambda: copies(node) == [second])
            node.replicas.move("t", 0, source)
            await until(lambda: copies(node) == [])
            assert [*described(node)] == [source]
            node.replicas.move("t", 0, first)
            await asyncio.sleep(1)
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            response = await node.controller.delete_topics(request)
            assert not response.responses[0].error_code
            await until(lambda: not copies(node) and not folders(node))

        await home.live(story)

    home.tell(main)


@pytest.mark.parametrize("operation", ["write", "sync", "name"])
def test_a_folder_that_fails_during_a_move_leaves_the_replica_where_it_is(operation: str) -> None:
    home = Home(replica_alter_log_dirs_io_max_bytes_per_second="20000")

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            source, target = folders(node)[0], other_than(node)
            written = [b"%03d" % n + b"x" * 20_000 for n in range(20)]
            append(node, *written)
            node.replicas.move("t", 0, target)
            home.world.machine(BROKER).faults.fail(target, operation)
            await until(lambda: len(node.log_manager.dirs.online()) == 2, 3600)
            await asyncio.sleep(5)
            assert partition_of(node).error is None
            assert values(node) == written
            assert [*described(node)] == [source]
            assert assigned(node) == source
            append(node, b"goes on")
            with pytest.raises(KafkaError) as refused:
                node.replicas.move("t", 0, C)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR

        await home.live(story)
        home.world.machine(BROKER).faults.heal()

        async def again(node: Node) -> None:
            assert len(values(node)) == 21
            await until(lambda: not copies(node), 3600)
            assert len(values(node)) == 21
            assert len(folders(node)) == 1

        await home.live(again)

    home.tell(main)


def test_what_cannot_be_moved_is_refused_as_kafka_refuses_it() -> None:
    home = Home(cordoned_log_dirs=C)

    def refusal(node: Node, topic: str, index: int, path: str) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            node.replicas.move(topic, index, path)
        return refused.value.code

    async def main() -> None:
        async def story(node: Node) -> None:
            await create(node)
            assert refusal(node, "t", 0, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
            assert refusal(node, "t", 0, "/metadata") == ErrorCode.LOG_DIR_NOT_FOUND
            assert refusal(node, "t", 0, C) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert refusal(node, "u", 0, A) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            node.replicas.move("t", 0, folders(node)[0])
            assert copies(node) == []

        await home.live(story)

    home.tell(main)


def test_a_star_cordons_all_data_folders_but_the_one_of_the_metadata() -> None:
    home = Home(cordoned_log_dirs="*")

    async def main() -> None:
        async def story(node: Node) -> None:
            context = RequestContext.__new__(RequestContext)
            context.services = node.broker.services
            response = describe_log_dirs.handle(context, DescribeLogDirsRequest(topics=None))
            told = {one.log_dir: one.is_cordoned for one in response.results}
            assert told == {A: True, B: True, C: True}
            for path in (A, B, C):
                with pytest.raises(KafkaError) as refused:
                    node.replicas.move("t", 0, path)
                assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert set(node.metadata.image.brokers[1].cordoned_directories) == set(
                node.log_manager.dirs.directory_ids()
            )

        await home.live(story)

    home.tell(main)


def test_a_replica_that_is_not_there_yet_is_made_in_the_folder_asked_for() -> None:
    for path in (A, B, C):
        home = Home()

        async def story(node: Node, path: str = path) -> None:
            with pytest.raises(KafkaError):
                node.replicas.move("t", 0, path)
            await create(node)
            assert folders(node) == [path]
            await until(lambda: assigned(node) == path)

        async def main(home: Home = home, story: Story = story) -> None:
            await home.live(story)

        home.tell(main)
