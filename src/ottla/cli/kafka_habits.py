"""Translates options of Kafka's own tools into Ottla's.

`ottla topics --create --topic orders` does what its user means. These spellings are not in the
help, which shows one way to do a thing. If an option has no counterpart, an error says what to
write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

Words = list[str]
Habit = str | Words | Callable[[str], Words]
"""Ottla's option with the same value; the words to write instead of a flag; or a function from the
value to those words."""

COMMON: Final[Mapping[str, Habit]] = {
    "--bootstrap-server": "--bootstrap",
    "--bootstrap-servers": "--bootstrap",
    "--broker-list": "--bootstrap",
    "--command-property": "-X",
    "--consumer-property": "-X",
    "--producer-property": "-X",
    "--consumer-config": "--command-config",
    "--consumer.config": "--command-config",
    "--producer-config": "--command-config",
    "--producer.config": "--command-config",
}

ARGUMENTS: Final[Mapping[str, str]] = {
    "--topic": "TOPIC",
    "--group": "GROUP",
    "--hmac": "HMAC",
    "--transactional-id": "TRANSACTIONAL_ID",
    "--id": "BROKER",
}
"""Options whose value is an argument in Ottla, and how the argument's metavar begins."""


def _isolation(level: str) -> Words:
    return ["--committed"] if level == "read_committed" else []


def _election(kind: str) -> Words:
    return ["--unclean"] if kind.lower() == "unclean" else []


def _moment(time: str) -> Words:
    named = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp", "-4": "earliest"}
    if time not in named and time.startswith("-"):
        raise UnknownHabit(
            f"--time {time}: nothing is tiered here; use -1 (latest), -2 (earliest), -3 (largest "
            "timestamp), -4 (earliest on disk) or a time"
        )
    return ["--at", named.get(time, f"@{time}" if time.isdigit() else time)]


def _each(option: str) -> Callable[[str], Words]:
    return lambda names: [word for name in names.split(",") for word in (option, name)]


def _pairs(option: str) -> Callable[[str], Words]:
    """Split Kafka's `a=1,b=[x,y]`: commas inside brackets belong to the value."""
    return lambda text: [word for pair in split_pairs(text) for word in (option, pair)]


def split_into_words(text: str) -> Words:
    return text.split(",")


def split_pairs(text: str) -> Iterable[str]:
    pair, is_list = "", False
    for part in text.split(","):
        pair = f"{pair},{part}" if is_list else part
        is_list = "[" in pair and "]" not in pair
        if not is_list:
            key, equals, value = pair.partition("=")
            yield f"{key}{equals}{value.removeprefix('[').removesuffix(']')}"
    if is_list:
        yield pair


_ACLS: Final[Mapping[str, Habit]] = {
    "--allow-principal": "--allow",
    "--deny-principal": "--deny",
    "--resource-pattern-type": "--pattern",
    "--user-principal": "--user-resource",
}

HABITS: Final[Mapping[str, Mapping[str, Habit]]] = {
    "acls list": _ACLS,
    "acls add": {**_ACLS, "--force": []},
    "acls remove": {**_ACLS, "--force": ["--yes"]},
    "tokens list": {"--owner-principal": "--owner"},
    "tokens describe": {"--owner-principal": "--owner"},
    "tokens create": {
        "--owner-principal": "--owner",
        "--renewer-principal": "--renewer",
        "--max-life-time-period": "--max-lifetime",
    },
    "tokens renew": {"--renew-time-period": "--period"},
    "tokens expire": {"--expiry-time-period": lambda ms: ["--period", ms, "--yes"]},
    "consume": {
        "--from-beginning": ["--from", "earliest"],
        "--offset": "--from",
        "--max-messages": "--max-records",
        "--isolation-level": _isolation,
    },
    "produce": {
        "--compression-codec": "--compression",
        "--request-required-acks": "--acks",
        "--batch-size": "--batch-bytes",
        "--sync": [],
    },
    "topics create": {"--replica-assignment": "--assign"},
    "topics list": {"--exclude-internal": ["--no-internal"]},
    "topics describe": {
        "--under-replicated-partitions": ["--under-replicated"],
        "--unavailable-partitions": ["--unavailable"],
        "--exclude-internal": [],
    },
    "topics alter": {"--replica-assignment": "--assign"},
    "topics elect-leaders": {"--election-type": _election, "--all-topic-partitions": []},
    "topics reassign": {
        "--reassignment-json-file": "--plan",
        "--verify": ["--progress"],
        "--generate": [],
    },
    "groups describe": {"--all-groups": ["--all"], "--verbose": [], "--timeout": "--timeout-ms"},
    "groups list": {"--timeout": "--timeout-ms"},
    "groups delete": {"--timeout": "--timeout-ms"},
    "groups reset-offsets": {"--timeout": "--timeout-ms"},
    "groups delete-offsets": {"--timeout": "--timeout-ms"},
    "configs describe": {"--entity-default": ["--cluster-default"]},
    "configs alter": {
        "--add-config": _pairs("--set"),
        "--delete-config": _each("--delete"),
        "--entity-default": ["--cluster-default"],
    },
    "quotas list": {"--describe": []},
    "quotas set": {"--alter": [], "--add-config": split_into_words},
    "quotas remove": {"--alter": [], "--delete-config": split_into_words},
    "offsets": {"--time": _moment, "--partitions": "--partition"},
    "log-dirs": {
        "--describe": [],
        "--broker-list": _each("--broker"),
        "--topic-list": _each("--topic"),
    },
    "quorum describe": {"--status": [], "--replication": []},
}

