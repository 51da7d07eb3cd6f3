"""This node's part in the quorum of the metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.metrics.exposition import GAUGE, Family, gauge, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from ottla.broker.quorum.quorum import Quorum

_RAFT: Final = "kafka_server_raftmetrics_"
UNKNOWN: Final = -1


def quorum_families(quorum: Quorum) -> Families:
    core = quorum.core
    state = type(core.state).__name__.lower()
    if state == "follower" and not core.is_voter:
        state = "observer"
    yield Family(
        _RAFT + "current_state",
        GAUGE,
        "1, with this node's state as the label",
        ((labels(current_state=state), 1),),
    )
    marked = UNKNOWN if core.high_watermark is None else core.high_watermark
    end = quorum.log.end
    for name, text, value in (
        ("current_leader", "The leader of the quorum; -1 if unknown", core.leader_id),
        ("current_epoch", "The epoch", core.epoch),
        ("high_watermark", "The offset up to which a majority has it", marked),
        ("log_end_offset", "The end of the metadata log here", end.offset),
        ("log_end_epoch", "The epoch of its last record", end.epoch),
        ("number_of_voters", "Voters", len(core.voters.ids)),
    ):
        yield gauge(_RAFT + name, text, value)
