"""Random ACLs and questions to the rules of Ottla and to Kafka's StandardAuthorizer itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from bench.brokers import run_java

from ottla.security.acl_rules import AclRules
from ottla.security.acls import AccessControlEntry, AclFilter
from ottla.security.principal import KafkaPrincipal
from ottla.security.rights import Operation, PatternType, Permission, ResourceType

pytestmark = pytest.mark.ottla_only

SOURCE = Path(__file__).parent / "java" / "AuthorizerOracle.java"
NAMES = ["*", "a", "ab", "abc", "abd", "b", "a*", "orders", "orders-eu", "ördnung"]
PREFIXES = ["*", "a", "ab", "abc", "o", "orders", "orders-", "ö", "hard"]
USERS = ["ann", "bo", "root"]
HOSTS = ["127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1"]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]
OPERATIONS = [one for one in Operation if one > Operation.ANY]
WORLDS = 150
QUESTIONS = 40


class World:
    """Some ACLs, and questions with what Ottla says."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.allow_if_no_acl = chance.random() < 0.3
        self.acls = {self._acl(): None for _ in range(chance.choice([0, 1, 3, 10, 30]))}
        self.lines = [f"new\tUser:root\t{str(self.allow_if_no_acl).lower()}"]
        self.lines += [f"add\t{tabbed(acl)}" for acl in self.acls]
        self.said: list[str] = []
        self.rules = AclRules({"User:root"}, allow_if_no_acl=self.allow_if_no_acl)
        self.rules.is_loaded = True
        known = {number.to_bytes(2, "big"): acl for number, acl in enumerate(self.acls)}
        for _ in self.rules.change(known):
            pass

    def _acl(self) -> AccessControlEntry:
        chance = self.chance
        pattern = chance.choice([PatternType.LITERAL, PatternType.PREFIXED])
        return AccessControlEntry(
            chance.choice(TYPES),
            chance.choice(NAMES if pattern is PatternType.LITERAL else PREFIXES),
            pattern,
            f"User:{chance.choice([*USERS, '*'])}",
            chance.choice([*HOSTS, "*", "*"]),
            chance.choice([Operation.ALL, Operation.READ, Operation.WRITE, *OPERATIONS]),
            chance.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )

    def ask(self) -> None:
        chance = self.chance
        kind, user, host = chance.choice(TYPES), chance.choice(USERS), chance.choice(HOSTS)
        operation = chance.choice(OPERATIONS[1:])
        principal = KafkaPrincipal("User", user)
        here = "::1" if ":" in host else host
        if chance.random() < 0.7:
            name = chance.choice(NAMES)
            self.lines.append(f"may\t{principal}\t{host}\t{operation:d}\t{kind:d}\t{name}")
            verdict = self.rules.verdict(principal, here, operation, kind, name)
        else:
            self.lines.append(f"any\t{principal}\t{host}\t{operation:d}\t{kind:d}")
            verdict = self.rules.verdict_on_any(principal, here, operation, kind)
        self.said.append("ALLOWED" if verdict.is_allowed else "DENIED")

    def find(self) -> None:
        chance = self.chance
        asked = AclFilter(
            chance.choice([ResourceType.ANY, *TYPES]),
            chance.choice([None, *NAMES]),
            chance.choice(
                [PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]
            ),
            chance.choice([None, "User:ann", "User:*"]),
            chance.choice([None, None, "*", "10.0.0.7"]),
            chance.choice([Operation.ANY, Operation.ANY, Operation.ALL, Operation.READ]),
            chance.choice([Permission.ANY, Permission.ANY, Permission.DENY]),
        )
        self.lines.append(f"find\t{tabbed(asked)}")
        found = sorted("|".join(map(plain, acl)) for acl in self.acls if asked.matches(acl))
        self.said.append(" ".join(found))


def plain(value: object) -> str:
    if value is None:
        return "-"
    return str(int(value)) if isinstance(value, int) else str(value)


def tabbed(words: tuple[object, ...]) -> str:
    return "\t".join(map(plain, words))


@pytest.mark.timeout(120)
def test_the_rules_are_those_of_kafkas_authorizer(kafka_libs: Path, tmp_path: Path) -> None:
    compiler = ["javac", "-cp", f"{kafka_libs}/*", "-d", str(tmp_path), str(SOURCE)]
    subprocess.run(compiler, check=True, capture_output=True, timeout=100)
    worlds = [World(seed) for seed in range(WORLDS)]
    for world in worlds:
        for _ in range(QUESTIONS):
            world.ask()
        for _ in range(QUESTIONS // 5):
            world.find()
    lines = "\n".join(line for world in worlds for line in world.lines)
    oracle = [
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        f"{kafka_libs}/*:{tmp_path}",
    ]
    answers = run_java(kafka_libs, *oracle, "AuthorizerOracle", stdin=lines).stdout.split("\n")
    place = 0
    for seed, world in enumerate(worlds):
        asked = [line for line in world.lines if line.split("\t")[0] in ("may", "any", "find")]
        for line, said in zip(asked, world.said, strict=True):
            setting = [one for one in world.lines if one not in asked]
            assert said == answers[place], (seed, line, setting)
            place += 1
    assert {"ALLOWED", "DENIED"} <= set(answers)
