"""Structured logs: forms, levels, and what they must not let happen."""

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.logs import LOGGERS, LevelError, configure, get_logger, parse_levels


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    names = ["ottla", *LOGGERS, "ottla.test"]
    handlers = logging.root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    logging.root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines(level: str = "debug", form: str = "human", **fields: Any) -> list[str]:
    stream = io.StringIO()
    configure(level, form, stream)
    get_logger("ottla.test").info("something happened", **fields)
    return stream.getvalue().splitlines()


def events(stream: io.StringIO) -> list[str]:
    return [line.rpartition("  ")[2] for line in stream.getvalue().splitlines()]


def test_people_read_time_level_concern_event_and_fields() -> None:
    (line,) = lines(topic="orders", partition=3)
    date, time, rest = line.split(maxsplit=2)
    assert (len(date), len(time)) == (10, 12)
    assert rest == "INFO    test  something happened  topic=orders partition=3"


def test_collectors_read_one_json_object_a_line() -> None:
    (line,) = lines(form="json", topic="orders", partition=3, data=b"\x01\xff", event="high")
    entry = json.loads(line)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "info",
        "logger": "ottla.test",
        "event": "something happened",
        "topic": "orders",
        "partition": 3,
        "data": "01ff",
        "event_": "high",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('a"b=c', '"a\\"b=c"'),
        ("", '""'),
        ("a\nERROR forged", '"a\\nERROR forged"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        ("grün", "grün"),
        (b"\x00\xff", "00ff"),
        (None, "None"),
    ],
)
def test_a_value_can_neither_be_misread_nor_begin_a_line(value: object, shown: str) -> None:
    (line,) = lines(field=value)
    assert line.endswith(f"field={shown}")


@pytest.mark.parametrize("form", ["human", "json"])
def test_an_event_with_a_line_end_stays_on_its_line(form: str) -> None:
    stream = io.StringIO()
    configure("debug", form, stream)
    logging.getLogger("ottla.test").info("client %s", "a\nb")
    (line,) = stream.getvalue().splitlines()
    assert "client a\\nb" in line


@pytest.mark.parametrize("form", ["human", "json"])
def test_an_exception_comes_with_its_traceback(form: str) -> None:
    stream = io.StringIO()
    configure("debug", form, stream)
    log = get_logger("ottla.test")
    try:
        raise OSError("disk gone")
    except OSError as error:
        log.exception("first", folder="/a")
        log.error("second", exc_info=error)
    assert stream.getvalue().count("OSError: disk gone") == 2
    assert "test_logs.py" in stream.getvalue()


def test_only_warnings_and_the_nodes_life_cycle_show_by_default() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    get_logger("ottla.node").info("ready")
    get_logger("ottla.network").info("hidden")
    get_logger("ottla.network").warning("shown")
    assert events(stream) == ["ready", "shown"]


def test_one_concern_can_talk_more_than_the_others() -> None:
    stream = io.StringIO()
    configure(["error", "ottla.storage=DEBUG"], stream=stream)
    get_logger("ottla.storage.recovery").debug("shown")
    get_logger("ottla.network").warning("hidden")
    get_logger("ottla.node").info("hidden")
    assert events(stream) == ["shown"]


def test_levels_are_read_from_one_text_or_several() -> None:
    expected = {"ottla": logging.INFO, "ottla.storage": logging.DEBUG}
    assert parse_levels("info, ottla.storage=debug") == expected
    assert parse_levels(["INFO", "ottla.storage=Debug"]) == expected
    assert parse_levels("") == {}


@pytest.mark.parametrize("text", ["loud", "ottla.storage=loud", "=debug", "ottla.storage"])
def test_what_is_no_level_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(LevelError, match="debug, info, warning, error, critical"):
        parse_levels(text)


def test_lines_of_other_libraries_come_out_in_the_same_form() -> None:
    stream = io.StringIO()
    configure(form="json", stream=stream)
    logging.getLogger("asyncio").error("task %s failed", "x")
    entry = json.loads(stream.getvalue())
    assert (entry["logger"], entry["event"]) == ("asyncio", "task x failed")


def test_configuring_twice_does_not_double_the_lines() -> None:
    assert len(lines()) == 1
    assert len(lines()) == 1


def test_what_is_below_the_level_is_not_put_into_words() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("nobody reads this")

    assert lines(level="warning", field=Costly()) == []


def test_lines_point_at_their_caller() -> None:
    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    found: list[logging.LogRecord] = []
    lines()
    logging.root.handlers[:] = [Collector()]
    get_logger("ottla.test").error("here")
    assert found[0].funcName == "test_lines_point_at_their_caller"


SOURCE = Path(ottla.__file__).parent
CALL = re.compile(r"(getLogger|get_logger)\(\"((?:ottla|kafka)\.[a-z._]+)\"\)")
IN_APPLICATIONS = {"blocking", "cli", "client", "demo", "pipelines", "spark", "streams"}


def loggers_of_the_source() -> list[tuple[str, str, str]]:
    """Room, function and name of every logger."""
    return [
        (path.relative_to(SOURCE).parts[0], *found)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "logs.py"
        for found in CALL.findall(path.read_text())
    ]


def test_the_named_loggers_are_those_that_exist() -> None:
    assert {name for _, _, name in loggers_of_the_source()} == set(LOGGERS)


def test_a_node_logs_fields_and_applications_get_standard_loggers() -> None:
    for room, function, name in loggers_of_the_source():
        wanted = "getLogger" if room in IN_APPLICATIONS else "get_logger"
        assert function == wanted, f"{room}: {function}({name!r})"


def test_a_sentence_takes_its_values_as_in_the_standard_library() -> None:
    stream = io.StringIO()
    configure("debug", "human", stream)
    get_logger("ottla.test").info("joining %s", "ledger", member=1)
    assert stream.getvalue().rstrip().endswith("joining ledger  member=1")
