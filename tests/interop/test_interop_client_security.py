"""Our client at the secured listeners of Apache Kafka: TLS, and every way to sign in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.brokers import Kafka, free_port
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.client.errors import AuthenticationFailed, ClientError, TlsFailed
from ottla.client.network.cluster import Cluster
from ottla.client.settings.common import ClientSettings
from ottla.runtime.os_runtime import OsRuntime, run
from tls_files import Authority

pytestmark = pytest.mark.ottla_only

HOST = "127.0.0.1"
SESSION_MS = 1_500
LISTENERS = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "SASLTLS": "SASL_SSL"}
MODULES = {
    "plain": 'plain.PlainLoginModule required user_alice="secret";',
    "scram-sha-256": "scram.ScramLoginModule required;",
    "scram-sha-512": "scram.ScramLoginModule required;",
    "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";',
}


class SecuredKafka:
    """One Kafka with a listener of each kind, and the files to get in."""

    def __init__(self, folder: Path, libs: Path) -> None:
        self.authority = Authority(folder / "tls")
        self.client = self.authority.sign("client")
        self.ports = {name: free_port() for name in LISTENERS}
        self.broker = Kafka(folder / "kafka", self._options(folder), libs=libs)
        self.broker.port = free_port()
        self.broker._controller_port = controller = free_port()
        places = {"PLAINTEXT": self.broker.port, "CONTROLLER": controller, **self.ports}
        self.broker.options["listeners"] = ",".join(
            f"{name}://{HOST}:{port}" for name, port in places.items()
        )

    def _options(self, folder: Path) -> dict[str, str]:
        own = self.authority.sign("broker", f"DNS:localhost,IP:{HOST}")
        store = folder / "broker-store.pem"
        store.write_text(own.key.read_text() + own.certificate.read_text())
        kinds = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
        options = {
            "listener.security.protocol.map": ",".join(map(":".join, kinds.items())),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MODULES).upper(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.sasl.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
        }
        for listener in ("sasl", "sasltls"):
            for mechanism, module in MODULES.items():
                key = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
                options[key] = f"org.apache.kafka.common.security.{module}"
        return options

    def start(self) -> None:
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credentials = UserScramCredentialUpsertion(
                "bob", ScramCredentialInfo(mechanism, 4096), b"hush", b"salt"
            )
            for done in admin.alter_user_scram_credentials([credentials]).values():
                done.result(30)


@pytest.fixture(scope="module")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    made = SecuredKafka(tmp_path_factory.mktemp("secured"), kafka_libs)
    try:
        made.start()
        yield made
    finally:
        made.broker.remove()


def cluster_id(
    kafka: SecuredKafka, listener: str, *, for_s: float = 0, **options: Any
) -> tuple[str | None, dict[str, float]]:
    """Asked for through a listener, again and again for so long; and what was counted."""
    settings = ClientSettings(
        bootstrap_servers=f"{HOST}:{kafka.ports[listener]}",
        **{
            "security_protocol": LISTENERS[listener],
            "ssl_cafile": str(kafka.authority.certificate),
            **options,
        },
    )

    async def main(runtime: OsRuntime) -> tuple[str | None, dict[str, float]]:
        async with Cluster.of(settings, runtime) as cluster:
            deadline = time.monotonic() + for_s
            view = await cluster.refresh(())
            while time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                view = await cluster.refresh(())
            return view.cluster_id, cluster.metrics.snapshot()

    return run(main)


PLAIN = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "secret"}
SCRAM_256 = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "bob", "sasl_password": "hush"}
SCRAM_512 = {**SCRAM_256, "sasl_mechanism": "SCRAM-SHA-512"}


def unsecured_token() -> str:
    """A token that Kafka takes where nothing else is set up: signed by nobody."""

    def part(content: dict[str, Any]) -> str:
        return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = time.time()
    claims = {"sub": "carol", "iat": now - 5, "exp": now + 300}
    return f"{part({'alg': 'none'})}.{part(claims)}."


OAUTH = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": unsecured_token}


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
@pytest.mark.parametrize(
    "who", [PLAIN, SCRAM_256, SCRAM_512, OAUTH], ids=lambda who: who["sasl_mechanism"]
)
def test_every_way_to_sign_in_works_with_and_without_tls(
    kafka: SecuredKafka, listener: str, who: dict[str, Any]
) -> None:
    assert cluster_id(kafka, listener, **who)[0]


def test_a_certificate_of_the_client_lets_it_in(kafka: SecuredKafka) -> None:
    own = {
        "ssl_certfile": str(kafka.client.certificate),
        "ssl_keyfile": str(kafka.client.key),
    }
    assert cluster_id(kafka, "TLS", **own)[0]


def test_without_the_certificate_that_it_wants_kafka_says_so(kafka: SecuredKafka) -> None:
    with pytest.raises(ClientError, match="certificate"):
        cluster_id(kafka, "TLS")


@pytest.mark.parametrize("who", [PLAIN, SCRAM_256], ids=lambda who: who["sasl_mechanism"])
def test_a_wrong_password_is_refused(kafka: SecuredKafka, who: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed, match=who["sasl_mechanism"]):
        cluster_id(kafka, "SASL", **{**who, "sasl_password": "guess"})


def test_a_session_is_renewed_while_it_is_used(kafka: SecuredKafka) -> None:
    found, counted = cluster_id(kafka, "SASL", for_s=3 * SESSION_MS / 1000, **SCRAM_512)
    assert found
    assert counted["connection-creation-total"] == 1


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [("TLS", "PLAINTEXT"), ("SASL", "PLAINTEXT"), ("SASL", "SSL"), ("SASLTLS", "SASL_PLAINTEXT")],
)
def test_the_wrong_protocol_for_a_listener_gives_a_hint(
    kafka: SecuredKafka, listener: str, protocol: str
) -> None:
    with pytest.raises(ClientError, match="security_protocol"):
        cluster_id(kafka, listener, **{**PLAIN, "security_protocol": protocol})


def test_a_certificate_that_nobody_trusts_is_refused(kafka: SecuredKafka) -> None:
    with pytest.raises(TlsFailed, match="certificate is not accepted"):
        cluster_id(kafka, "SASLTLS", **{**PLAIN, "ssl_cafile": None})


# The command line


def ottla(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "ottla"
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def jaas(module: str, user: str, password: str) -> str:
    return (
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
        f'    username="{user}" password="{password}";\n'
    )


PLAIN_FILE = "sasl.mechanism=PLAIN\n" + jaas("plain.PlainLoginModule", "alice", "secret")
SCRAM_FILE = "sasl.mechanism=SCRAM-SHA-512\n" + jaas("scram.ScramLoginModule", "bob", "hush")


@pytest.mark.parametrize(
    ("listener", "content"),
    [("SASL", PLAIN_FILE), ("SASLTLS", PLAIN_FILE), ("SASLTLS", SCRAM_FILE), ("TLS", "")],
)
def test_the_command_line_takes_a_file_of_kafkas_tools(
    kafka: SecuredKafka, tmp_path: Path, listener: str, content: str
) -> None:
    store = tmp_path / "client.pem"
    store.write_text(kafka.client.key.read_text() + kafka.client.certificate.read_text())
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol={LISTENERS[listener]}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={kafka.authority.certificate}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={store}\n{content}"
    )
    where = ("--bootstrap", f"{HOST}:{kafka.ports[listener]}", "--command-config", file)
    done = ottla("topics", "create", "secured", "--if-not-exists", *where)
    assert done.returncode == 0, done.stderr
    assert "secured" in ottla("topics", "list", *where).stdout


def test_the_command_line_takes_settings_one_by_one(kafka: SecuredKafka) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "bob",
        "sasl.password": "hush",
        "ssl.ca.location": kafka.authority.certificate,
        "bootstrap.servers": f"{HOST}:{kafka.ports['SASLTLS']}",
    }
    given = [word for pair in settings.items() for word in ("-X", f"{pair[0]}={pair[1]}")]
    done = ottla("cluster", *given)
    assert done.returncode == 0, done.stderr
    refused = ottla("cluster", *given, "-X", "sasl.password=guess")
    assert refused.returncode == 1
    assert "SCRAM-SHA-256" in refused.stderr
    plain = ottla("cluster", "--bootstrap", settings["bootstrap.servers"])
    assert "-X security.protocol" in plain.stderr
