"""`ottla acls` against a broker with an authorizer, and Kafka's own kafka-acls beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST, Broker, Ottla, free_port, run_java
from cli_tools import Run, call

from ottla.cli.security.acls.selection import operation_named
from ottla.client.admin.acls import AclOperation
from ottla.config.authorization import STANDARD_AUTHORIZER

pytestmark = pytest.mark.ottla_only


class WithController(Ottla):
    """Has a listener for controllers, too."""

    def __init__(self, folder: Path) -> None:
        self.controller = f"{HOST}:{free_port()}"
        options = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{self.controller}",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
        }
        super().__init__(folder, options)

    def command(self) -> list[str]:
        return [*super().command(), "--listener", f"CONTROLLER://{self.controller}"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithController]:
    broker = WithController(tmp_path_factory.mktemp("guarded"))
    broker.start()
    yield broker
    broker.remove()


@pytest.fixture
def acls(guarded: Broker) -> Iterator[Run]:
    """`acls("list")`; there are none at the start."""

    def run(*words: object) -> Any:
        return call("acls", *words, environment={"OTTLA_BOOTSTRAP": guarded.address})

    yield run
    for principal in {acl["principal"] for acl in run("list", "--json").json}:
        assert run("remove", "--principal", principal, "--yes").code == 0
    assert run("list", "--json").json == []


def rows(acls: Run, *words: object) -> set[tuple[str, ...]]:
    return {
        (acl["resource_type"], acl["resource_name"], acl["principal"], acl["operation"])
        for acl in acls("list", "--json", *words).json
    }


def test_an_acl_is_added_shown_and_removed(acls: Run) -> None:
    ann = ("--allow", "User:ann", "--operation", "read", "--topic", "orders")
    planned = acls("add", *ann, "--dry-run", "--json").json
    assert acls("list", "--json").json == []
    assert acls("add", *ann).code == 0
    assert acls("list", "--json").json == planned
    assert acls("add", *ann, "--json").json == planned
    (line,) = acls("list", "--topic", "orders").text.splitlines()[2:]
    assert line.split() == ["topic", "orders", "literal", "User:ann", "allow", "read", "*"]
    assert acls("remove", *ann, "--dry-run", "--json").json == planned
    assert rows(acls)
    assert acls("remove", *ann).code == 2  # nobody can be asked
    assert acls("remove", *ann, "--yes", "--json").json == planned
    assert acls("remove", *ann, "--yes").code == 1


def test_the_acls_of_producers_and_consumers_are_those_of_kafkas_tool(
    acls: Run, guarded: Broker, kafka_libs: Path
) -> None:
    words = ("--topic", "orders", "--topic", "bills", "--transactional-id", "x", "--group", "g")
    roles = ("--producer", "--idempotent", "--consumer")
    who = ("--allow-principal", "User:ann", "--allow-principal", "User:bo", "--allow-host", "::1")
    assert acls("--add", *words, *roles, *who).code == 0
    ours = acls("list", "--json").json
    assert len(ours) == 2 * (2 * 4 + 2 + 1 + 1)
    for principal in ("User:ann", "User:bo"):
        assert acls("--remove", "--principal", principal, "--force").code == 0
    command = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", guarded.address)
    run_java(kafka_libs, *command, "--add", *words, *roles, *who)
    assert acls("list", "--json").json == ours
    listed = run_java(kafka_libs, *command, "--list", "--principal", "User:ann").stdout
    assert "principal=User:ann, host=::1, operation=READ, permissionType=ALLOW" in listed
    run_java(kafka_libs, *command, "--remove", *words, *roles, *who, "--force")
    assert acls("list", "--json").json == []


def test_controllers_can_be_asked_themselves(acls: Run, guarded: WithController) -> None:
    at = ("--bootstrap-controller", guarded.controller)
    ann = ("--allow", "User:ann", "--operation", "read", "--topic", "orders")
    assert acls("add", *ann, *at).code == 0
    assert acls("list", "--json", *at).json == acls("list", "--json").json != []
    question = ("--principal", "User:ann", "--operation", "read", "--topic", "orders")
    assert acls("test", *question, *at).code == 0
    assert acls("remove", *ann, *at, "--yes").code == 0
    assert acls("test", *question, *at).code == 1


def test_a_question_is_answered_with_the_rule(acls: Run) -> None:
    def ask(*words: str) -> tuple[int, str]:
        answer = acls("test", "--principal", "User:ann", *words)
        return answer.code, answer.text

    code, said = ask("--operation", "Read", "--topic", "orders")
    assert (code, said.split()[:5]) == (1, ["denied:", "the", "resource", "has", "no"])
    prefixed = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    acls("add", "--allow", "User:*", "--operation", "Read", *prefixed)
    code, said = ask("--operation", "describe", "--topic", "orders")
    assert (code, said) == (0, "allowed: allow User:* from * READ on TOPIC prefixed ord\n")
    acls("add", "--deny", "User:ann", "--deny-host", "10.0.0.7", "--topic", "orders")
    code, said = ask("--operation", "read", "--topic", "orders")
    assert (code, said.endswith("; but see --host: there are ACLs for 10.0.0.7\n")) == (0, True)
    for host in ("10.0.0.7", "::ffff:10.0.0.7"):
        code, said = ask("--operation", "read", "--topic", "orders", "--host", host)
        deny = "denied: deny User:ann from 10.0.0.7 ALL on TOPIC literal orders\n"
        assert (code, said) == (1, deny)
    code, said = ask("--operation", "write", "--topic", "orders")
    assert (code, said.split("(")[0]) == (1, "denied: no ACL of the resource allows it ")


@pytest.mark.parametrize(
    "words",
    [
        ("add", "--topic", "t"),
        ("add", "--allow", "ann", "--topic", "t"),
        ("add", "--allow", "User:ann"),
        ("add", "--allow", "User:ann", "--topic", "t", "--operation", "any"),
        ("add", "--allow", "User:ann", "--topic", "t", "--operation", "fly"),
        ("add", "--allow", "User:ann", "--topic", "t", "--pattern", "match"),
        ("add", "--allow", "User:ann", "--topic", "t", "--deny-host", "10.0.0.1"),
        ("add", "--allow", "User:ann", "--topic", "t", "--consumer"),
        ("add", "--allow", "User:ann", "--topic", "t", "--idempotent"),
        ("add", "--allow", "User:ann", "--topic", "t", "--producer", "--operation", "read"),
        ("add", "--deny", "User:ann", "--topic", "t", "--producer"),
        ("add", "--deny", "User:ann", "--topic", "t", "--deny-host", "somewhere.example"),
        ("add", "--allow", "User:ann", "--topic", "t", "--allow-host", "10.0.0.0/8"),
        ("add", "--allow", "User:ann", "--topic", "*", "--pattern", "prefixed"),
        ("add", "--allow", "User:ann", "--topic", "b\u00fccher"),
        ("add", "--allow", "User:ann", "--topic", "orders*"),
        ("add", "--allow", "User:ann", "--group", "g", "--operation", "create"),
        ("remove", "--yes"),
        ("test", "--principal", "User:ann", "--operation", "read"),
        *(
            (*("test", "--principal", "User:ann", "--operation", "read"), "--topic", "t", *host)
            for host in (("--host", "localhost"), ("--host", "10.0.0.0/8"))
        ),
        ("test", "--principal", "ann", "--operation", "read", "--topic", "t"),
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_refused(acls: Run, words: tuple[str, ...]) -> None:
    assert acls(*words).code == 2
    assert acls("list", "--json").json == []


def test_operations_are_known_by_all_spellings_of_kafka() -> None:
    for text in ("DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS"):
        assert operation_named(text) is AclOperation.DESCRIBE_CONFIGS
