"""The tables of keys agree with Kafka's, and with each other."""

import re
import subprocess
import sys
from pathlib import Path

import ottla.config
from ottla.config.definitions import BROKER_KEYS
from ottla.config.definitions.group import KEYS as GROUP_KEYS
from ottla.config.definitions.topic import KEYS as TOPIC_KEYS
from ottla.config.group import GROUP_SYNONYMS
from ottla.config.synonyms import BROKER_SYNONYMS, TOPIC_SYNONYMS
from ottla.config.updates import READ_ONLY, UPDATE_MODES
from ottla.config.used import USED
from ottla.config.values import ConfigType

FACTS = Path(__file__).with_name("kafka_4_3_keys.txt")


def test_names_types_and_defaults_are_those_of_kafka_4_3() -> None:
    tables = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS}
    ours = {
        f"{table} {key.name} {key.type.name} {key.default_text}"
        for table, keys in tables.items()
        for key in keys.values()
    }
    theirs = set(FACTS.read_text().splitlines())
    assert ours ^ theirs == set()


def test_every_default_but_an_absent_one_passes_its_own_limit() -> None:
    for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        if key.default is not None:
            assert key.parse(key.default_text or "") == key.default, key.name


def test_every_key_is_documented_in_a_sentence() -> None:
    for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        assert key.doc.endswith("."), key.name


def test_other_tables_name_only_keys_that_exist() -> None:
    behind = {s.name for synonyms in TOPIC_SYNONYMS.values() for s in synonyms}
    strongest = {s.name for synonyms in BROKER_SYNONYMS.values() for s in synonyms}
    named = USED | set(UPDATE_MODES) | behind | strongest | set(GROUP_SYNONYMS.values())
    assert named - set(BROKER_KEYS) == set()
    assert set(TOPIC_SYNONYMS) - set(TOPIC_KEYS) == set()


def test_a_key_counts_as_used_exactly_when_some_code_reads_it() -> None:
    source = Path(ottla.config.__file__).parents[1]
    tables = {"used.py", "updates.py", "names.py"}
    read: set[str] = set()
    for path in source.rglob("*.py"):
        if path.name not in tables and path.parent.name != "definitions":
            read |= set(re.findall(r'"([a-z]+(?:\.[a-z0-9]+)*)"', path.read_text()))
    # Names that config/group.py puts together: what groups may set for themselves, and its bounds.
    for name in ("session.timeout", "heartbeat.interval", "assignment.interval"):
        read |= {f"group.consumer.{bound}{name}.ms" for bound in ("", "min.", "max.")}
    outside = {
        name
        for path in source.rglob("*.py")
        if "config" not in path.relative_to(source).parts
        for name in re.findall(r'config\["([a-z0-9.]+)"\]', path.read_text())
    }
    assert USED - read == set(), "no code reads these: take them out of USED"
    assert outside - USED == set(), "code reads these: add them to USED"


def test_passwords_are_sensitive_and_nothing_else_is() -> None:
    sensitive = {key.name for key in BROKER_KEYS.values() if key.sensitive}
    assert "ssl.keystore.password" in sensitive
    assert {BROKER_KEYS[name].type for name in sensitive} == {ConfigType.PASSWORD}


def test_keys_know_whether_they_can_change_while_the_broker_runs() -> None:
    assert BROKER_KEYS["log.dirs"].update_mode == READ_ONLY
    assert BROKER_KEYS["listeners"].update_mode == "per-broker"
    assert BROKER_KEYS["log.retention.ms"].update_mode == "cluster-wide"


def test_the_configuration_is_imported_without_heavy_modules() -> None:
    program = "import sys, ottla.config.topic; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "ottla.config.broker" in loaded
    heavy = {"asyncio", "difflib", "ipaddress", "socket", "json", "typer", "rich"}
    assert heavy & set(loaded) == set()
