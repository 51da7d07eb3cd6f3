"""Users of SCRAM: made while the cluster runs or when it is formatted, and removed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import HOST

import ottla
from ottla.client.admin.users import ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.errors import AuthenticationFailed
from sasl_broker import SaslBroker, sasl_options

pytestmark = pytest.mark.ottla_only

PROGRAM = str(Path(sys.executable).parent / "ottla")
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    folder = tmp_path_factory.mktemp("broker")
    broker = SaslBroker(folder, sasl_options("SCRAM-SHA-256", "SCRAM-SHA-512", listeners=()))
    try:
        broker.start()
        yield broker
        assert broker.stop() == 0
    finally:
        broker.remove()


def run(
    broker: SaslBroker, *arguments: str, stdin: str = "", code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PROGRAM, "users", *arguments, "--bootstrap", f"{HOST}:{broker.port}"],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=30,
        env=broker.environment() | {"SECRET": "alices secret", "OTHER": "of others"},
    )
    assert done.returncode == code, done
    assert "alices secret" not in done.stdout + done.stderr
    return done


def signs_in(broker: SaslBroker, user: str, password: str, mechanism: str) -> None:
    """Raise `AuthenticationFailed` if the user cannot sign in."""
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.secured_address(),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": password,
    }

    async def main() -> None:
        async with ottla.Admin(**settings) as admin:
            await admin.describe_cluster()

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("name", ["\u00fcn\u00ef", "a\nb"])
def test_names_that_could_never_sign_in_are_refused(broker: SaslBroker, name: str) -> None:
    done = run(broker, "add", name, "--password-env", "SECRET", code=2)
    assert "printable ASCII" in " ".join(done.stderr.replace("│", " ").split())


def test_a_user_is_added_changed_and_removed(broker: SaslBroker, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationFailed, match=REFUSED):
        signs_in(broker, "alice", "alices secret", "SCRAM-SHA-512")
    assert "Would add" in run(broker, "add", "alice", "--dry-run").stdout
    assert run(broker, "list", "--json").stdout.strip() == "[]"
    run(broker, "add", "alice", "--password-env", "SECRET")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        if mechanism == "SCRAM-SHA-256":
            secret = tmp_path / "secret"
            secret.write_text("alices secret\n")
            run(broker, "add", "alice", "-m", mechanism, "--password-file", str(secret),
                "--iterations", "8192")  # fmt: skip
        signs_in(broker, "alice", "alices secret", mechanism)
        with pytest.raises(AuthenticationFailed, match=REFUSED):
            signs_in(broker, "alice", "Alices secret", mechanism)
    listed = run(broker, "list", "alice").stdout
    for part in ("SCRAM-SHA-256", "8192", "SCRAM-SHA-512", "4096"):
        assert part in listed
    assert "has SCRAM-SHA-512 already" in run(
        broker, "add", "alice", "--password-env", "SECRET", code=1
    ).stderr  # fmt: skip
    assert "no terminal to ask at" in run(broker, "alter", "alice", code=2).stderr
    run(broker, "alter", "alice", "--password-file", "-", stdin="new\n")
    signs_in(broker, "alice", "new", "SCRAM-SHA-512")
    assert "has no" not in run(broker, "remove", "alice", "-m", "SCRAM-SHA-256", "--yes").stderr
    assert "alice has no SCRAM-SHA-256" in run(
        broker, "remove", "alice", "-m", "SCRAM-SHA-256", "--yes", code=1
    ).stderr  # fmt: skip
    signs_in(broker, "alice", "new", "SCRAM-SHA-512")
    run(broker, "remove", "alice", "--yes")
    with pytest.raises(AuthenticationFailed, match=REFUSED):
        signs_in(broker, "alice", "new", "SCRAM-SHA-512")
    assert "does not exist" in run(broker, "list", "alice", code=1).stderr


def test_users_outlive_a_restart_and_show_nowhere(broker: SaslBroker) -> None:
    async def main() -> None:
        async with ottla.Admin(bootstrap_servers=f"{HOST}:{broker.port}") as admin:
            changes = [ScramUpsertion(f"user{number}", f"pass{number}") for number in range(3)]
            assert not any((await admin.alter_user_scram_credentials(changes)).values())
            gone = [ScramDeletion("user2", ScramMechanism.SCRAM_SHA_512)]
            assert await admin.alter_user_scram_credentials(gone) == {"user2": None}

    asyncio.run(main())
    assert broker.stop() == 0
    log = broker.tail(1_000_000)
    broker.start()
    signs_in(broker, "user1", "pass1", "SCRAM-SHA-512")
    with pytest.raises(AuthenticationFailed, match=REFUSED):
        signs_in(broker, "user2", "pass2", "SCRAM-SHA-512")
    assert "pass1" not in log + broker.tail(1_000_000)


def test_a_cluster_is_formatted_with_users(tmp_path: Path) -> None:
    def formatted(*users: str) -> subprocess.CompletedProcess[str]:
        properties = tmp_path / "server.properties"
        properties.write_text(
            f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/data\n"
            "controller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:19093\n"
            "controller.quorum.voters=1@127.0.0.1:19093\n"
        )
        command = [PROGRAM, "storage", "format", "-t", "abc", "-c", str(properties)]
        for user in users:
            command += ["--add-scram", user]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    for wrong, reason in (
        ("SCRAM-SHA-256", "no equals sign"),
        ("SCRAM-SHA-1=[name=a,password=hush]", "SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a,password=hush", "to start with ["),
        ("SCRAM-SHA-256=[name=a,password=hush", "to end with ]"),
        ("SCRAM-SHA-256=[password=hush]", "supply 'name'"),
        ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=hush]", "'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=1]", "must be >= 4096"),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=16385]", "must be <= 16384"),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=x]", "Failed to parse iterations"),
        ("SCRAM-SHA-256=[name=a,password=hush,salt=*]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=hu,sh]", "No equals sign found in SCRAM component 3"),
        ("SCRAM-SHA-256=[name=a,password=hu,hush=1]", "component 3 is none of"),
    ):
        done = formatted(wrong)
        assert done.returncode == 1
        assert reason in done.stderr
        assert "hush" not in done.stderr
    done = formatted(
        'SCRAM-SHA-256=[name="admin",password="a b=c",iterations=8192]',
        "SCRAM-SHA-512=[name=bob,password=of bob]",
    )
    assert done.returncode == 0, done
    broker = SaslBroker(
        tmp_path, sasl_options("SCRAM-SHA-256", "SCRAM-SHA-512", listeners=(), node_id="1")
    )
    try:
        broker.start()
        signs_in(broker, "admin", "a b=c", "SCRAM-SHA-256")
        signs_in(broker, "bob", "of bob", "SCRAM-SHA-512")
    finally:
        broker.stop()
