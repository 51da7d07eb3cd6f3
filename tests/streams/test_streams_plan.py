"""Where a topology is cut into queries, and what carries records between them."""

from __future__ import annotations

import pytest

from ottla import TopicPartition
from ottla.streams import App, BadTopology, JoinWindow, Tumbling
from ottla.streams.plan import Plan, Query
from ottla.streams.purge import used_offsets


def anything(*_: object) -> None:
    raise AssertionError("called too early")


def shape(query: Query) -> tuple[str, set[str], set[str]]:
    """Name, topics read, topics written."""
    reads = {topic for entry in query.inputs for topic in entry.topics}
    return query.name, reads, {output.topic for output in query.outputs}


def shapes(plan: Plan) -> list[tuple[str, set[str], set[str]]]:
    return [shape(query) for query in plan.queries]


def test_without_state_one_query_does_it_all() -> None:
    app = App("flat")
    left, right = app.stream("a").branch(anything)
    left.map_values(anything).to("x")
    right.merge(app.stream("b")).to("y")
    assert shapes(app.plan()) == [("KSTREAM-SOURCE-0000000000", {"a", "b"}, {"x", "y"})]
    assert app.plan().internal_topics == ()


def test_sources_that_share_no_sink_are_read_by_queries_of_their_own() -> None:
    app = App("two")
    app.stream("a").to("x")
    app.stream("b").to("y")
    assert [reads for _, reads, _ in shapes(app.plan())] == [{"a"}, {"b"}]


def test_an_aggregate_reads_its_topic_itself_and_shuffles_without_one() -> None:
    app = App("count")
    app.stream("words").group_by(anything).count(store="counts").to("out")
    assert shapes(app.plan()) == [("counts", {"words"}, {"out"})]
    assert app.plan().internal_topics == ()


def test_two_aggregates_of_one_stream_are_two_queries() -> None:
    app = App("fan")
    stream = app.stream("in").filter(anything)
    stream.group_by_key().count(store="one").to("x")
    stream.group_by(anything).count(store="two").to("y")
    stream.to("z")
    assert shapes(app.plan()) == [
        ("KSTREAM-SOURCE-0000000000", {"in"}, {"z"}),
        ("one", {"in"}, {"x"}),
        ("two", {"in"}, {"y"}),
    ]


def test_a_chain_of_state_passes_through_an_internal_topic() -> None:
    app = App("chain")
    counts = app.stream("in").group_by_key().count(store="first")
    counts.to_stream().select_key(anything, named="by-count").group_by_key().count(
        store="second"
    ).to("out")
    topic = "chain-by-count-repartition"
    assert shapes(app.plan()) == [("first", {"in"}, {topic}), ("second", {topic}, {"out"})]
    (internal,) = app.plan().internal_topics
    assert (internal.name, internal.compacted) == (topic, False)
    assert [app.plan().own_topics(query) for query in app.plan().queries] == [[], [topic]]


def test_a_table_with_state_is_carried_by_a_compacted_changelog() -> None:
    app = App("tables")
    counts = app.stream("in").group_by_key().count(store="counts")
    app.stream("other").join(counts, anything, named="enrich").to("out")
    topic = "tables-counts-changelog"
    assert shapes(app.plan()) == [
        ("counts", {"in"}, {topic}),
        ("enrich", {"other", topic}, {"out"}),
    ]
    assert app.plan().internal_topics[0].compacted


def test_one_internal_topic_serves_all_that_need_the_same_records() -> None:
    app = App("shared")
    changes = app.stream("in").group_by_key().count(store="counts").to_stream(named="changes")
    changes.group_by_key().count(store="x").to("x")
    changes.group_by_key().count(store="y").to("y")
    assert [topic.name for topic in app.plan().internal_topics] == ["shared-changes-repartition"]
    assert not any(map(app.plan().own_topics, app.plan().queries))


def test_records_with_and_without_state_meet_without_a_cut_in_front_of_a_sink() -> None:
    app = App("meet")
    stream = app.stream("in")
    counts = stream.group_by_key().count(store="counts").to_stream()
    counts.merge(stream).filter(anything).to("out")
    assert shapes(app.plan()) == [
        ("KSTREAM-SOURCE-0000000000", {"in"}, {"out"}),
        ("counts", {"in"}, {"out"}),
    ]
    assert app.plan().internal_topics == ()


def test_records_with_and_without_state_meet_in_front_of_an_aggregate() -> None:
    app = App("meet")
    stream = app.stream("in")
    both = stream.group_by_key().count(store="counts").to_stream().merge(stream, named="both")
    both.group_by_key().count(store="again").to("out")
    topic = "meet-both-repartition"
    assert shapes(app.plan()) == [("counts", {"in"}, {topic}), ("again", {"in", topic}, {"out"})]


