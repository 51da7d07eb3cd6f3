"""Three brokers with one partition, a controller, and messages that come late or never.

The partitions, logs, leaders' and followers' decisions are the real ones, on disks that may lose
what was not synced. The controller is a model: it decides at once and rightly, and its news reach
each broker in order but late. Nothing here waits: every step is one event, drawn by chance.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.config.topic import TopicConfig
from ottla.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, PartitionImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.records.builder import build_batch
from ottla.records.header import batches, read_header
from ottla.records.reader import read_records
from ottla.records.record import Record
from ottla.replication.cluster_view import ClusterView
from ottla.replication.follower_fetch import FollowerFetch
from ottla.replication.leader_state import Proposal
from ottla.replication.partition import Partition
from ottla.sim.disk import Faults, Machinery, SimDisk
from ottla.sim.process import Process
from ottla.sim.trace import Trace
from ottla.sim.volume import Volume
from ottla.storage.log import Log

BROKERS = (1, 2, 3)
LAG_MAX_MS = 1_000
TOPIC_ID = bytes(range(16))
FETCH_BYTES = 400
NEWS_KEPT_BACK_MAX = 6
CONFIG = TopicConfig(
    segment_bytes=2000,
    index_interval_bytes=200,
    segment_index_bytes=512,
    retention_ms=-1,
    file_delete_delay_ms=0,
    min_insync_replicas=2,
)


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now(self) -> float:
        return self.ms / 1000

    def wall_ms(self) -> int:
        return self.ms


class Broken(AssertionError):
    """Something that must never happen has happened."""


class Controller:
    """The truth about who leads and who is in sync."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.active = set(BROKERS)
        self.partition = PartitionImage(0, 1, 0, BROKERS, BROKERS, 0)
        self.version = 0
        self.leaders: dict[int, int] = {0: 1}

    def image(self) -> MetadataImage:
        brokers = {
            b: BrokerImage(b, self.epochs[b], b"", {}, None, fenced=b not in self.active)
            for b in BROKERS
        }
        return MetadataImage(
            offset=self.version, brokers=brokers, topics=EMPTY_IMAGE.topics, derived={}
        )

    def _change(self, **fields: Any) -> None:
        before = self.partition
        self.partition = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
        if self.partition.leader != before.leader:
            epoch = before.leader_epoch + 1
            self.partition = self.partition._replace(leader_epoch=epoch)
            self.leaders[epoch] = self.partition.leader
        self.version += 1

    def _elect(self, isr: tuple[int, ...]) -> int:
        candidates = [broker for broker in isr if broker in self.active]
        return self.chance.choice(candidates) if candidates else -1

    def fence(self, broker: int) -> None:
        self.active.discard(broker)
        self._leave_isr(broker)

    def _leave_isr(self, broker: int) -> None:
        """As Kafka's: the last one stays in the ISR, and the partition has no leader then."""
        isr = tuple(b for b in self.partition.isr if b != broker) or self.partition.isr
        leader = self.partition.leader
        if leader == broker or leader not in self.active:
            leader = self._elect(isr)
        self._change(isr=isr, leader=leader)

    def register(self, broker: int) -> None:
        """Another life of it begins: what it knew before does not count."""
        self.epochs[broker] += 1
        self.fence(broker)

    def unfence(self, broker: int) -> None:
        self.active.add(broker)
        leader = self.partition.leader
        if leader < 0:
            leader = self._elect(self.partition.isr)
        self._change(leader=leader)

    def elect_another(self) -> None:
        others = [b for b in self.partition.isr if b in self.active and b != self.partition.leader]
        if others:
            self._change(leader=self.chance.choice(others))

    def alter(self, broker: int, broker_epoch: int, proposal: Proposal) -> ErrorCode:
        now = self.partition
        if broker_epoch != self.epochs[broker]:
            return ErrorCode.STALE_BROKER_EPOCH
        if now.leader != broker or proposal.leader_epoch != now.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member not in self.active or epoch not in (-1, self.epochs[member]):
                return ErrorCode.INELIGIBLE_REPLICA
        self._change(isr=proposal.isr)
        return ErrorCode.NONE


