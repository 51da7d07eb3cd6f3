"""The rules about ACLs, against a plain reading of all ACLs one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.acl_index import AclIndex, comparable_host
from ottla.security.acl_rules import (
    NAME_REMEMBERED_MAX,
    VERDICTS_MAX,
    AclRules,
    NotLoaded,
    Reason,
)
from ottla.security.acls import AccessControlEntry, AclFilter
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

TOPIC = ResourceType.TOPIC
ANN, BO = KafkaPrincipal("User", "ann"), KafkaPrincipal("User", "bo")
HOST = "10.0.0.7"
OPERATIONS = [
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
]
NAMES = ["*", "a", "ab", "abc", "b"]


def acl(
    name: str = "t",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    who: str = "User:ann",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> AccessControlEntry:
    return AccessControlEntry(kind, name, pattern, who, host, operation, permission)


def rules_of(*acls: AccessControlEntry, allow_if_no_acl: bool = False) -> AclRules:
    rules = AclRules({"User:root"}, allow_if_no_acl=allow_if_no_acl)
    put(rules, {bytes([number]): one for number, one in enumerate(acls)})
    rules.is_loaded = True
    return rules


def put(rules: AclRules, acls: dict[bytes, AccessControlEntry]) -> None:
    for _ in rules.change(acls):
        pass


def may(
    rules: AclRules,
    operation: Operation,
    name: str = "t",
    *,
    who: KafkaPrincipal = ANN,
    host: str = HOST,
) -> bool:
    return rules.verdict(who, host, operation, TOPIC, name).is_allowed


acls = st.builds(
    acl,
    st.sampled_from(NAMES),
    st.sampled_from(OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
    who=st.sampled_from(["User:ann", "User:bo", "User:*"]),
    host=st.sampled_from(["*", HOST, "10.0.0.8"]),
    pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
worlds = st.dictionaries(st.binary(min_size=1, max_size=1), acls, max_size=12)


def read_one_by_one(
    world: dict[bytes, AccessControlEntry], who: str, operation: Operation, name: str
) -> bool | None:
    """What a list of ACLs says, or None if none of them is about the resource."""
    implying = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    about = [
        one
        for one in world.values()
        if (
            name.startswith(one.resource_name)
            if one.pattern_type == PatternType.PREFIXED
            else one.resource_name in (name, "*")
        )
    ]
    for_caller = [
        one for one in about if one.principal in (who, "User:*") and one.host in ("*", HOST)
    ]
    named = {operation, Operation.ALL}
    denied = [
        o for o in for_caller if o.permission_type == Permission.DENY and o.operation in named
    ]
    enough = named | implying.get(operation, set())
    allowed = [
        o for o in for_caller if o.permission_type == Permission.ALLOW and o.operation in enough
    ]
    return None if not about else bool(allowed) and not denied


@given(first=worlds, then=worlds, allow_if_no_acl=st.booleans())
def test_the_index_says_what_the_acls_say_one_by_one(
    first: dict[bytes, AccessControlEntry],
    then: dict[bytes, AccessControlEntry],
    allow_if_no_acl: bool,
) -> None:
    # An id belongs to one ACL for ever.
    then = {acl_id: first.get(acl_id, one) for acl_id, one in then.items()}
    rules = rules_of(allow_if_no_acl=allow_if_no_acl)
    for world in (first, then, {}):
        put(rules, world)
        for who, operation, name in product((ANN, BO), OPERATIONS[1:], [*NAMES[1:], "abcd"]):
            expected = read_one_by_one(world, str(who), operation, name)
            wanted = allow_if_no_acl if expected is None else expected
            assert may(rules, operation, name, who=who) is wanted, (who, operation, name)
    assert len(rules._index) == 0
    assert not any(kind.prefix_lengths for kind in rules._index._types.values())


@given(first=worlds, then=worlds)
def test_while_acls_change_nobody_may_do_what_he_may_neither_before_nor_after(
    first: dict[bytes, AccessControlEntry], then: dict[bytes, AccessControlEntry]
) -> None:
    then = {acl_id: first.get(acl_id, one) for acl_id, one in then.items()}
    rules = rules_of()
    questions = [
        (operation, name)
        for operation, name in product(OPERATIONS[1:3], NAMES[1:])
        if not read_one_by_one(first, "User:ann", operation, name)
        and not read_one_by_one(then, "User:ann", operation, name)
    ]
    put(rules, first)
    for _ in rules.change(then):
        assert not any(may(rules, operation, name) for operation, name in questions)


def test_super_users_may_do_everything_also_before_the_acls_are_loaded() -> None:
    rules = AclRules({"User:root"})
    root = KafkaPrincipal("User", "root", token_authenticated=True)
    verdict = rules.verdict(root, HOST, Operation.DELETE, TOPIC, "t")
    assert (verdict.is_allowed, verdict.reason) == (True, Reason.SUPER_USER)
    for ask in (may, lambda rules, what: rules.verdict_on_any(ANN, HOST, what, TOPIC)):
        try:
            ask(rules, Operation.READ)
        except NotLoaded:
            continue
        raise AssertionError("it decided without the ACLs")


def test_super_users_may_do_what_is_denied_to_all() -> None:
    rules = rules_of(acl("*", Operation.ALL, Permission.DENY, who="User:*"))
    root = KafkaPrincipal("User", "root")
    assert may(rules, Operation.READ, who=root)
    assert rules.verdict_on_any(root, HOST, Operation.WRITE, TOPIC).is_allowed
    assert not may(rules, Operation.READ)


def test_denying_an_operation_does_not_deny_what_it_implies() -> None:
    rules = rules_of(acl(operation=Operation.WRITE), acl(permission=Permission.DENY))
    assert may(rules, Operation.DESCRIBE)
    assert not may(rules, Operation.READ)


def test_a_verdict_names_the_acl_that_decided() -> None:
    denial = acl("te", Operation.ALL, Permission.DENY, pattern=PatternType.PREFIXED, who="User:*")
    verdict = rules_of(acl("test"), denial).verdict(ANN, HOST, Operation.READ, TOPIC, "test")
    assert verdict.acl == denial
    assert verdict.rule == "deny User:* from * ALL on TOPIC prefixed te"
    assert rules_of().verdict(ANN, HOST, Operation.READ, TOPIC, "t").reason is Reason.NO_ACLS
    other = rules_of(acl(who="User:bo")).verdict(ANN, HOST, Operation.READ, TOPIC, "t")
    assert other.reason is Reason.NO_MATCH


def test_an_allowed_prefix_is_useless_under_a_denied_one() -> None:
    prefixed = PatternType.PREFIXED
    under = [
        acl("ab", Operation.WRITE, pattern=prefixed),
        acl("a", Operation.WRITE, Permission.DENY, pattern=prefixed),
    ]
    above = [
        acl("a", Operation.WRITE, pattern=prefixed),
        acl("ab", Operation.WRITE, Permission.DENY, pattern=prefixed),
    ]
    assert not rules_of(*under).verdict_on_any(ANN, HOST, Operation.WRITE, TOPIC).is_allowed
    assert rules_of(*above).verdict_on_any(ANN, HOST, Operation.WRITE, TOPIC).is_allowed


def test_ipv6_addresses_are_compared_however_they_are_written() -> None:
    rules = rules_of(acl(host="0:0:0:0:0:0:0:1"), acl("u", host="FE80::0:1"))
    assert may(rules, Operation.READ, host="::1")
    assert may(rules, Operation.READ, "u", host="fe80::1")
    assert not may(rules, Operation.READ, host="::2")
    assert comparable_host("no:address") == "no:address"


def test_decisions_are_remembered_within_a_bound() -> None:
    rules = rules_of(acl("", Operation.READ, pattern=PatternType.PREFIXED))
    for number in range(VERDICTS_MAX + 10):
        assert may(rules, Operation.READ, f"t{number}")
    assert len(rules.known) <= VERDICTS_MAX
    known = rules.verdict(ANN, HOST, Operation.READ, TOPIC, "t1")
    assert rules.verdict(ANN, HOST, Operation.READ, TOPIC, "t1") is known
    put(rules, {})
    assert not may(rules, Operation.READ, "t1")


def test_decisions_about_endless_names_are_not_remembered() -> None:
    rules = rules_of(acl("", Operation.READ, pattern=PatternType.PREFIXED))
    assert may(rules, Operation.READ, "t" * NAME_REMEMBERED_MAX)
    assert len(rules.known) == 1
    assert may(rules, Operation.READ, "t" * (NAME_REMEMBERED_MAX + 1))
    assert not may(rules, Operation.READ, who=KafkaPrincipal("User", "u" * 30_000))
    assert len(rules.known) == 1


def test_removing_an_acl_leaves_its_twin() -> None:
    index = AclIndex()
    index.add(b"1", acl())
    index.add(b"2", acl())
    index.remove(b"1", acl())
    assert index.find("User:ann", HOST, Operation.READ, TOPIC, "t").acl == acl()


def test_a_filter_for_one_acl_names_it() -> None:
    one = acl()
    assert AclFilter(*one).exact == one
    for field, loose in (
        ("resource_type", ResourceType.ANY),
        ("resource_name", None),
        ("pattern_type", PatternType.MATCH),
        ("principal", None),
        ("host", None),
        ("operation", Operation.ANY),
        ("permission_type", Permission.ANY),
    ):
        asked = AclFilter(*one)._replace(**{field: loose})
        assert asked.exact is None
        assert asked.matches(one)