HINTS: Final[Mapping[str, str]] = {
    "--zookeeper": "there is no ZooKeeper; name brokers with --bootstrap HOST:PORT",
    "--property": "use -X KEY=VALUE for settings of the client, --format and --key-separator for "
    "how records are written",
    "--formatter": "use --format, with a template such as '%o %k %v\\n'",
    "--formatter-property": "use --format, with a template such as '%o %k %v\\n'",
    "--reader-property": "use --format, --key-separator and --null",
    "--line-reader": "use --format, --key-separator and --null",
    "--key-deserializer": "bytes are printed as they are; --format json shows what is no text as "
    "base64",
    "--value-deserializer": "bytes are printed as they are; --format json shows what is no text as "
    "base64",
    "--include": "name one topic; `ottla topics list --names` lists them",
    "--whitelist": "name one topic; `ottla topics list --names` lists them",
    "--all-groups": "name the groups; `ottla groups list --names` lists them",
    "--entity-type": "name what is meant by --topic, --broker, --group or --client-metrics",
    "--topic-partitions": "name the topic, and its partitions with --partition 0,2-4",
    "--topics-to-move-json-file": "name the topics as arguments",
    "--path-to-json-file": "name the partitions as arguments: orders:0,2-4",
    "--offset-json-file": "use `ottla topics delete-records TOPIC --before OFFSET`",
}

TOOLS: Final[Mapping[str, str]] = {
    "acls": "acls",
    "cluster": "cluster",
    "configs": "configs",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer": "consume",
    "consumer-groups": "groups",
    "consumer-perf-test": "perf consume",
    "delegation-tokens": "tokens",
    "delete-records": "topics delete-records",
    "dump-log": "dump-log",
    "get-offsets": "offsets",
    "groups": "groups",
    "leader-election": "topics elect-leaders",
    "log-dirs": "log-dirs",
    "metadata-quorum": "quorum",
    "producer": "produce",
    "producer-perf-test": "perf produce",
    "reassign-partitions": "topics reassign",
    "server-start": "start",
    "storage": "storage",
    "streams-application-reset": "pipeline reprocess",
    "topics": "topics",
    "transactions": "transactions",
}
"""Kafka's programs without `kafka-` and `.sh`, and the matching commands."""

ENTITIES: Final[Mapping[str, str]] = {
    "topic": "--topic",
    "broker": "--broker",
    "broker-logger": "--broker-logger",
    "group": "--group",
    "client-metric": "--client-metrics",
}


class UnknownHabit(Exception):
    """An option of Kafka's that has no counterpart; the message says what to do instead."""


def translate(
    command: str, args: list[str], flags: Collection[str], valued: Collection[str], first: str
) -> Words:
    """Return the arguments in Ottla's words.

    `flags` and `valued` are the command's own options, without and with a value: these are not
    translated. `first` is the metavar of its first argument.
    """
    habits = {**COMMON, **HABITS.get(command, {})}
    left, done, arguments = list(args), Words(), Words()
    while left:
        word = left.pop(0)
        if word == "--":
            return [*arguments, *done, word, *left]
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in flags or name in valued:
            done.append(word)
            done += left[:1] if name in valued and not equals else []
            left = left[1:] if name in valued and not equals else left
            continue
        wants = ARGUMENTS.get(name)
        habit = habits.get(name)
        if wants is None and not isinstance(habit, str) and not callable(habit):
            if habit is None and name in HINTS:
                raise UnknownHabit(f"{name} is an option of Kafka's tools: {HINTS[name]}")
            done += [word] if habit is None else habit
            continue
        if not equals:
            if not left:
                done.append(word)
                continue
            value = left.pop(0)
        if wants is not None and _names(first, wants):
            arguments.append(value)
        elif isinstance(habit, str):
            done += [habit, value]
        elif callable(habit):
            done += habit(value)
        else:
            done += [name, value]
    return [*arguments, *done]


def _names(metavar: str, wanted: str) -> bool:
    return metavar.lstrip("[").startswith(wanted)


def translate_entity(args: list[str]) -> Words:
    """Turn `--entity-type topics --entity-name orders` into `--topic orders`."""
    kind = name = None
    rest = Words()
    left = list(args)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option not in ("--entity-type", "--entity-name"):
            rest.append(word)
            continue
        if not equals:
            value = left.pop(0) if left else ""
        if option == "--entity-type":
            kind = ENTITIES.get(value.removesuffix("s"))
            if kind is None:
                known = ", ".join(f"{one}s" for one in ENTITIES)
                raise UnknownHabit(f"--entity-type {value}: there are {known}")
        else:
            name = value
    if kind is None:
        return args if name is None else [*rest, "--entity-name", name]
    if name is None and "--entity-default" in rest:
        return rest
    if name is None:
        raise UnknownHabit(f"name one: {kind} NAME")
    return [*rest, kind, name]


def tool_named(word: str) -> str | None:
    """Return the command that matches one of Kafka's programs, or None."""
    return TOOLS.get(word.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-"))
