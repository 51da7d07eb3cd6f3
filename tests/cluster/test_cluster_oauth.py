"""Three nodes that sign in to each other with OAUTHBEARER tokens, as processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from signing_nodes import Cluster, running

from identity_provider import AUDIENCE, ISSUER, SECRET, IdentityProvider
from ottla.blocking import Admin, Producer
from tls_files import Authority

pytestmark = pytest.mark.ottla_only

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LINE = "oauthbearer.sasl.jaas.config"
LISTENERS = ("sasl_plaintext", "controller")


def produce_for(seconds: float, cluster: Cluster, token: Callable[[], str]) -> None:
    """Write to all three nodes while their sessions expire."""
    client: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": token,
    }
    with Admin(**client) as admin:
        if "replicated" not in admin.list_topics():
            admin.create_topic("replicated", partitions=3, replication_factor=3)
    with Producer(acks="all", **client) as producer:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            producer.send_and_wait("replicated", b"x")
            time.sleep(0.1)


def test_nodes_sign_in_with_unsecured_tokens_again_and_again(tmp_path: Path) -> None:
    line = (
        f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="node" '
        'unsecuredLoginLifetimeSeconds="3";'
    )
    token = (
        # {"alg":"none"} {"sub":"admin","exp":4e9}
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImV4cCI6NGU5fQ."
    )
    options = {f"listener.name.{name}.{LINE}": line for name in LISTENERS}
    with running(tmp_path, "OAUTHBEARER", options) as cluster:
        cluster.await_ready()
        produce_for(7, cluster, lambda: token)
        output = "".join(node.output for node in cluster.nodes)
        assert "cannot sign in" not in output
        assert "could not sign in" not in output


def test_nodes_get_their_tokens_from_a_provider(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    context = authority.server_context(authority.sign("provider", "DNS:localhost"))
    line = f'{OAUTH_MODULE} required ssl.truststore.location="{authority.certificate}";'
    with IdentityProvider(context, lifetime_s=4) as provider:
        options = {f"listener.name.{name}.{LINE}": line for name in LISTENERS} | {
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "node",
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka all",
        }
        with running(tmp_path, "OAUTHBEARER", options) as cluster:
            cluster.await_ready()
            provider.publish("second")
            produce_for(2.5, cluster, lambda: provider.token("admin"))
            provider.current = "second"
            produce_for(6, cluster, lambda: provider.token("admin"))
            assert all(SECRET not in node.output for node in cluster.nodes)
    clients = {client for client, _ in provider.asked}
    scopes = {fields["scope"][0] for _, fields in provider.asked}
    assert (clients, scopes) == ({"node"}, {"kafka all"})
    assert len(provider.asked) < 60  # one token at a time for all connections by a listener
