"""`ottla start --secure`: the settings and files that it makes, and how it is used from outside."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_tools import PROGRAM, call, execute
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.cli.nodes.folder import node_settings, prepare
from ottla.cli.nodes.secure_folder import open_folder
from ottla.config.broker import BrokerConfig
from ottla.config.properties import parse_properties

pytestmark = pytest.mark.ottla_only


def test_passwords_and_keys_are_kept_and_only_the_owner_can_read_them(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "secure", "localhost")
    folder.write_client_files("localhost:9092")
    before = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    again = open_folder(tmp_path / "secure", "localhost")
    again.write_client_files("localhost:9092")
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == before
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.path.iterdir()} == {0o600}
    assert sorted(before) == [
        *("ca.key", "ca.pem", "client.properties", "librdkafka.properties"),
        *("node.pem", "passwords.properties"),
    ]


def test_the_data_of_a_secured_broker_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_password_that_the_user_has_chosen_is_kept(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "secure", "localhost")
    file = folder.path / "passwords.properties"
    node = parse_properties(file.read_text(), "file")["node"]
    file.write_text("admin=of my own\n")
    open_folder(folder.path, "localhost").write_client_files("localhost:9092")
    kept = parse_properties(file.read_text(), "file")
    assert kept["admin"] == "of my own"
    assert kept["node"] not in ("", node)
    assert 'password="of my own"' in folder.client_file.read_text()


def test_what_is_printed_has_no_secret(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "secure", "localhost")
    words = parse_properties((folder.path / "passwords.properties").read_text(), "file").values()
    shown = "\n".join([*folder.how_to_connect(), repr(folder)])
    assert not [word for word in words if word in shown]


def test_the_nodes_of_a_cluster_have_one_secured_listener_each(tmp_path: Path) -> None:
    given = open_folder(tmp_path / "secure", "localhost").node_settings(has_controllers=True)
    nodes = prepare(tmp_path / "nodes", 3, 0)
    settings = node_settings(nodes, 1, "localhost", given)
    config = BrokerConfig.parse(settings)
    assert config.sasl_listeners == ("SASL_SSL", "CONTROLLER")
    assert settings["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--config", "server.properties"), "--secure makes its own settings"),
        (("-l", "localhost:1", "-l", "localhost:2"), "--secure takes one --listener"),
        (("-o", "listeners=PLAINTEXT://localhost:1"), "--secure takes one --listener"),
    ],
)
def test_options_that_contradict_are_refused(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    outcome = execute("start", "--secure", "-d", tmp_path / "data", *options)
    assert outcome.code == 2
    assert complaint in outcome.err


def test_a_damaged_file_is_named_and_how_to_go_on(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "secure", "localhost")
    folder.authority_file.write_text("damaged")
    outcome = execute("start", "--secure", "-d", tmp_path)
    assert outcome.code == 2
    assert str(folder.path) in outcome.err
    assert "damaged" in outcome.err


def test_a_secured_folder_is_not_opened_without_security(tmp_path: Path) -> None:
    open_folder(tmp_path / "secure", "localhost")
    for nodes in ("1", "3"):
        outcome = execute("start", "-d", tmp_path, "--nodes", nodes, "-l", "127.0.0.1:0")
        assert outcome.code == 2
        assert "was started with --secure" in outcome.err


@contextmanager
def started(data: Path, *options: str) -> Iterator[list[str]]:
    """What it prints when it is ready."""
    with (data.parent / "errors").open("w") as errors:
        process = subprocess.Popen(
            [PROGRAM, "start", "--secure", "-d", str(data), "-l", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        yield [process.stdout.readline() for _ in range(3)]
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def _as_ann(of_admin: str) -> str:
    """Return the settings of another user of the same cluster."""
    kept = [line for line in of_admin.splitlines() if not line.startswith("sasl.")]
    line = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    jaas = f'sasl.jaas.config={line} username="ann" password="ann\'s";'
    return "\n".join([*kept, "sasl.mechanism=SCRAM-SHA-512", jaas, ""])


@pytest.mark.parametrize("nodes", ["1", "3"])
def test_only_users_with_rights_get_in(tmp_path: Path, nodes: str) -> None:
    data = tmp_path / "data"
    with started(data, "--nodes", nodes) as lines:
        as_admin = ("--command-config", data / "secure" / "client.properties")
        assert str(as_admin[1]) in lines[1]
        given = parse_properties((data / "secure" / "librdkafka.properties").read_text(), "file")
        assert AdminClient(dict(given)).list_topics(timeout=20).brokers
        assert call("topics", "create", "t", *as_admin).code == 0
        (tmp_path / "password").write_text("ann's\n")
        password = ("--password-file", tmp_path / "password")
        assert call("users", "add", "ann", *password, *as_admin).code == 0
        for words in (
            ("users", "add", "User:ann", *password),
            ("tokens", "create", "--max-lifetime", "0s"),
        ):
            assert call(*words, *as_admin).code == 2
        may = ("--allow-principal", "User:ann", "--operation", "Describe", "--topic", "t")
        assert call("acls", "add", *may, *as_admin).code == 0

        assert call("tokens", "create", "--json", *as_admin).json["owner"] == "User:admin"
        alone = ("--command-config", tmp_path / "ann.properties")
        of_admin = as_admin[1].read_text()
        alone[1].write_text(_as_ann(of_admin))
        for words in (("cluster", "status"), ("quorum", "describe")):
            refused = call(*words, *alone)
            assert refused.code == 1
            assert "CLUSTER_AUTHORIZATION_FAILED" in refused.err
            assert "no majority" not in refused.text + refused.err + refused.text

        as_ann = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ann"}
        ann = AdminClient({**given, **as_ann, "sasl.password": "ann's"})
        assert list(ann.list_topics(timeout=20).topics) == ["t"]
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            ann.delete_topics(["t"])["t"].result(20)
        for wrong in (
            {**given, "sasl.password": "guess"},
            {**given, **as_ann, "sasl.password": "guess"},
            {"bootstrap.servers": given["bootstrap.servers"]},
        ):
            with pytest.raises(KafkaException):
                AdminClient({**wrong, "log_level": "0"}).list_topics(timeout=2)
