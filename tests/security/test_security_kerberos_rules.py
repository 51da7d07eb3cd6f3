"""Rules from Kerberos principals to users, as Kafka's."""

from __future__ import annotations

import pytest

from ottla.security.kerberos_rules import BadRule, KerberosRules, NoRuleApplies

REALM = "EXAMPLE.COM"


def name(principal: str, *rules: str) -> str:
    return KerberosRules.parse(rules or ("DEFAULT",)).name_of(principal, REALM)


# From Kafka's own KerberosNameTest and KerberosRuleTest.
KAFKAS = (
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@EXAMPLE.COM", (), "alice"),
        ("kafka/host@EXAMPLE.COM", (), "kafka"),
        ("alice", (), "alice"),
        ("App.service-name/example.com@REALM.COM", KAFKAS, "service-name"),
        ("App.service-name@REALM.COM", KAFKAS, "service-name"),
        ("user/host@EXAMPLE.COM", KAFKAS, "user"),
        ("User@REALM.COM", ("RULE:[1:$1]/L",), "user"),
        ("TestABC/host@FOO.COM", ("RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L", "RULE:[2:$1]/L"), "testabc"),
        ("User@REALM.COM", ("RULE:[1:$1]/U",), "USER"),
        ("user@REALM.COM", ("RULE:[1:$1.$0]",), "user.REALM.COM"),
        ("a.b.c@REALM.COM", (r"RULE:[1:$1]s/\./-/g",), "a-b-c"),
        ("a.b.c@REALM.COM", (r"RULE:[1:$1]s/\./-/",), "a-b.c"),
        ("a.b@REALM.COM", (r"RULE:[1:$1]s/(?<x>.)\.(.)/$2\$${x}$11/",), "b$aa1"),
        ("user@REALM.COM", ("RULE:[1:$1@$0](.*@REALM.COM)s/@.*//",), "user"),
        ("user@REALM.COM", ("RULE:[1:$1](u)", "RULE:[1:fixed]"), "fixed"),
    ],
)
def test_the_first_rule_that_applies_gives_the_name(
    principal: str, rules: tuple[str, ...], expected: str
) -> None:
    assert name(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules", "part"),
    [
        ("alice@OTHER.COM", (), "applies to alice@OTHER.COM"),
        ("a/b/c@EXAMPLE.COM", (), "Malformed Kerberos name"),
        ("a@b@EXAMPLE.COM", (), "Malformed Kerberos name"),
        ("alice@OTHER.COM", ("RULE:[1:$1@$0]",), "Non-simple name alice@OTHER.COM"),
        ("kafka/host@OTHER.COM", ("RULE:[1:$1]",), "applies to kafka/host"),
        ("alice@OTHER.COM", ("RULE:[2:$3]", "RULE:[1:$2]"), "outside of"),
        ("alice@OTHER.COM", ("RULE:[1:$]",), "outside of"),
        ("alice@OTHER.COM", ("RULE:[1:$1]s/a/$1/",), "No group 1"),
        ("alice@OTHER.COM", ("RULE:[1:$1]s/a/${n}/",), "No group with name n"),
        ("alice@OTHER.COM", ("RULE:[1:$1]s/a/$x/",), "a lone"),
    ],
)
def test_a_principal_without_a_name_is_refused(
    principal: str, rules: tuple[str, ...], part: str
) -> None:
    with pytest.raises(NoRuleApplies, match=part):
        name(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    ["", "default", "RULE:[:$1]", "RULE:[1:$1](", "RULE:[1:$1]/l",
     "RULE:[1:$1]/L/g", "RULE:[1:$1](()", "RULE:[1:$1]s/a/", "RULE:[1:$1]s/(/b/", "DEFAULT/L"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(BadRule):
        KerberosRules.parse([rule])
