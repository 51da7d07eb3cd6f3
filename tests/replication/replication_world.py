"""Three brokers with one partition, a controller, and messages that come late or never.

The partitions, logs, leaders' and followers' decisions are the real ones, on disks that may lose
what was not synced. The controller is a model: it decides at once and rightly, and its news reach
each broker in order but late. Nothing here waits: every step is one event, drawn by chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from replication_broker import Broker, Fetch, Fetched
from replication_controller import (
    BROKERS,
    Broken,
    Controller,
)

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication import isr
from ottla.broker.replication.leader_state import Proposal
from ottla.protocol.errors import ErrorCode
from ottla.sim.volume import Volume

NEWS_KEPT_BACK_MAX = 6


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now(self) -> float:
        return self.ms / 1000

    def wall_ms(self) -> int:
        return self.ms


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
            isr.accepted(broker.partition)
        else:
            if leading.refused(proposal, code):
                self.proposals.append((broker, life, proposal))
            isr.refused(broker.partition)

    def shrink(self) -> None:
        if (broker := self.any_up()) is not None:
            isr.shrink(broker.partition, broker.view.now_ms())

    def flush(self) -> None:
        if (broker := self.any_up()) is not None:
            broker.log.flush()

    def checkpoint(self) -> None:
        """Of a log whose truncation is not on disk yet, the high watermark is not written."""
        if (broker := self.any_up()) is not None:
            broker.checkpoint = 0 if broker.is_cut else broker.partition.high_watermark

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
