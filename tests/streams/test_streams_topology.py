"""Names of nodes and stores, and what a topology refuses. Nothing here needs Spark."""

from __future__ import annotations

import pytest

from ottla.streams import App, BadTopology, JoinWindow, Json, Sliding, String, Tumbling
from ottla.streams.serdes import Long, Windowed


def names(app: App) -> list[str]:
    return [node.name for node in app.topology]


def anything(*_: object) -> None:
    """Functions are not called while a topology is built."""
    raise AssertionError("called too early")


def test_nodes_are_named_as_kafka_streams_names_them() -> None:
    app = App("names")
    stream = app.stream("in")
    stream.filter(anything).filter_not(anything).map(anything).map_values(anything)
    stream.flat_map(anything).flat_map_values(anything).select_key(anything).peek(anything)
    stream.merge(stream.repartition()).to("out")
    app.table("rows").filter(anything).map_values(anything).to_stream()
    assert names(app) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-FILTER-0000000002",
        "KSTREAM-MAP-0000000003",
        "KSTREAM-MAPVALUES-0000000004",
        "KSTREAM-FLATMAP-0000000005",
        "KSTREAM-FLATMAPVALUES-0000000006",
        "KSTREAM-KEY-SELECT-0000000007",
        "KSTREAM-PEEK-0000000008",
        "KSTREAM-REPARTITION-0000000009",
        "KSTREAM-MERGE-0000000010",
        "KSTREAM-SINK-0000000011",
        "KTABLE-SOURCE-0000000012",
        "KTABLE-FILTER-0000000013",
        "KTABLE-MAPVALUES-0000000014",
        "KTABLE-TOSTREAM-0000000015",
    ]


def test_stores_without_a_name_are_numbered_with_the_nodes() -> None:
    app = App("stores")
    grouped = app.stream("in").group_by_key()
    counted, reduced = grouped.count(), grouped.reduce(anything)
    assert counted.node.operation.stores == ("KSTREAM-AGGREGATE-STATE-STORE-0000000001",)
    assert counted.name == "KSTREAM-AGGREGATE-0000000002"
    assert reduced.node.operation.stores == ("KSTREAM-REDUCE-STATE-STORE-0000000003",)


def test_given_names_do_not_use_up_numbers() -> None:
    app = App("named")
    app.stream("in", named="payments").filter(anything, named="big").map_values(anything)
    assert names(app) == ["payments", "big", "KSTREAM-MAPVALUES-0000000000"]


def test_branches_are_named_after_their_node() -> None:
    app = App("branches")
    parts = app.stream("in").split(small=anything, large=anything)
    assert {name: part.name for name, part in parts.items()} == {
        "small": "KSTREAM-BRANCH-0000000001-0",
        "large": "KSTREAM-BRANCH-0000000001-1",
        "rest": "KSTREAM-BRANCH-0000000001-2",
    }


def test_two_nodes_or_stores_of_one_name_are_refused() -> None:
    app = App("twice")
    stream = app.stream("in", named="here")
    with pytest.raises(BadTopology, match="two nodes are named 'here'"):
        stream.filter(anything, named="here")
    stream.group_by_key().count(store="counts")
    with pytest.raises(BadTopology, match="two stores are named 'counts'"):
        stream.group_by_key().count(store="counts")


def test_names_that_cannot_be_topics_are_refused() -> None:
    with pytest.raises(BadTopology, match="letters, digits"):
        App("bad").stream("in", named="with space")


def test_streams_of_two_applications_do_not_mix() -> None:
    one, other = App("one").stream("in"), App("other").stream("in")
    with pytest.raises(BadTopology, match="belongs to another application"):
        one.merge(other)


@pytest.mark.parametrize(
    ("verb", "missing"),
    [
        (lambda s: s.map(anything, python=True), "key= and value="),
        (lambda s: s.map(anything, key=String(), python=True), "value="),
        (lambda s: s.map_values(anything, python=True), "value="),
        (lambda s: s.flat_map_values(anything, python=True), "value="),
        (lambda s: s.select_key(anything, python=True), "key="),
    ],
)
def test_python_functions_must_say_what_they_give(verb: object, missing: str) -> None:
    with pytest.raises(BadTopology, match=f"give {missing}$"):
        verb(App("typed").stream("in"))  # type: ignore[operator]


