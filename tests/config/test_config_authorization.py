"""Settings of the authorizer."""

from __future__ import annotations

import pytest

from ottla.config.authorization import STANDARD_AUTHORIZER
from ottla.config.broker import BrokerConfig
from ottla.config.errors import ConfigError

ON = {"authorizer.class.name": STANDARD_AUTHORIZER}
CONTROLLER = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


def test_without_a_class_there_is_no_authorizer() -> None:
    assert BrokerConfig.parse({"super.users": "User:root"}).authorization is None


def test_super_users_are_separated_by_semicolons() -> None:
    given = {**ON, "super.users": " User:CN=a,O=b ;User:root;; "}
    found = BrokerConfig.parse(given).authorization
    assert found is not None
    assert found.super_users == {"User:CN=a,O=b", "User:root"}
    assert not found.allow_if_no_acl


@pytest.mark.parametrize(
    ("value", "allows"), [("true", True), (" TRUE ", True), ("false", False), ("yes", False)]
)
def test_only_true_opens_resources_without_acls(value: str, allows: bool) -> None:
    found = BrokerConfig.parse({**ON, "allow.everyone.if.no.acl.found": value}).authorization
    assert found is not None
    assert found.allow_if_no_acl is allows


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"authorizer.class.name": "org.example.Mine"},
            f"authorizer.class.name: the only authorizer here is {STANDARD_AUTHORIZER}",
        ),
        ({**ON, "super.users": "User:a;root"}, "Invalid value root for configuration super.users"),
        (
            {"principal.builder.class": "x.Y"},
            "principal.builder.class: the only class here is org.",
        ),
        (
            {"listener.name.a.principal.builder.class": "x.Y"},
            "listener.name.a.principal.builder.class: the only class here is org.",
        ),
        ({"early.start.listeners": "NONE"}, "configuration early.start.listeners: must be one of"),
    ],
)
def test_a_setting_that_cannot_be_obeyed_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=r".") as refused:
        BrokerConfig.parse(settings)
    assert message in str(refused.value)


def test_listeners_of_controllers_start_early_unless_others_are_named() -> None:
    assert BrokerConfig.parse({**ON, **CONTROLLER}).controllers_start_early
    named = {"early.start.listeners": "controller"}
    assert BrokerConfig.parse({**ON, **CONTROLLER, **named}).controllers_start_early
    others = {"early.start.listeners": "PLAINTEXT"}
    assert not BrokerConfig.parse({**ON, **CONTROLLER, **others}).controllers_start_early
    assert BrokerConfig.parse({**CONTROLLER, **others}).controllers_start_early


def test_listeners_are_exposed_only_if_who_did_not_sign_in_may_do_something() -> None:
    listens = {"listeners": "PLAINTEXT://:9092"}
    assert BrokerConfig.parse(listens).exposed_listeners
    assert not BrokerConfig.parse({**ON, **listens}).exposed_listeners
    anonymous = {"super.users": "User:ANONYMOUS"}
    assert BrokerConfig.parse({**ON, **listens, **anonymous}).exposed_listeners


def test_the_settings_of_the_authorizer_have_an_effect_only_with_it() -> None:
    users = {"super.users": "User:root"}
    assert BrokerConfig.parse({**ON, **users}).unused_warnings() == []
    assert "super.users" in "".join(BrokerConfig.parse(users).unused_warnings())
