"""The readers at a cluster whose users sign in and have few rights, without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import ottla.testing
from ottla import Acl, AclOperation, AclResourceType
from ottla.blocking import Admin, Producer
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.source.columns import spark_schema
from ottla.spark.source.offsets import IDS
from ottla.spark.source.stream_reader import StreamReader

PASSWORD = "OTTLA_TEST_PASSWORD"
MAY_READ = Acl(AclResourceType.TOPIC, "payments", "User:alice", AclOperation.READ)
SECURITY = ottla.testing.Security(users=["alice"], acls=[MAY_READ])


def end_of(reader: StreamReader) -> dict[str, dict[str, int]]:
    found = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    return {topic: parts for topic, parts in found.items() if topic != IDS}


def test_a_query_reads_what_its_user_may_and_says_which_topic_it_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ottla.testing.cluster(1, security=SECURITY) as cluster:
        with Producer(**cluster.options()) as producer:
            for topic in ("payments", "salaries"):
                producer.send(topic, b"1").result()
        settings = cluster.client_settings("alice")
        monkeypatch.setenv(PASSWORD, settings["sasl.password"])
        settings["sasl.password"] = f"${{env:{PASSWORD}}}"
        options = {f"kafka.{name}": value for name, value in settings.items()}
        options |= {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "10"}

        readers = [
            StreamReader({**options, "subscribe": topics}, spark_schema())
            for topics in ("payments", "payments,salaries")
        ]
        try:
            assert set(end_of(readers[0])) == {"payments"}
            with pytest.raises(KafkaError, match="'salaries' takes the right to read it") as caught:
                end_of(readers[1])
            assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with Admin(**cluster.options()) as admin:
                also = Acl(AclResourceType.TOPIC, "salaries", "User:alice", AclOperation.READ)
                assert not any(admin.create_acls([also]).values())
            assert set(end_of(readers[1])) == {"payments", "salaries"}
        finally:
            for reader in readers:
                reader.stop()