class Fetch(NamedTuple):
    sender: int
    number: int
    body: FollowerFetch


class Fetched(NamedTuple):
    number: int
    asked: FollowerFetch
    error: ErrorCode
    parting: tuple[int, int] | None
    data: bytes
    high_watermark: int
    log_start_offset: int
    log_end_offset: int


class Produced:
    """An acks=all producer that waits: the real waiter's rules."""

    def __init__(self, world: World, partition: Partition, offset: int, value: bytes) -> None:
        self.world = world
        self.offset = offset
        self.value = value
        partition.waiters[self] = None

    def advanced(self, partition: Partition, gained_bytes: int) -> None:
        if partition.high_watermark > self.offset:
            partition.waiters.pop(self, None)
            if not partition.has_too_few_replicas:
                self.world.acknowledge(self.offset, self.value)

    def disturbed(self, partition: Partition) -> None:
        partition.waiters.pop(self, None)


@dataclass
class Broker:
    """One broker through its lives."""

    id: int
    world: World
    volume: Volume
    life: int = 0
    up: bool = False
    news: deque[tuple[PartitionImage, MetadataImage]] = field(default_factory=deque)
    partition: Partition = field(init=False)
    view: ClusterView = field(init=False)
    checkpoint: int = 0
    broker_epoch: int = 0
    fetch_number: int = 0
    """Of the one fetch that is under way; answers to those before it are void. (They may still
    reach a leader: from a connection that has been given up.)"""
    high_watermark_seen: int = 0
    term_seen: int = -1

    def start(self) -> None:
        self.life += 1
        self.up = True
        clock = self.world.clock
        process = Process(f"broker{self.id}", self.life)
        disk = SimDisk(Machinery(process, self.volume, Faults(), Trace(clock.now)), {})
        self.view = ClusterView(self.id, clock, LAG_MAX_MS)
        self.view.broker_epoch = lambda: self.broker_epoch
        self.view.propose = self._propose
        log = Log.open(disk, "/data/t-0", "t", 0, CONFIG, clock, clean=False, topic_id=TOPIC_ID)
        self.partition = Partition("t", TOPIC_ID, 0, self._no_log, lambda _: None, self.view)
        self.partition.min_insync_replicas = CONFIG.min_insync_replicas
        self.partition.replica_count = len(BROKERS)
        self.partition.attach(log, self.checkpoint)
        self.news.clear()
        self.fetch_number += 1
        self.high_watermark_seen, self.term_seen = 0, -1

    def _propose(self, _: Partition, proposal: Proposal) -> None:
        self.world.proposals.append((self, self.life, proposal))

    def _no_log(self, _: Partition) -> Log:
        raise AssertionError("it has a log")

    @property
    def log(self) -> Log:
        log = self.partition.log
        assert log is not None
        return log

    def hear(self) -> None:
        """Apply the oldest news."""
        if not self.news:
            return
        assigned, image = self.news.popleft()
        self.view.image = image
        if assigned.leader == self.id:
            self.partition.lead(assigned)
        else:
            self.partition.follow(assigned)

    # --- following ------------------------------------------------------------------------------

    def fetch(self) -> FollowerFetch:
        log = self.log
        return FollowerFetch(
            self.id,
            self.broker_epoch,
            self.partition.leader_epoch,
            log.end_offset,
            log.latest_epoch,
            log.log_start_offset,
        )

    def serve(self, fetch: FollowerFetch, number: int) -> Fetched:
        partition, log = self.partition, self.log
        error, parting, data = ErrorCode.NONE, None, b""
        try:
            parting = partition.take_fetch(fetch, self.view.now_ms())
            if parting is None:
                part = log.read(fetch.offset, FETCH_BYTES, log.end_offset)
                data = b"" if part is None else part.read()
        except KafkaError as refused:
            error = refused.code
        return Fetched(
            number,
            fetch,
            error,
            parting,
            data,
            partition.high_watermark,
            log.log_start_offset,
            log.end_offset,
        )

    def take(self, fetched: Fetched) -> None:
        """What the fetcher does with an answer."""
        partition, asked = self.partition, fetched.asked
        if (
            partition.is_leader
            or partition.leader_epoch != asked.leader_epoch
            or asked.offset != self.log.end_offset
        ):
            return
        if fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            partition.follow_from(fetched.log_start_offset, fetched.log_end_offset)
        elif fetched.error == ErrorCode.NONE and fetched.parting is not None:
            partition.truncate_by_epoch(*fetched.parting)
            if self.world.chance.random() < 0.5:
                self.log.sync_cuts()
        elif fetched.error == ErrorCode.NONE:
            if fetched.data:
                partition.append_fetched(fetched.data, asked.leader_epoch, self.world.clock.ms)
            partition.take_marks(fetched.high_watermark, fetched.log_start_offset)

    # --- leading --------------------------------------------------------------------------------

    def produce(self, value: bytes) -> None:
        partition = self.partition
        if partition.lacks_replicas:
            return
        batch = bytearray(build_batch([Record(0, self.world.clock.ms, None, value, ())]))
        appended = partition.append(batch, read_header(batch), self.world.clock.ms)
        waiter = Produced(self.world, partition, appended.last_offset, value)
        waiter.advanced(partition, 0)

    def values(self, upto: int, since: int = 0) -> dict[int, bytes]:
        """What its log holds below `upto`."""
        found: dict[int, bytes] = {}
        offset = max(since, self.log.log_start_offset)
        while offset < upto:
            part = self.log.read(offset, 1 << 20, upto)
            if part is None:
                break
            for header, batch in batches(part.read()):
                for record in read_records(batch):
                    if record.offset < upto:
                        found[record.offset] = record.value or b""
                offset = header.next_offset
        return found


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = Clock()
        self.controller = Controller(self.chance)
        self.acknowledged: dict[int, bytes] = {}
        self.visible: dict[int, bytes] = {}
        self.proposals: list[tuple[Broker, int, Proposal]] = []
        self.verdicts: list[tuple[Broker, int, Proposal, ErrorCode, PartitionImage]] = []
        self.fetches: list[tuple[int, Fetch]] = []
        self.answers: list[tuple[int, Fetched]] = []
        self.counts: dict[str, int] = {}
        self.value = 0
        self.brokers: dict[int, Broker] = {}
        for broker_id in BROKERS:
            volume = Volume(random.Random(seed * 7 + broker_id), self.clock.wall_ms)
            volume.make_dirs("/data")
            volume.settle()
            self.brokers[broker_id] = broker = Broker(broker_id, self, volume)
            broker.start()
        self._draw_weights()
        self.tell()

    # --- events ---------------------------------------------------------------------------------

    def step(self) -> None:
        self.clock.ms += self.chance.choice((0, 0, 1, 5, 40, 200, self.leap_ms))
        (event,) = self.chance.choices(self.events, weights=self.weights)
        event()
        self.check()

    def _draw_weights(self) -> None:
        """Each story has its own: what hardly ever happens in one is the rule in another."""
        events: list[tuple[int, Callable[[], None]]] = [
            (30, self.produce),
            (40, self.send_fetch),
            (60, self.deliver_fetch),
            (60, self.deliver_answer),
            (25, self.hear),
            (15, self.propose),
            (15, self.decide),
            (4, self.shrink),
            (4, self.flush),
            (4, self.checkpoint),
            (8, self.elect),
            (2, self.kill),
            (2, self.lose_power),
            (10, self.restart),
            (2, self.fence),
            (12, self.unfence),
            (3, self.lose_messages),
        ]
        self.events = [event for _, event in events]
        self.weights = [weight * self.chance.choice((0.1, 1, 1, 4)) for weight, _ in events]
        self.leap_ms = self.chance.choice((200, 1500))

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def up(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.up]

    def any_up(self) -> Broker | None:
        up = self.up()
        return self.chance.choice(up) if up else None

    def tell(self) -> None:
        """The newest metadata is on its way to everybody who lives."""
        image = self.controller.image()
        for broker in self.up():
            broker.news.append((self.controller.partition, image))
            while len(broker.news) > NEWS_KEPT_BACK_MAX:
                broker.hear()

    def hear(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.hear()

    def produce(self) -> None:
        leaders = [broker for broker in self.up() if broker.partition.is_leader]
        if leaders:
            self.value += 1
            self.chance.choice(leaders).produce(b"%d" % self.value)

    def send_fetch(self) -> None:
        followers = [
            b for b in self.up() if not b.partition.is_leader and b.partition.leader_id > 0
        ]
        if followers:
            one = self.chance.choice(followers)
            one.fetch_number += 1
            fetch = Fetch(one.id, one.fetch_number, one.fetch())
            self.fetches.append((one.partition.leader_id, fetch))

    def deliver_fetch(self) -> None:
        if self.fetches:
            target, fetch = self.fetches.pop(self.chance.randrange(len(self.fetches)))
            if self.brokers[target].up:
                answer = self.brokers[target].serve(fetch.body, fetch.number)
                self.answers.append((fetch.sender, answer))

    def deliver_answer(self) -> None:
        if self.answers:
            target, answer = self.answers.pop(self.chance.randrange(len(self.answers)))
            broker = self.brokers[target]
            if broker.up and broker.fetch_number == answer.number:
                before = broker.log.end_offset
                broker.take(answer)
                if broker.log.end_offset < before:
                    self.count("truncated")

    def lose_messages(self) -> None:
        self.fetches.clear()
        self.answers.clear()

    def propose(self) -> None:
        """A proposal reaches the controller; its answer may come late, or twice asked."""
        if self.proposals:
            broker, life, proposal = self.proposals.pop(0)
            code = self.controller.alter(broker.id, broker.broker_epoch, proposal)
            if code == ErrorCode.NONE:
                self.count("isr changed")
                self.tell()
            self.verdicts.append((broker, life, proposal, code, self.controller.partition))
            if self.chance.random() < 0.1:  # the answer was lost, and it is asked again
                self.verdicts.pop()
                self.proposals.append((broker, life, proposal))

    def decide(self) -> None:
        """An answer of the controller reaches a leader."""
        if not self.verdicts:
            return
        broker, life, proposal, code, state = self.verdicts.pop(0)
        leading = broker.partition.leading
        if not broker.up or broker.life != life or leading is None:
            return
        if code == ErrorCode.NONE:
            leading.accepted(proposal, state.isr, state.leader_epoch, state.partition_epoch)
            broker.partition.isr_changed()
        else:
            if leading.refused(proposal, code):
                self.proposals.append((broker, life, proposal))
            broker.partition.isr_refused()

    def shrink(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.partition.shrink_isr(broker.view.now_ms())

    def flush(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.log.flush()

    def checkpoint(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.checkpoint = broker.partition.high_watermark

    def elect(self) -> None:
        self.controller.elect_another()
        self.tell()

    def kill(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.up = False
            broker.volume.process_killed()
            self.count("killed")

    def lose_power(self) -> None:
        """Only of one whose records another in-sync replica has too, that has lost none."""
        broker = self.any_up()
        isr = self.controller.partition.isr
        if broker is None or not set(isr) - {broker.id}:
            return
        broker.up = False
        broker.volume.power_loss()
        self.controller.fence(broker.id)  # in time, as when it registers anew
        self.tell()
        self.count("lost power")

    def restart(self) -> None:
        down = [broker for broker in self.brokers.values() if not broker.up]
        if down:
            broker = self.chance.choice(down)
            self.controller.register(broker.id)
            broker.start()
            broker.broker_epoch = self.controller.epochs[broker.id]
            self.tell()

    def fence(self) -> None:
        """The controller has not heard of it for too long; it may live all the same."""
        self.controller.fence(self.chance.choice(BROKERS))
        self.tell()

    def unfence(self) -> None:
        fenced = [b.id for b in self.up() if b.id not in self.controller.active]
        if fenced:
            self.controller.unfence(self.chance.choice(fenced))
            self.tell()

    # --- what must hold -------------------------------------------------------------------------

    def acknowledge(self, offset: int, value: bytes) -> None:
        known = self.acknowledged.setdefault(offset, value)
        if known != value:
            raise Broken(f"{value!r} was acknowledged at {offset}, and {known!r} before")
        self.count("acknowledged")

    def check(self) -> None:
        for broker in self.up():
            partition = broker.partition
            mark = partition.high_watermark
            if mark > broker.log.end_offset:
                raise Broken(f"{broker.id}: high watermark {mark} beyond the log")
            term = partition.leader_epoch if partition.is_leader else -1
            if term >= 0 and term == broker.term_seen and mark < broker.high_watermark_seen:
                raise Broken(f"{broker.id}: high watermark of term {term} went back to {mark}")
            since = broker.high_watermark_seen if term == broker.term_seen else 0
            begins = term != broker.term_seen
            broker.high_watermark_seen, broker.term_seen = mark, term
            if mark > since:
                self._check_visible(broker, since, mark)
            if begins and term >= 0:
                self._check_leader(broker)

    def _check_visible(self, broker: Broker, since: int, mark: int) -> None:
        for offset, value in broker.values(mark, since).items():
            if self.visible.setdefault(offset, value) != value:
                raise Broken(
                    f"{broker.id} shows {value!r} at {offset}, {self.visible[offset]!r} was seen"
                )

    def _check_leader(self, broker: Broker) -> None:
        """A leader has all that was acknowledged before its term. (One of an old term that has not
        heard of its end may lack what was acknowledged since.)"""
        if broker.term_seen != self.controller.partition.leader_epoch:
            return
        has = broker.values(broker.log.end_offset)
        for offset, value in self.acknowledged.items():
            if has.get(offset) != value:
                raise Broken(f"leader {broker.id} lost {value!r} at {offset}: {has.get(offset)!r}")

    # --- the end --------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everybody lives and hears everything; then all must agree, soon."""
        self.lose_messages()
        self.proposals.clear()
        self.verdicts.clear()
        for broker in self.brokers.values():
            if not broker.up:
                self.controller.register(broker.id)
                broker.start()
                broker.broker_epoch = self.controller.epochs[broker.id]
        for broker_id in BROKERS:
            self.controller.unfence(broker_id)
        self.tell()
        for _ in range(150):
            self.clock.ms += 10
            for broker in self.up():
                while broker.news:
                    broker.hear()
            self.produce()
            self.send_fetch()
            for event in (self.deliver_fetch, self.deliver_answer, self.propose, self.decide):
                event()
            self.check()
        self._demand_agreement()

    def _demand_agreement(self) -> None:
        for _ in range(100):  # nothing new any more: the followers get there
            self.send_fetch()
            for event in (self.deliver_fetch, self.deliver_answer, self.propose, self.decide):
                event()
            for broker in self.up():
                while broker.news:
                    broker.hear()
        if set(self.controller.partition.isr) != set(BROKERS):
            raise Broken(f"the ISR stays {self.controller.partition}")
        ends = {broker.log.end_offset for broker in self.up()}
        marks = {broker.partition.high_watermark for broker in self.up()}
        if len(ends | marks) != 1:
            raise Broken(f"logs end at {ends}, high watermarks are {marks}")
        first, *others = (broker.values(broker.log.end_offset) for broker in self.up())
        if any(other != first for other in others):
            raise Broken("the logs differ")
        if any(first.get(offset) != value for offset, value in self.acknowledged.items()):
            raise Broken("acknowledged records are gone")


def tell_story(seed: int, steps: int) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.heal()
    return world
