"""ACLs of a broker process: what it refuses, to whom, and from when on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.brokers import HOST, Ottla, free_port

from broker_wire import Wire
from ottla.broker.metadata.resources import ResourceType as ConfigResourceType
from ottla.logs import AUDIT_LOGGER
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.security.rights import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from tls_broker import TlsBroker, TlsFolder, TlsWire

pytestmark = pytest.mark.ottla_only

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


class Node(NamedTuple):
    broker: TlsBroker
    files: TlsFolder

    def admin(self) -> TlsWire:
        return TlsWire(self.broker.tls_port, self.files.client_context(shows_certificate=True))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Whoever has the certificate is a super user; others are ANONYMOUS, by either listener."""
    folder = tmp_path_factory.mktemp("acls")
    files = TlsFolder(folder)
    options = {
        **files.options(client_auth="requested"),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:CN=nobody; User:CN=client;",
        "offsets.topic.num.partitions": "1",
    }
    broker = TlsBroker(folder / "broker", options)
    broker.start()
    yield Node(broker, files)
    broker.remove()


@pytest.fixture
def admin(node: Node) -> Iterator[Wire]:
    with_certificate = node.admin()
    yield with_certificate
    delete(with_certificate)
    with_certificate.close()


@pytest.fixture
def anybody(node: Node) -> Iterator[Wire]:
    wire = Wire(node.broker)
    yield wire
    wire.close()


def create(wire: Wire, *acls: AclCreation) -> list[int]:
    answer = wire.ask(CreateAclsRequest(creations=list(acls)), 3)
    return [result.error_code for result in answer.results]


def on_cluster(operation: Operation, **fields: Any) -> AclCreation:
    """Anybody may do this on the cluster, unless `fields` say otherwise."""
    given: dict[str, Any] = {
        "resource_type": ResourceType.CLUSTER,
        "resource_name": CLUSTER_NAME,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ANONYMOUS",
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**{**given, **fields})


def delete(wire: Wire, **chosen: Any) -> int:
    answer = wire.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ALL, **chosen})]), 3)
    (result,) = answer.filter_results
    assert result.error_code == 0
    return len(result.matching_acls)


def sees_acls(wire: Wire) -> bool:
    """True if the caller may describe the cluster, which listing ACLs asks for."""
    code = ErrorCode.of(wire.ask(DescribeAclsRequest(**ALL), 3).error_code)
    assert code in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return code is ErrorCode.NONE


def test_only_who_has_the_right_is_served(admin: Wire, anybody: Wire) -> None:
    assert not sees_acls(anybody)
    assert create(admin, on_cluster(Operation.ALTER)) == [0]
    assert sees_acls(anybody)
    denial = on_cluster(
        Operation.ALL,
        permission_type=Permission.DENY,
        principal="User:*",
        resource_name="*",
        resource_type=ResourceType.GROUP,
    )
    assert create(admin, denial) == [0]
    assert sees_acls(anybody)
    denial.resource_type, denial.resource_name = ResourceType.CLUSTER, CLUSTER_NAME
    assert create(admin, denial) == [0]
    assert not sees_acls(anybody)
    assert delete(admin, permission_type=Permission.DENY) == 2
    assert sees_acls(anybody)
    assert delete(admin, operation=Operation.ALTER) == 1
    assert not sees_acls(anybody)


def test_the_audit_log_is_json_and_its_level_changes_while_the_broker_runs(
    node: Node, admin: Wire, anybody: Wire
) -> None:
    def said() -> list[tuple[str, str, str, str]]:
        lines = node.broker.output_path.read_text().splitlines()
        found = [json.loads(line) for line in lines if AUDIT_LOGGER in line]
        return [(one["event"], one["principal"], one["api"], one["rule"]) for one in found]

    def set_level(level: str) -> None:
        configs = [AlterableConfig(name=AUDIT_LOGGER, value=level)]
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER_LOGGER, resource_name="1", configs=configs
        )
        (done,) = admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert done.error_code == 0, done

    before = len(said())
    assert not sees_acls(anybody)
    assert said()[before:] == [
        ("denied", "User:ANONYMOUS", "DescribeAcls", "the resource has no ACLs")
    ]
    set_level("DEBUG")
    assert sees_acls(admin)
    assert ("allowed", "User:CN=client", "DescribeAcls", "a super user") in said()
    set_level("WARN")
    before = len(said())
    assert not sees_acls(anybody)
    assert len(said()) == before
    set_level("INFO")


def test_an_acl_for_another_host_is_none(admin: Wire, anybody: Wire) -> None:
    assert create(admin, on_cluster(Operation.DESCRIBE, host="10.9.8.7")) == [0]
    assert not sees_acls(anybody)
    assert create(admin, on_cluster(Operation.DESCRIBE, host="127.0.0.1")) == [0]
    assert sees_acls(anybody)


def test_acls_are_changed_by_those_who_may(admin: Wire, anybody: Wire) -> None:
    mine = on_cluster(Operation.READ, resource_type=ResourceType.TOPIC, resource_name="t")
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert create(anybody, mine, mine) == [refused, refused]
    removal = DeleteAclsRequest(filters=[DeleteAclsFilter(**ALL)])
    assert anybody.ask(removal, 3).filter_results[0].error_code == refused
    assert create(admin, on_cluster(Operation.ALTER)) == [0]
    assert create(anybody, mine) == [0]
    shown = anybody.ask(DescribeAclsRequest(**{**ALL, "resource_type_filter": 2}), 3)
    (resource,) = shown.resources
    assert (resource.resource_name, resource.pattern_type, len(resource.acls)) == ("t", 3, 1)
    assert delete(anybody) == 2
    assert create(anybody, mine) == [refused]


def test_listeners_of_controllers_that_may_not_start_early_wait_for_the_acls(
    tmp_path: Path,
) -> None:
    port, controller_port = free_port(), free_port()
    options = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "early.start.listeners": "PLAINTEXT",
    }
    broker = ConfiguredBroker(tmp_path, options)
    broker.port = port
    try:
        broker.start()
        wire = Wire(broker, controller_port)
        assert sees_acls(wire)
        wire.close()
    finally:
        broker.remove()


class ConfiguredBroker(Ottla):
    """Its listeners are those of its options."""

    def command(self) -> list[str]:
        line = [str(self._program), "start", "--data", str(self.data)]
        for key, value in self.options.items():
            line += ["-o", f"{key}={value}"]
        return line


def test_acls_outlive_the_broker(node: Node) -> None:
    admin = node.admin()
    names = [f"kept-{number}" for number in range(3_000)]
    kept = {"resource_type": ResourceType.TOPIC, "resource_pattern_type": PatternType.PREFIXED}
    asked = [on_cluster(Operation.READ, resource_name=name, **kept) for name in names]
    assert set(create(admin, *asked, on_cluster(Operation.ALL))) == {0}
    admin.close()
    node.broker.restart()
    again, anybody = node.admin(), Wire(node.broker)
    assert sees_acls(anybody)
    described = again.ask(DescribeAclsRequest(**ALL), 3).resources
    assert sorted(one.resource_name for one in described) == sorted([*names, CLUSTER_NAME])
    assert delete(again) == len(names) + 1
    assert not sees_acls(anybody)
    for wire in (again, anybody):
        wire.close()