def test_streams_join_in_a_window_only() -> None:
    app = App("joins")
    left, right, table = app.stream("l"), app.stream("r"), app.table("t")
    with pytest.raises(BadTopology, match="give a JoinWindow"):
        left.left_join(right, anything)
    with pytest.raises(BadTopology, match="on= is for global tables"):
        left.join(table, anything, on=anything)
    assert left.join(right, anything, JoinWindow("1 minute")).name == "KSTREAM-JOIN-0000000003"


def test_suppression_until_windows_close_follows_the_aggregate() -> None:
    counts = App("late").stream("in").group_by_key().windowed_by(Tumbling("1 minute")).count()
    with pytest.raises(BadTopology, match="must follow the aggregate"):
        counts.filter(anything).suppress()  # type: ignore[call-arg]
    assert counts.suppress().name.startswith("KTABLE-SUPPRESS-")


def test_sessions_of_python_aggregates_need_a_merger() -> None:
    from ottla.streams import Session

    windowed = App("s").stream("in").group_by_key().windowed_by(Session("5 minutes"))
    with pytest.raises(BadTopology, match="give merger="):
        windowed.aggregate(0, anything, Long())


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Tumbling("0 s"), "size of Tumbling must be longer"),
        (lambda: Tumbling("soon"), "size of Tumbling is 'soon'"),
        (lambda: Tumbling("1 m", grace=""), "grace of Tumbling is ''"),
        (lambda: Sliding(5), "write it like '1 minute'"),  # type: ignore[arg-type]
        (lambda: App(""), "needs a name"),
        (lambda: App("x").stream(), "at least one topic"),
        (lambda: App("x").stream("t", start="now"), "must be 'earliest' or 'latest'"),
        (lambda: App("x").stream("t").branch(), "at least one predicate"),
        (lambda: App("x").stream("t").split(rest=anything), "keeps the name 'rest'"),
    ],
)
def test_what_makes_no_sense_is_told(make: object, complaint: str) -> None:
    with pytest.raises(BadTopology, match=complaint):
        make()  # type: ignore[operator]


def test_hopping_windows_may_not_leave_gaps() -> None:
    from ottla.streams import Hopping

    with pytest.raises(BadTopology, match="past their size"):
        Hopping("1 minute", advance="61 seconds")


def test_windows_say_what_they_are() -> None:
    from datetime import timedelta

    from ottla.streams import Hopping, Session

    assert str(Tumbling("90 s", grace="1 d")) == "tumbling 90 seconds, grace 1 day"
    assert str(Hopping("1 h 30 min", advance=timedelta(minutes=5))) == (
        "hopping 90 minutes every 5 minutes, grace 0 milliseconds"
    )
    assert str(Session("2 hours")) == "session gap 2 hours, grace 0 milliseconds"
    window = JoinWindow("10 s", after="0 ms")
    assert (window.before_ms, window.after_ms) == (10_000, 0)


def test_forms_are_the_same_if_they_are_written_the_same() -> None:
    assert Json("a int") == Json("a int") != Json("a string")
    assert len({Json("a int"), Json("a int"), String(), String()}) == 2
    assert str(Windowed(String(), "60 s")) == "1 minute windows of string"


def test_what_is_no_function_no_form_or_no_name_is_refused_at_once() -> None:
    app = App("payments")
    with pytest.raises(BadTopology, match=r"'a > 1' is no function"):
        app.stream("a").filter("a > 1")  # type: ignore[arg-type]
    with pytest.raises(BadTopology, match=r"value is 'string'; it must be a form"):
        app.stream("a", value="string")  # type: ignore[arg-type]
    with pytest.raises(BadTopology, match="cannot be a name"):
        App("a b/../c")
