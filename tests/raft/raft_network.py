"""A network that delays, loses, and cuts one way at a time.

Requests between two nodes travel alone, so they overtake each other as those of different
connections do. A loss is sometimes noticed (a reset) and sometimes not (silence).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.raft.effects import Request
from ottla.broker.raft.events import RequestFailed, ResponseReceived
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from raft_node import Node
    from raft_world import World


class Network:
    def __init__(self, world: World) -> None:
        chance = world.random
        self.world = world
        self.cut: set[tuple[int, int]] = set()
        self.loss = chance.choice((0.0, 0.01, 0.1))
        self.delay_ms = chance.choice((0.3, 3.0, 20.0))
        self.spike = chance.choice((0.0, 0.01, 0.05))
        self.speaks_bytes = chance.random() < 0.2
        """Messages are encoded and decoded, in a version drawn for each."""
        self.vote_version = chance.choice((2, 2, 2, 2, 1, 0))
        self.messages = 0

    def heal(self) -> None:
        self.cut.clear()
        self.loss = self.spike = 0.0
        self.delay_ms = min(self.delay_ms, 3.0)

    def request(self, sender: Node, request: Request) -> None:
        receiver = self.world.by_port.get(request.destination.port)
        message, version = self._version(request.message)
        life = sender.life
        if message is None:
            self._tell(sender, RequestFailed(request.correlation_id, ErrorCode.UNSUPPORTED_VERSION))
            return
        if receiver is None or not self._passes(sender.id, receiver.id):
            self._lost(sender, request)
            return

        def arrive() -> None:
            if sender.life != life:
                return
            if receiver.core is None or not self._passes(receiver.id, sender.id, chance=False):
                self._lost(sender, request)
                return
            receiver.request(message, version, reply)

        def reply(response: Message) -> None:
            if sender.life != life:
                return  # the connection ended with it
            if not self._passes(receiver.id, sender.id):
                self._lost(sender, request)
                return
            answer = self._through_bytes(response, version)
            self._tell(sender, ResponseReceived(request.correlation_id, answer))

        receiver.later(self._delay(), arrive)

    def _version(self, message: Message) -> tuple[Message | None, int]:
        version = type(message).VERSIONS[1]
        if isinstance(message, VoteRequest):
            version = self.vote_version
            if message.topics[0].partitions[0].pre_vote and version < 2:
                return None, version
        return self._through_bytes(message, version), version

    def _through_bytes(self, message: Message, version: int) -> Message:
        if not self.speaks_bytes:
            return message
        parts = encoder(type(message), version)(message)
        encoded = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # no slices
        return decoder(type(message), version)(memoryview(encoded), 0)[0]

    def _tell(self, node: Node, event: RequestFailed | ResponseReceived) -> None:
        self.messages += 1
        node.later(self._delay(), lambda: node.tell(event))

    def _lost(self, sender: Node, request: Request) -> None:
        if self.world.random.random() < 0.5:
            self._tell(sender, RequestFailed(request.correlation_id))

    def _passes(self, source: int, target: int, *, chance: bool = True) -> bool:
        if (source, target) in self.cut:
            return False
        return not chance or self.world.random.random() >= self.loss

    def _delay(self) -> float:
        random = self.world.random
        delay_ms = random.expovariate(1 / self.delay_ms)
        if random.random() < self.spike:
            delay_ms += random.random() * 4_000
        return delay_ms
