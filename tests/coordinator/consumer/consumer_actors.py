"""Consumers as they behave towards a group: honest, but slow, forgetful or dead."""

from __future__ import annotations

from typing import Any

from consumer_stage import GROUP, Stage, beating, joining, owning, told

from ottla.protocol.errors import ErrorCode

Partition = tuple[bytes, int]

FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Consumer:
    """A member of the new protocol. `owned` is what it reads from; nothing else counts."""

    def __init__(self, name: str, static: bool) -> None:
        self.name = name
        self.instance_id = name if static else None
        self.lives = 0
        self.member_id = ""
        self.epoch = 0
        self.is_alive = False
        self.topics: list[str] = []
        self.regex = ""
        self.owned: set[Partition] = set()
        self.assigned: set[Partition] = set()
        self._reported: set[Partition] | None = None
        self._changed = False
        self._unsure = False

    # --- life -----------------------------------------------------------------------------------

    def start(self, topics: list[str], regex: str) -> None:
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.is_alive = True
        self.subscribe(topics, regex)
        self._forget()

    def subscribe(self, topics: list[str], regex: str) -> None:
        self.topics, self.regex = topics, regex
        self._changed = True

    def crash(self) -> None:
        self.is_alive = False
        self._forget()

    def leave(self, stage: Stage, for_good: bool) -> None:
        epoch = -1 if for_good or self.instance_id is None else -2
        self.crash()
        stage.heartbeat(beating(self.member_id, epoch, instance_id=self.instance_id))

    def _forget(self) -> None:
        self.epoch = 0
        self.owned = set()
        self.assigned = set()
        self._reported = None
        self._unsure = False

    # --- heartbeats -----------------------------------------------------------------------------

    def beat(self, stage: Stage, answer_arrives: bool = True) -> None:
        response = stage.heartbeat(self._request())
        if not answer_arrives:
            self._unsure = True
            return
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.UNRELEASED_INSTANCE_ID:
            return
        if code in FENCED:
            self._forget()
            return
        assert code is ErrorCode.NONE, (code, response.error_message)
        assert response.member_epoch >= self.epoch, "epochs only grow"
        self.epoch = response.member_epoch
        self._changed = self._unsure = False
        partitions = told(response)
        if partitions is not None:
            self.assigned = partitions

    def _request(self) -> Any:
        fields: dict[str, Any] = {"instance_id": self.instance_id}
        full = self.epoch == 0 or self._unsure
        if full or self._changed:
            fields["subscribed_topic_names"] = self.topics
            fields["subscribed_topic_regex"] = self.regex
        if self.epoch == 0:
            return joining(self.member_id, **fields)
        if full or self._reported != self.owned:
            self._reported = set(self.owned)
            grouped: dict[bytes, list[int]] = {}
            for topic_id, index in self.owned:
                grouped.setdefault(topic_id, []).append(index)
            fields["topic_partitions"] = owning(grouped)
        if full:
            fields["rebalance_timeout_ms"] = 60_000
        return beating(self.member_id, self.epoch, **fields)

    def take_up(self) -> None:
        """It begins to read what is new."""
        self.owned |= self.assigned

    def let_go(self) -> None:
        """It stops reading what is no longer its own."""
        self.owned &= self.assigned

    def is_member(self, stage: Stage) -> bool:
        group = stage.groups.get(GROUP)
        return group is not None and self.member_id in group.members
