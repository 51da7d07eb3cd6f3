"""The `sasl.*` keys of a listener: which value is in force, and what is refused."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.security.oauth_login import TokenEndpoint
from ottla.security.oauth.unsecured import UnsecuredTokens

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required "
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
CLIENTS = {
    "listeners": "CLIENTS://127.0.0.1:9092,LAN://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,LAN:PLAINTEXT",
    "inter.broker.listener.name": "LAN",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
}
CLUSTER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN + 'user_a="hush";',
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        SCRAM + 'username="node" password="hush";'
    ),
    "listener.name.controller.plain.sasl.jaas.config": (
        PLAIN + 'username="node" password="hush" user_node="hush";'
    ),
}


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.parse(given)
    assert "hush" not in str(caught.value)
    return str(caught.value)


def test_a_listener_has_its_own_mechanisms_and_bounds() -> None:
    own = {
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
        "listener.name.clients.sasl.server.max.receive.size": "1000",
        "listener.name.clients.plain.sasl.jaas.config": PLAIN + 'user_a="hush" user_b="b";',
    }
    config = BrokerConfig.parse(CLIENTS | own)
    settings = config.sasl_of("CLIENTS")
    assert settings.mechanisms == ("SCRAM-SHA-256", "PLAIN")
    assert settings.receive_bytes_max == 1000
    assert settings.plain_users == {"a": "hush", "b": "b"}
    assert "hush" not in repr(settings)
    assert config.unused_warnings() == []
    assert BrokerConfig.parse(CLIENTS).sasl_of("CLIENTS").mechanisms == ("SCRAM-SHA-512",)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "expected some of PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI, the default, needs it, such as"),
        ({"sasl.enabled.mechanisms": ""}, "needs a mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "clients.plain.sasl.jaas.config: set it, such as"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": SCRAM + 'user_a="hush";',
            },
            "expected the login module",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": PLAIN + 'user_a="hush"',
            },
            "not terminated by semi-colon",
        ),
    ],
)
def test_a_sign_in_that_cannot_work_is_refused(changes: dict[str, str], part: str) -> None:
    assert part in refusal(CLIENTS | changes)


def test_nodes_sign_in_with_what_the_listener_between_them_says() -> None:
    config = BrokerConfig.parse(CLUSTER)
    brokers, controllers = config.login_of("SASL_PLAINTEXT"), config.login_of("CONTROLLER")
    assert brokers is not None
    assert (brokers.mechanism, brokers.user, brokers.password) == ("SCRAM-SHA-256", "node", "hush")
    assert controllers is not None
    assert controllers.mechanism == "PLAIN"
    assert "hush" not in repr(brokers)


TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        OAUTH + 'unsecuredLoginStringClaim_sub="node" unsecuredLoginLifetimeSeconds="60";'
    ),
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
}


def test_nodes_may_sign_in_with_unsecured_tokens() -> None:
    login = BrokerConfig.parse(CLUSTER | TOKENS).login_of("SASL_PLAINTEXT")
    assert login is not None
    assert login.mechanism == "OAUTHBEARER"
    assert isinstance(login.tokens, UnsecuredTokens)
    assert (login.tokens.claims, login.tokens.lifetime_s) == ({"sub": "node"}, 60)


def test_nodes_may_get_their_tokens_from_a_provider_that_one_listener_names() -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
    own = {
        f"{prefix}.oauthbearer.token.endpoint.url": "https://login.example/token",
        f"{prefix}.login.read.timeout.ms": "700",
        f"{prefix}.jaas.config": OAUTH + 'clientId="node" clientSecret="hush";',
    }
    config = BrokerConfig.parse(CLUSTER | TOKENS | own)
    assert config.unused_warnings() == []
    login = config.login_of("SASL_PLAINTEXT")
    assert login is not None
    assert isinstance(login.tokens, TokenEndpoint)
    assert login.tokens.url == "https://login.example/token"
    assert (login.tokens.client_id, login.tokens.client_secret) == ("node", "hush")
    assert (login.tokens.read_ms, login.tokens.connect_ms) == (700, 10_000)
    assert "hush" not in repr(login)
    bare = own | {f"{prefix}.jaas.config": OAUTH + 'clientSecret="hush";'}
    assert "client.credentials.client.id: must be set" in refusal(CLUSTER | TOKENS | bare)
    url = {f"{prefix}.oauthbearer.token.endpoint.url": "ldap://x"}
    assert f"{prefix}.oauthbearer.token.endpoint.url: expected" in refusal(CLUSTER | TOKENS | url)


PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OF_CLIENTS = "listener.name.clients"
SIGNED = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example/keys",
    "sasl.oauthbearer.expected.issuer": "i",
    "sasl.oauthbearer.expected.audience": "a",
}


def test_kafkas_own_classes_may_be_named() -> None:
    handler = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
    own = {
        f"{OF_CLIENTS}.oauthbearer.sasl.server.callback.handler.class": handler,
        f"{OF_CLIENTS}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
        "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.BrokerJwtValidator",
    }
    config = BrokerConfig.parse(CLIENTS | SIGNED | own)
    assert config.sasl_of("CLIENTS").oauth is not None
    assert config.unused_warnings() == []
    prefix = "listener.name.sasl_plaintext"
    fetching = {
        f"{prefix}.oauthbearer.sasl.login.callback.handler.class": (
            f"{PACKAGE}.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.token.endpoint.url": "file:/run/token",
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
    }
    login = BrokerConfig.parse(CLUSTER | TOKENS | fetching).login_of("SASL_PLAINTEXT")
    assert login is not None
    assert isinstance(login.tokens, TokenEndpoint)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"sasl.enabled.mechanisms": "PLAIN", f"{OF_CLIENTS}.plain.{{server}}": "com.acme.Ldap"},
            "com.acme.Ldap for configuration listener.name.clients.plain.sasl.server.callback",
        ),
        ({f"{OF_CLIENTS}.scram-sha-512.{{server}}": "com.acme.Vault"}, "cannot run here"),
        (SIGNED | {f"{OF_CLIENTS}.oauthbearer.{{server}}": "io.strimzi.X"}, "leave it out, or"),
        (
            SIGNED
            | {
                f"{OF_CLIENTS}.oauthbearer.{{server}}": (
                    f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
                )
            },
            "tokens without a signature: delete it, or",
        ),
        (SIGNED | {"sasl.oauthbearer.jwt.validator.class": "com.acme.V"}, "DefaultJwtValidator"),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{OF_CLIENTS}.oauthbearer.sasl.jaas.config": f"{OAUTH};",
                f"{OF_CLIENTS}.oauthbearer.{{server}}": (
                    f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
                ),
            },
            "set sasl.oauthbearer.jwks.endpoint.url",
        ),
    ],
)
def test_classes_that_cannot_run_are_refused_at_listeners(
    changes: dict[str, str], part: str
) -> None:
    named = {
        name.format(server="sasl.server.callback.handler.class"): value
        for name, value in changes.items()
    }
    assert part in refusal(CLIENTS | named)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"{own}.sasl.login.callback.handler.class": "com.acme.L"},
            "OAuthBearerLoginCallbackHandl",
        ),
        ({"{own}.sasl.login.class": "com.acme.L"}, "DefaultLogin"),
        ({"sasl.client.callback.handler.class": "com.acme.C"}, "cannot run here"),
        (
            {
                "{own}.sasl.login.callback.handler.class": (
                    f"{PACKAGE}.OAuthBearerLoginCallbackHandler"
                )
            },
            "token.endpoint.url: must say where tokens are had",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
            },
            "must be the address of a file",
        ),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            },
            "cannot run here",
        ),
    ],
)
def test_classes_that_cannot_run_are_refused_between_nodes(
    changes: dict[str, str], part: str
) -> None:
    own = "listener.name.sasl_plaintext.oauthbearer"
    named = {name.format(own=own): value for name, value in changes.items()}
    assert part in refusal(CLUSTER | TOKENS | named)


def test_nodes_cannot_sign_in_unsecured_where_tokens_must_be_signed() -> None:
    assert "sasl.oauthbearer.token.endpoint.url" in refusal(CLUSTER | TOKENS | SIGNED)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("", "unsecuredLoginStringClaim_sub: must say as whom"),
        ('unsecuredLoginStringClaim_sub=" "', "unsecuredLoginStringClaim_sub: must say as whom"),
        (
            'unsecuredLoginStringClaim_sub="a" unsecuredLoginPrincipalClaimName="name"',
            "unsecuredLoginStringClaim_name: must say as whom",
        ),
        ('unsecuredLoginNumberClaim_exp="1"', "the claim exp is computed"),
        ('unsecuredLoginNumberClaim_a="one"', "unsecuredLoginNumberClaim_a: expected a number"),
        (
            'unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="1h"',
            "expected a number of seconds",
        ),
    ],
)
def test_options_of_unsecured_tokens_that_cannot_be_used_are_refused(
    options: str, part: str
) -> None:
    line = {"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH + options + ";"}
    assert part in refusal(CLUSTER | TOKENS | line)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "CRAM"}, "expected one of PLAIN"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "other mechanisms are PLAIN"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "must be included in sasl.enabled.mechanisms"),
        ({"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"}, "controllers elect a leader"),
        (
            {"listener.name.controller.plain.sasl.jaas.config": PLAIN + 'user_node="hush";'},
            "username and password, which are missing",
        ),
    ],
)
def test_nodes_that_could_not_sign_in_are_refused(changes: dict[str, str], part: str) -> None:
    assert part in refusal(CLUSTER | changes)


def test_a_node_alone_needs_no_password_for_others() -> None:
    BrokerConfig.parse(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        }
    )
