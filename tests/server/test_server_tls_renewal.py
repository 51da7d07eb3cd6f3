"""Keys and certificates that are renewed while the broker runs."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from bench.brokers import HOST, free_port

from broker_wire import Wire
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tls_broker import TlsBroker, TlsFolder, TlsWire
from tls_files import Certificate

pytestmark = pytest.mark.ottla_only

PREFIX = "listener.name.ssl.ssl."
RENEWAL_S_MAX = 30


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(files: TlsFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("broker"), files.options())
    try:
        broker.start()
        yield broker
        assert "Traceback" not in broker.output
        assert broker.stop() == 0
    finally:
        broker.remove()


def shown_by(port: int, files: TlsFolder) -> bytes | None:
    """Return the certificate that a new connection gets."""
    wire = TlsWire(port, files.client_context())
    try:
        return wire.secured.getpeercert(binary_form=True)
    finally:
        wire.socket.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RENEWAL_S_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alter(broker: TlsBroker, **configs: str | None) -> tuple[int, str]:
    """Set configs of this broker, or remove those that are None; the error and its message."""
    return change(broker, {PREFIX + name.replace("_", "."): configs[name] for name in configs})


def change(broker: TlsBroker, configs: Mapping[str, str | None]) -> tuple[int, str]:
    wanted = [
        AlterableConfig(name=name, config_operation=int(value is None), value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=wanted)
    wire = Wire(broker)
    (result,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    wire.socket.close()
    return result.error_code, result.error_message or ""


def pem(made: Certificate) -> tuple[str, str]:
    return made.key.read_text(), made.certificate.read_text()


def test_a_renewed_file_is_used_for_new_connections(secured: TlsBroker, files: TlsFolder) -> None:
    before = shown_by(secured.tls_port, files)
    lasting = TlsWire(secured.tls_port, files.client_context())
    files.store("broker")
    eventually(lambda: shown_by(secured.tls_port, files) != before)
    assert lasting.ask(ApiVersionsRequest(), 2).error_code == 0
    lasting.socket.close()
    assert "TLS of a listener renewed" in secured.output


def test_a_file_of_somebody_else_changes_nothing_and_is_logged(
    secured: TlsBroker, files: TlsFolder
) -> None:
    good = files.broker_store.read_text()
    before = shown_by(secured.tls_port, files)
    for text, part in (
        (files.client_store.read_text(), "for CN=client, that in use for CN=broker"),
        ("cut off", "has no private key"),
    ):
        files.broker_store.write_text(text)
        eventually(lambda part=part: part in secured.output)  # type: ignore[misc]
        assert shown_by(secured.tls_port, files) == before
    files.broker_store.write_text(good)


def test_altering_the_location_to_the_same_path_reads_the_file_again(
    secured: TlsBroker, files: TlsFolder
) -> None:
    path = str(files.broker_store)
    assert alter(secured, keystore_location=path) == (0, "")
    before = shown_by(secured.tls_port, files)
    files.store("broker")
    assert alter(secured, keystore_location=path) == (0, "")
    assert shown_by(secured.tls_port, files) != before
    assert alter(secured, keystore_location=None) == (0, "")


def test_what_the_listener_could_not_use_is_refused_and_not_stored(
    secured: TlsBroker, files: TlsFolder
) -> None:
    other = str(files.store("other"))
    fewer_names = files.joined("fewer", files.authority.sign("broker", "DNS:localhost"))
    before = shown_by(secured.tls_port, files)
    for path, part in (
        ("/nowhere.pem", "cannot read /nowhere.pem"),
        (files.ca, "has no private key"),
        (other, "for CN=other, that in use for CN=broker; ssl.allow.dn.changes=true"),
        (str(fewer_names), "ssl.allow.san.changes=true"),
    ):
        code, message = alter(secured, keystore_location=path)
        assert code == ErrorCode.INVALID_REQUEST
        assert part in message
    assert shown_by(secured.tls_port, files) == before
    assert alter(secured, keystore_location=other, allow_dn_changes="true") == (0, "")
    assert shown_by(secured.tls_port, files) != before
    assert alter(secured, keystore_location=None) == (0, "")
    assert alter(secured, allow_dn_changes=None) == (0, "")


def test_certificates_may_come_as_text_and_are_never_shown(
    secured: TlsBroker, files: TlsFolder
) -> None:
    key, chain = pem(files.authority.sign("inline", f"DNS:localhost,IP:{HOST}"))
    text = {"keystore_key": key, "keystore_certificate_chain": chain, "allow_dn_changes": "true"}
    path = str(files.broker_store)
    code, message = alter(secured, **text, keystore_location=path)
    assert (code, "not both" in message) == (ErrorCode.INVALID_REQUEST, True)
    assert alter(secured, **text, keystore_location="") == (0, "")
    assert chain.split()[3] in _as_pem(shown_by(secured.tls_port, files))
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    wire = Wire(secured)
    (described,) = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    wire.socket.close()
    told = {config.name: config.value for config in described.configs}
    assert told[f"{PREFIX}keystore.key"] is None
    assert key.split()[4] not in secured.output
    stored = ("keystore_location", "keystore_key", "keystore_certificate_chain")
    assert alter(secured, **dict.fromkeys(stored)) == (0, "")
    assert alter(secured, allow_dn_changes=None) == (0, "")


def _as_pem(certificate: bytes | None) -> str:
    return ssl.DER_cert_to_PEM_cert(certificate or b"")


class Plain(TlsBroker):
    """Begins without a TLS listener."""

    def command(self) -> list[str]:
        return [*super(TlsBroker, self).command(), "--log-level", "info"]


def test_a_listener_with_tls_can_be_added_to_a_broker_without(
    files: TlsFolder, tmp_path: Path
) -> None:
    port = free_port()
    broker = Plain(tmp_path / "broker", {})
    try:
        broker.start()
        names = {name.removeprefix("ssl."): value for name, value in files.options().items()}
        listeners = f"PLAINTEXT://{broker.address},SSL://{HOST}:{port}"
        wanted = {PREFIX + name: value for name, value in names.items()}
        wanted |= {"listeners": listeners}
        assert change(broker, wanted) == (0, "")
        eventually(lambda: "listener opened" in broker.output)
        wire = TlsWire(port, files.client_context())
        assert wire.ask(ApiVersionsRequest(), 2).error_code == 0
        wire.socket.close()
        assert broker.stop() == 0
    finally:
        broker.remove()
