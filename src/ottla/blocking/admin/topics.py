"""Topics, without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.topics import SERVER_DEFAULT, CreatedTopic, EligibleLeaders, NewTopic
from ottla.client.network.metadata import Topic
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError


class TopicCalls(AdminCalls):
    def list_topics(self, *, internal: bool = False) -> list[str]:
        return self._call(lambda: self._admin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic | KafkaError]:
        return self._call(lambda: self._admin.describe_topics(names))

    def describe_eligible_leaders(
        self, names: Iterable[str] | None = None
    ) -> dict[TopicPartition, EligibleLeaders]:
        return self._call(lambda: self._admin.describe_eligible_leaders(names))

    def describe_topic(self, name: str) -> Topic:
        return self._call(lambda: self._admin.describe_topic(name))

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        return self._call(lambda: self._admin.create_topics(topics, validate_only=validate_only))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = SERVER_DEFAULT,
        replication_factor: int = SERVER_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        return self._call(
            lambda: self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        return self._call(lambda: self._admin.delete_topics(names))

    def delete_topic(self, name: str) -> None:
        return self._call(lambda: self._admin.delete_topic(name))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        return self._call(
            lambda: self._admin.create_partitions(
                topic, count, assignments=assignments, validate_only=validate_only
            )
        )