def test_suppressed_windows_are_one_query_unless_updates_are_used_too() -> None:
    app = App("final")
    counts = app.stream("in").group_by_key().windowed_by(Tumbling("1 min")).count(store="counts")
    counts.suppress(named="closed").to("final")
    assert shapes(app.plan()) == [("closed", {"in"}, {"final"})]
    counts.to("updates")
    assert shapes(app.plan()) == [("counts", {"in"}, {"updates"}), ("closed", {"in"}, {"final"})]


def test_a_repartition_ends_one_query_and_starts_another() -> None:
    app = App("re")
    app.stream("in").repartition(named="spread", partitions=12).to("out")
    topic = "re-spread-repartition"
    assert shapes(app.plan()) == [
        ("KSTREAM-SOURCE-0000000000", {"in"}, {topic}),
        ("spread", {topic}, {"out"}),
    ]
    assert app.plan().internal_topics[0].partitions == 12


def test_joins_of_what_has_state_wait_for_it() -> None:
    app = App("deep")
    stream = app.stream("in")
    counts = stream.group_by_key().count(store="counts")
    rows = app.table("rows")
    joined = rows.join(counts, anything, named="both")
    stream.join(joined, anything, named="last").to("out")
    assert [name for name, _, _ in shapes(app.plan())] == ["counts", "both", "last"]
    names = [topic.name for topic in app.plan().internal_topics]
    assert names == ["deep-counts-changelog", "deep-both-changelog"]


def test_queries_that_read_a_topic_of_the_program_come_after_those_that_write_it() -> None:
    app = App("through")
    later = app.stream("middle")
    later.to("out")
    app.stream("in").to("middle")
    assert [reads for _, reads, _ in shapes(app.plan())] == [{"in"}, {"middle"}]


def test_a_circle_through_a_topic_of_the_program_is_allowed_if_something_leaves_it() -> None:
    app = App("circle")
    app.stream("in", "again").filter(anything).to("again")
    assert shapes(app.plan()) == [("KSTREAM-SOURCE-0000000000", {"in", "again"}, {"again"})]


def test_an_application_that_feeds_itself_is_refused() -> None:
    app = App("copy")
    app.stream("a").to("a")
    with pytest.raises(BadTopology, match=r"reads from 'a' it writes to it again \(a -> a\)"):
        app.plan()
    app = App("round")
    app.stream("a", "c").map_values(anything).repartition().to("b")
    app.stream("b").select_key(anything).to("c")
    with pytest.raises(BadTopology, match=r"\(c -> b -> c\)"):
        app.describe()


def test_what_a_table_is_joined_with_may_be_written_to_it() -> None:
    app = App("balance")
    app.stream("orders").join(app.table("balances"), anything).to("balances")
    app.plan()


def test_what_is_never_written_is_not_run() -> None:
    app = App("unused")
    stream = app.stream("in")
    stream.group_by_key().count(store="nobody-looks")
    stream.join(app.stream("other"), anything, JoinWindow("1 s"))
    stream.to("out")
    assert [name for name, _, _ in shapes(app.plan())] == ["KSTREAM-SOURCE-0000000000"]


def test_an_application_that_writes_nothing_is_refused() -> None:
    app = App("idle")
    app.stream("in").filter(anything)
    with pytest.raises(BadTopology, match="writes nothing"):
        app.plan()


def test_a_renamed_application_reads_the_same_and_writes_elsewhere() -> None:
    app = App("pay", dead_letters="dead")
    counts = app.stream("in").group_by_key().count(store="counts")
    app.stream("other").join(counts, anything, named="enrich").to("out")
    app.stream("out").to("copy")
    second = app.renamed("-v2")
    assert second.app_id == "pay-v2"
    assert second.settings.dead_letters == "dead-v2"
    assert shapes(second.plan()) == [
        ("counts", {"in"}, {"pay-v2-counts-changelog"}),
        ("enrich", {"other", "pay-v2-counts-changelog"}, {"out-v2"}),
        ("KSTREAM-SOURCE-0000000004", {"out-v2"}, {"copy-v2"}),
    ]
    assert app.plan().queries[1].outputs[0].topic == "out"


def test_a_global_table_in_front_of_an_aggregate_is_joined_by_a_query_before() -> None:
    app = App("whole")
    rates = app.global_table("rates")
    app.stream("in").join(rates, anything, named="rated").group_by_key().count(store="n").to("out")
    topic = "whole-rated-repartition"
    assert shapes(app.plan()) == [
        ("KSTREAM-SOURCE-0000000001", {"in"}, {topic}),
        ("n", {topic}, {"out"}),
    ]


def test_what_a_batch_used_of_internal_topics_may_go() -> None:
    text = (
        'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"a": {"0": 5, "1": 0}, "@ids": {}}\n{"b": {"0": 7}}'
    )
    assert used_offsets(text, {"a"}) == {TopicPartition("a", 0): 5}
    assert used_offsets(text, {"a", "b", "c"}) == {
        TopicPartition("a", 0): 5,
        TopicPartition("b", 0): 7,
    }
