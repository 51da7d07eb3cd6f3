"""`ottla cluster status` as text."""

from __future__ import annotations

from typing import Final

from ottla.cli.cluster.quorum import members_of
from ottla.cli.cluster.status import NO_LEADER, UNDER_MIN_ISR, BrokerState, Stock
from ottla.cli.output import print_fields, print_sentence, print_table

SHOWN_MAX: Final = 20
"""Partitions with problems to show, unless all are asked for."""


def print_report(stock: Stock, *, all_partitions: bool) -> None:
    _print_summary(stock)
    _print_controllers(stock)
    _print_brokers(stock)
    _print_partitions(stock, all_partitions)
    for problem in stock.problems:
        print_sentence(f"! {problem}")
    if not stock.problems:
        print_sentence("All is well.")


def _print_summary(stock: Stock) -> None:
    quorum = stock.quorum
    print_fields(
        [
            ("cluster id", stock.cluster_id),
            ("metadata version", stock.metadata_version),
            ("leading controller", None if quorum is None else quorum.leader),
            ("topics", stock.topic_count),
            ("partitions", stock.partition_count),
            ("  not all in sync", len(stock.in_need)),
            ("  too few in sync", stock.count(UNDER_MIN_ISR)),
            ("  without a leader", stock.count(NO_LEADER)),
        ]
    )


def _print_controllers(stock: Stock) -> None:
    if stock.quorum is None:
        return
    columns = ("controller", "role", "end offset", "lag", "caught up ms ago")
    names = ("node", "role", "end_offset", "lag", "caught_up_ms_ago")
    members = [m for m in members_of(stock.quorum, stock.now_ms) if m["votes"]]
    print_table(columns, [[member[name] for name in names] for member in members])


def _print_brokers(stock: Stock) -> None:
    print_table(
        ("broker", "at", "rack", "state", "leads", "replicas", "in sync", "metadata lag"),
        [
            (
                one.node,
                f"{one.host}:{one.port}" if one.host else None,
                one.rack,
                _state(one),
                one.leads,
                one.replicas,
                one.in_sync,
                one.metadata_lag,
            )
            for one in stock.brokers
        ],
    )


def _state(one: BrokerState) -> str:
    if not one.registered:
        return "unregistered"
    return "fenced" if one.fenced else "online"


def _print_partitions(stock: Stock, all_partitions: bool) -> None:
    if not stock.in_need:
        return
    shown = stock.in_need if all_partitions else stock.in_need[:SHOWN_MAX]
    waits = any(one.waits_for for one in shown)
    print_table(
        ("partition", "problem", "leader", "replicas", "in sync", "missing")
        + (("waits for",) if waits else ()),
        [
            (
                f"{one.topic}-{one.partition}",
                one.problem,
                one.leader,
                one.replicas,
                one.in_sync,
                one.missing,
                *((one.waits_for or None,) if waits else ()),
            )
            for one in shown
        ],
    )
    if len(shown) < len(stock.in_need):
        print_sentence(
            f"... and {len(stock.in_need) - len(shown)} more: --partitions shows them all"
        )
