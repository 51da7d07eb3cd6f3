"""`--command-config` and `-X`: settings of the client in Kafka's names."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_tools import Run, call, execute

NOWHERE = "127.0.0.1:1"


def test_a_file_may_name_the_brokers(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={bootstrap}\nclient.id=me\nreceive.buffer.bytes=65536\n")
    assert call("topics", "list", "--command-config", file).code == 0
    assert call("cluster", "--command-config", file).code == 0
    by_variable = {"OTTLA_COMMAND_CONFIG": str(file)}
    assert call("topics", "list", environment=by_variable).code == 0
    refused = call("topics", "list", "--command-config", file, "--bootstrap", NOWHERE)
    assert NOWHERE in refused.err


def test_a_single_setting_wins_over_the_file(bootstrap: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={NOWHERE}\n")
    where = ("-X", f"bootstrap.servers={bootstrap}")
    assert call("topics", "list", "--command-config", file, *where).code == 0
    assert call("topics", "list", "-X", f"metadata.broker.list={bootstrap}").code == 0


def test_settings_reach_the_producer_and_the_consumer(program: Run, ottla: Run) -> None:
    ottla("topics", "create", "settled")
    bad = program("produce", "settled", "-X", "compression.type=zipped", stdin=b"a\n")
    assert bad.code == 2
    assert "compression.type" in bad.err
    sent = program("produce", "settled", "-X", "compression.type=zstd", stdin=b"a\n" * 10)
    assert sent.code == 0, sent.err
    for isolation in ("read_committed", "read_uncommitted"):
        shown = program("consume", "settled", "-e", "-X", f"isolation.level={isolation}")
        assert shown.text == "a\n" * 10


def test_a_group_in_a_file_for_consumers_commits_nothing(
    program: Run, ottla: Run, tmp_path: Path
) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=from-file\nauto.offset.reset=latest\n")
    ottla("topics", "create", "filed")
    program("produce", "filed", stdin=b"a\n")
    assert program("consume", "filed", "-e", "--command-config", file).text == "a\n"
    assert "from-file" not in ottla("groups", "list", "--names").text


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (["-X", "security.protocl=SSL"], "did you mean security.protocol?"),
        (["-X", "security.protocol=TLS"], "'TLS' is none of"),
        (["-X", "security.protocol"], "wants KEY=VALUE"),
        (["-X", "sasl.jaas.config=a.KerberosLoginModule required;"], "KerberosLoginModule"),
        (["-X", "ssl.truststore.type=BCFKS"], "none of PEM, PKCS12, JKS"),
        (["--command-config", "/no/such/file"], "No such file"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_asked(
    settings: list[str], complaint: str
) -> None:
    refused = execute("topics", "list", "--bootstrap", NOWHERE, *settings)
    assert refused.code == 2
    assert complaint in " ".join(refused.err.replace("│", " ").split())


def test_a_line_that_is_no_property_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\nb=\\u12\n")
    refused = call("topics", "list", "--command-config", file)
    assert "client.properties:2" in "".join(refused.err.replace("│", " ").split())


# Groups


def test_consuming_as_a_member_goes_on_where_the_group_left_off(program: Run, ottla: Run) -> None:
    ottla("topics", "create", "membered", "-p", 2)
    program("produce", "membered", "-p", 0, stdin=b"a\nb\nc\n")
    first = program("consume", "membered", "--group", "members", "--max-records", 2)
    assert first.text == "a\nb\n"
    program("produce", "membered", "-p", 1, stdin=b"d\n")
    rest = program("consume", "membered", "--group", "members", "-e").text.split()
    assert sorted(rest) == ["c", "d"]  # of two partitions, in either order
    assert program("consume", "membered", "--group", "members", "-e").text == ""
    committed = ottla("groups", "describe", "members", "--json").json[0]["partitions"]
    assert [one["committed"] for one in committed] == [3, 1]


def test_a_new_group_begins_where_it_is_told_to(program: Run, ottla: Run) -> None:
    ottla("topics", "create", "begun")
    program("produce", "begun", stdin=b"a\n")
    late = ("consume", "begun", "--group", "late", "--from", "latest", "-e")
    assert program(*late, "-X", "group.protocol=consumer").text == ""


@pytest.mark.parametrize(
    "arguments",
    [("--partition", "0"), ("--until", "end"), ("--from", "15m")],
)
def test_a_member_cannot_choose(arguments: tuple[str, ...]) -> None:
    refused = call("consume", "t", "--group", "g", *arguments, "--bootstrap", NOWHERE)
    assert refused.code == 2
