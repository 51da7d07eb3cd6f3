"""ACLs on three nodes, as processes: seen by each, also by way of forwarding and after the active
controller was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST, run_java
from bench.cluster_nodes import NODES, Trio

from ottla.config.authorization import STANDARD_AUTHORIZER
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.security.rights import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from sasl_broker import SaslWire, plain_users

pytestmark = [pytest.mark.ottla_only, pytest.mark.timeout(180)]

WITHIN_S = 20
ALL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}


def signing_in(user: str) -> str:
    """A JAAS line by which clients, or nodes among themselves, are this user."""
    return plain_users({}).replace(";", f'username="{user}" password="{user}-secret";')


class Guarded(Trio):
    """Everybody signs in: clients as ann, who has no right, or as admin, and nodes among themselves
    as node. Nobody is trusted for being there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        users = plain_users({user: f"{user}-secret" for user in ("ann", "admin", "node")})
        both = signing_in("node").replace(";", " " + users.partition("required ")[2])
        for node in self.nodes.values():
            node.options = {
                "listeners": f"CLIENTS://{HOST}:{node.port},"
                f"CONTROLLER://{HOST}:{node.controller_port}",
                "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,"
                "CONTROLLER:SASL_PLAINTEXT",
                "inter.broker.listener.name": "CLIENTS",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": both,
                "listener.name.controller.plain.sasl.jaas.config": both,
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:node;User:admin",
            }
        self.tool_config = folder / "admin.properties"
        self.tool_config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.jaas.config={signing_in('admin')}\n"
        )

    def ask(self, number: int, user: str, request: Any, version: int = 3) -> Any:
        """Ask one node as this user."""
        wire = SaslWire(self.nodes[number].port)
        try:
            assert wire.plain(user, f"{user}-secret").error_code == 0
            return wire.ask(request, version)
        finally:
            wire.close()

    def leader(self) -> int:
        partitions = [RequestPartitionData(partition_index=0)]
        topic = RequestTopicData(topic_name="__cluster_metadata", partitions=partitions)
        request = DescribeQuorumRequest(topics=[topic])
        number = next(number for number, node in self.nodes.items() if node.running)
        answer = self.ask(number, "admin", request, 1)
        return int(answer.topics[0].partitions[0].leader_id)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("acls")) as running:
        yield running  # type: ignore[misc]


def on_cluster(operation: Operation) -> CreateAclsRequest:
    """Let ann do this on the cluster."""
    acl = AclCreation(
        resource_type=ResourceType.CLUSTER,
        resource_name=CLUSTER_NAME,
        principal="User:ann",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
    return CreateAclsRequest(creations=[acl])


def removing(**chosen: Any) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ALL, **chosen})])


def may_list(trio: Guarded, number: int) -> bool:
    code = ErrorCode.of(trio.ask(number, "ann", DescribeAclsRequest(**ALL)).error_code)
    assert code in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return code is ErrorCode.NONE


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def code_of(answer: Any) -> ErrorCode:
    (result,) = getattr(answer, "results", None) or answer.filter_results
    return ErrorCode.of(result.error_code)


def test_acls_are_in_force_on_each_node_whoever_leads(trio: Guarded, kafka_libs: Path) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for number in NODES:
        # The controller decides, wherever the client asks: it is told who asks.
        assert code_of(trio.ask(number, "ann", on_cluster(Operation.ALL))) is refused
        assert code_of(trio.ask(number, "ann", removing())) is refused
        assert not may_list(trio, number)
    for number in NODES:
        assert code_of(trio.ask(number, "admin", on_cluster(Operation.DESCRIBE))) == 0
        eventually(lambda: all(may_list(trio, each) for each in NODES))
        assert code_of(trio.ask(number, "ann", on_cluster(Operation.ALL))) is refused
        assert code_of(trio.ask(number, "admin", removing())) == 0
        eventually(lambda: not any(may_list(trio, each) for each in NODES))

    to = ("--bootstrap-server", trio.address, "--command-config", str(trio.tool_config))
    tool = ("org.apache.kafka.tools.AclCommand", *to)
    ann = ("--allow-principal", "User:ann", "--operation", "Alter", "--cluster")
    run_java(kafka_libs, *tool, "--add", *ann)
    eventually(lambda: all(may_list(trio, each) for each in NODES))

    killed = trio.leader()
    trio.nodes[killed].kill()
    rest = [number for number in NODES if number != killed]
    eventually(lambda: trio.leader() in rest)
    assert all(may_list(trio, each) for each in rest)
    wanted = on_cluster(Operation.ALTER_CONFIGS)
    eventually(lambda: code_of(trio.ask(rest[0], "ann", wanted)) is ErrorCode.NONE)
    removal = removing(operation=Operation.ALTER)
    eventually(lambda: code_of(trio.ask(rest[1], "ann", removal)) is ErrorCode.NONE)
    eventually(lambda: not any(may_list(trio, each) for each in rest))

    trio.start(killed)
    assert not may_list(trio, killed)
    assert code_of(trio.ask(killed, "ann", on_cluster(Operation.ALTER))) is refused
    listed = run_java(kafka_libs, *tool, "--list", "--cluster").stdout
    assert "operation=ALTER_CONFIGS" in listed
    assert "operation=ALTER," not in listed
