"""Descriptions and pictures, to the letter."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.streams import App, BadTopology, Tumbling


def anything(*_: object) -> None:
    raise AssertionError("called too early")


def example() -> App:
    app = App("shop")
    payments = app.stream("payments")
    payments.filter(anything).to("big")
    counts = payments.group_by_key().count(store="counts")
    payments.join(counts, anything, named="enrich").to("out")
    return app


def test_the_description_has_the_form_of_kafka_streams() -> None:
    assert (
        example().describe()
        == """\
Topologies:
   Sub-topology: 0 for query KSTREAM-SOURCE-0000000000
    Source: KSTREAM-SOURCE-0000000000 (topics: [payments])
      --> KSTREAM-FILTER-0000000001
    Processor: KSTREAM-FILTER-0000000001 (stores: [])
      --> KSTREAM-SINK-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000002 (topic: big)
      <-- KSTREAM-FILTER-0000000001

   Sub-topology: 1 for query counts
    Source: KSTREAM-SOURCE-0000000000 (topics: [payments])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])
      --> KSTREAM-AGGREGATE-0000000003-sink
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-AGGREGATE-0000000003-sink (topic: shop-counts-changelog)
      <-- KSTREAM-AGGREGATE-0000000003

   Sub-topology: 2 for query enrich
    Source: KSTREAM-SOURCE-0000000000 (topics: [payments])
      --> enrich
    Source: KSTREAM-AGGREGATE-0000000003-source (topics: [shop-counts-changelog])
      --> enrich
    Processor: enrich (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-SOURCE-0000000000, KSTREAM-AGGREGATE-0000000003-source
    Sink: KSTREAM-SINK-0000000004 (topic: out)
      <-- enrich
"""
    )


def test_held_back_windows_show_the_aggregate_and_what_holds_them_back() -> None:
    app = App("final")
    counts = app.stream("in").group_by_key().windowed_by(Tumbling("1 min")).count(store="counts")
    counts.suppress(named="closed").to("out")
    lines = app.describe().splitlines()
    processors = [line.split()[1] for line in lines if "Processor" in line]
    assert processors == ["KSTREAM-AGGREGATE-0000000001", "closed", "KTABLE-TOSTREAM-0000000002"]


def test_a_table_joined_whole_is_a_source_of_the_join() -> None:
    app = App("global")
    app.stream("in").join(app.global_table("all"), anything, named="look-up").to("out")
    text = app.describe()
    assert "Source: KSTREAM-GLOBALTABLE-0000000001 (topics: [all])\n      --> look-up" in text
    assert "<-- KSTREAM-SOURCE-0000000000, KSTREAM-GLOBALTABLE-0000000001" in text


def test_mermaid_groups_steps_by_query_and_shares_topics() -> None:
    assert (
        example().picture()
        == """\
---
title: shop
---
flowchart TD
  n0[["payments"]]
  n2[["big"]]
  n4[["shop-counts-changelog"]]
  n7[["out"]]
  subgraph q0 ["query KSTREAM-SOURCE-0000000000"]
    n1("KSTREAM-FILTER-0000000001")
  end
  subgraph q1 ["query counts"]
    n3("KSTREAM-AGGREGATE-0000000003")
    n5[("counts")]
  end
  subgraph q2 ["query enrich"]
    n6("enrich")
  end
  n0 --> n1
  n1 --> n2
  n0 --> n3
  n3 --> n4
  n3 --> n5
  n0 --> n6
  n4 --> n6
  n6 --> n7
"""
    )


def test_dot_names_every_shape_and_arrow() -> None:
    text = example().picture(form="dot")
    assert text.startswith('digraph "shop" {')
    assert '"topic/shop-counts-changelog" [label="shop-counts-changelog", shape=cds' in text
    assert '"topic/payments" -> "0/KSTREAM-FILTER-0000000001";' in text
    assert text.count("->") == 8


def test_svg_is_drawn_top_down_without_shapes_over_each_other(tmp_path: Path) -> None:
    file = tmp_path / "shop.svg"
    drawn = example().picture(file)
    assert file.read_text() == drawn
    space = {"s": "http://www.w3.org/2000/svg"}
    root = ElementTree.fromstring(drawn)
    boxes = {}
    for group in root.findall("s:g", space):
        box, text = group.find("s:rect", space), group.find("s:text", space)
        assert box is not None
        assert text is not None
        boxes[text.text] = tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))
    assert len(boxes) == 8
    assert len(root.findall("s:path", space)) == 8
    above = ["payments", "KSTREAM-AGGREGATE-0000000003", "shop-counts-changelog", "enrich", "out"]
    heights = [boxes[name][1] for name in above]
    assert heights == sorted(set(heights))
    assert not any(overlap(one, other) for one in boxes.values() for other in boxes.values())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes.values())


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    if one is other:
        return False
    return all(one[i] < other[i] + other[i + 2] and other[i] < one[i] + one[i + 2] for i in (0, 1))


def test_a_circle_can_be_drawn() -> None:
    app = App("circle")
    app.stream("in", "again").filter(anything).to("again")
    assert "<svg" in app.picture(form="svg")


def test_text_in_pictures_is_escaped() -> None:
    app = App("escapes")
    app.stream("<&>").to("out")
    drawing = app.picture(form="svg")
    assert "&lt;&amp;&gt;" in drawing
    assert "<&>" not in drawing


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTopology, match="svg, mmd or dot, not 'png'"):
        example().picture(tmp_path / "x.png")
