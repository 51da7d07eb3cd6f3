"""Reading values as Kafka's parser does."""

import pytest

from ottla.config.limits import parse_limit
from ottla.config.values import ConfigType, IllTyped, parse_value, value_text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, "+1", 1),
        (ConfigType.INT, " 1 ", 1),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.BOOLEAN, " TRUE", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "1d", 1.0),
        (ConfigType.LIST, "a, b ,c", ("a", "b", "c")),
        (ConfigType.LIST, "a,a", ("a",)),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_text_of_each_type_is_read_as_kafka_reads_it(
    kind: ConfigType, text: str, value: object
) -> None:
    assert parse_value(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.INT, "1_0"),
        (ConfigType.INT, "0x1"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "+"),
        (ConfigType.INT, "1.5"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, "1"),
        (ConfigType.DOUBLE, "1_0"),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, ""),
    ],
)
def test_text_that_kafka_refuses_is_refused(kind: ConfigType, text: str) -> None:
    with pytest.raises(IllTyped, match="expected"):
        parse_value(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-1, "-1"),
    ],
)
def test_values_are_shown_as_kafka_shows_them(value: object, text: str | None) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("limit", "good", "bad"),
    [
        ("at least 1", 1, 0),
        ("0 to 1", 0.5, 1.1),
        ("-131072 to 22", -131072, 23),
        ("1 to 9 or -1", -1, 0),
        ("one of a, b", "a", "A"),
        ("any case of A, B", "a", "c"),
        ("list of a, b", (), ("c",)),
        ("list", ("x",), ("",)),
        ("non-empty list of a, b", ("a", "b"), ()),
        ("non-empty list", ("x",), ()),
        ("non-empty", "x", ""),
        ("replicas", ("0:1", "1:2"), ("none",)),
        ("replicas", ("*",), ("*", "0:1")),
        ("voters", ("1@host:9093", "2@[::1]:9093"), ("host:9093",)),
        ("addresses", ("host:9093",), ("host",)),
        ("offset reset", "by_duration:P1DT2H", "by_duration:P"),
    ],
)
def test_limits_let_good_values_pass_and_name_what_they_expected(
    limit: str, good: object, bad: object
) -> None:
    check = parse_limit(limit)
    assert check(good) is None
    assert check(bad)


def test_words_that_are_no_limit_are_refused() -> None:
    with pytest.raises(ValueError, match="not a limit"):
        parse_limit("about 3")
