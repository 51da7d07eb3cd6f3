"""Pipelines whose cluster asks for a user and rights: how they connect, with which secrets, and
what they are told if a right is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_tools import SMALL, Pipelines

import ottla.testing
from ottla import Acl, AclOperation, AclPatternType, AclResourceType
from ottla.blocking import Admin, Consumer, Producer
from ottla.client.admin.users import ScramMechanism, ScramUpsertion
from ottla.pipelines.context import BOOTSTRAP, connection_of
from ottla.testing import Cluster

SECRET = "geheim-4711"
CREATE, READ, WRITE = AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
USER = "User:etl"


def sinks(kind: AclResourceType, operation: AclOperation) -> Acl:
    return Acl(kind, "ottla-sink-", USER, operation, pattern_type=AclPatternType.PREFIXED)


MISSING_FIRST = sinks(AclResourceType.TRANSACTIONAL_ID, WRITE)
RIGHTS = [
    Acl(TOPIC, "payments", USER, READ),
    Acl(TOPIC, "big", USER, WRITE),
    sinks(GROUP, READ),
    *(Acl(TOPIC, "__ottla_sink_decisions", USER, each) for each in (CREATE, READ, WRITE)),
]
"""Those of docs/security.md, but for one."""

PIPELINE = """\
source: {topic: payments, format: json, schema: "amount double"}
steps:
  - filter: amount >= 50
sink: {topic: big}
connection:
  bootstrap.servers: "BOOTSTRAP"
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: etl
  sasl.password: ${env:OTTLA_TEST_SECRET}
  ssl.truststore.location: CA
  ssl.truststore.type: PEM
"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    security = ottla.testing.Security(acls=RIGHTS, tls=True)
    with ottla.testing.cluster(3, security=security) as running:
        options = running.options()
        with Admin(**options) as admin, Producer(**options) as producer:
            for topic in ("payments", "big"):
                assert producer.partitions_for(topic)  # creates it
            change = ScramUpsertion("etl", SECRET, ScramMechanism.SCRAM_SHA_512)
            assert admin.alter_user_scram_credentials([change]) == {"etl": None}
        yield running


@pytest.mark.own_jvm
@pytest.mark.timeout(600)
def test_a_pipeline_signs_in_with_its_own_secret_and_needs_exactly_its_rights(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cluster.client_settings()
    pipelines = Pipelines(tmp_path, "")
    text = PIPELINE.replace("BOOTSTRAP", cluster.bootstrap_servers)
    file = pipelines.write("big.yaml", text.replace("CA", settings["ssl.ca.location"]))
    monkeypatch.setenv("OTTLA_TEST_SECRET", SECRET)
    # The environment has another user's settings, which are not the pipeline's.
    others = pipelines.write("admin.properties", "sasl.mechanism=PLAIN\nsasl.password=of-admin\n")
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(others))
    with Producer(**cluster.options()) as producer:
        for amount in range(100):
            producer.send("payments", json.dumps({"amount": amount}).encode())

    refused = pipelines("run", file, "--once", *SMALL)
    assert refused.code == 1
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in refused.err
    assert "docs/security.md lists the rights" in refused.err
    with Admin(**cluster.options()) as admin:
        assert not any(admin.create_acls([MISSING_FIRST]).values())
    done = pipelines("run", file, "--once", "--json", *SMALL)
    assert (done.code, done.json["state"]) == (0, "finished"), done.err
    assert (done.json["rows_in"], done.json["rows_out"]) == (100, 50)
    assert pipelines.status("big")["lag"]["records"] == 0

    options = {**cluster.options(), "isolation_level": "read_committed"}
    with Consumer("big", auto_offset_reset="earliest", **options) as consumer:
        found = [next(consumer).value or b"" for _ in range(50)]
    assert sorted(json.loads(value)["amount"] for value in found) == list(range(50, 100))

    deleted = pipelines("delete", "big", "--yes")
    assert "GROUP_AUTHORIZATION_FAILED" in deleted.err  # it may not delete its groups
    for told in (refused, done, deleted):
        assert SECRET not in told.out + told.err
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != others:
            content = path.read_text(errors="replace")
            assert SECRET not in content
            assert "of-admin" not in content


def test_the_environments_file_serves_only_pipelines_that_do_not_sign_in() -> None:
    defaults = {BOOTSTRAP: "b:1", "kafka.sasl.username": "admin", "kafka.client.id": "me"}
    assert connection_of({}, {}, defaults) == defaults
    own = {BOOTSTRAP: "a:1", "kafka.sasl.username": "etl"}
    assert connection_of(own, {}, defaults) == own
    given = {"kafka.sasl.username": "eve"}
    assert connection_of(own, given, defaults, "c:1") == {BOOTSTRAP: "c:1", **given}


def test_a_pipeline_that_signs_in_is_checked_as_its_own_user(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cluster.client_settings()
    pipelines = Pipelines(tmp_path, "")
    text = PIPELINE.replace("BOOTSTRAP", cluster.bootstrap_servers)
    text = text.replace("topic: payments", "topic: salaries")
    file = pipelines.write("big.yaml", text.replace("CA", settings["ssl.ca.location"]))
    monkeypatch.setenv("OTTLA_TEST_SECRET", SECRET)
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(pipelines.write("admin.properties", lines)))
    refused = pipelines("run", file, "--once", *SMALL)
    assert refused.code == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.err
