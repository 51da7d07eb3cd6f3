"""What the nodes of a cluster know of their controllers, each asked for itself.

One that has a majority behind it tells everything. Without one, each node tells which epoch and
leader it last knew of, and who does not answer is told from who does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.admin.quorum import DescribedQuorum, describe_request, described
from ottla.client.errors import ClientError, UnsupportedVersion
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.network.cluster import Cluster
    from ottla.client.network.metadata import Broker

ANSWER_S: Final = 2.5
"""A broker of ours gives up waiting for a controller after two seconds, and says so."""


class QuorumView(NamedTuple):
    """A node that could not tell how the quorum is doing."""

    node: int
    at: str
    epoch: int | None
    leader: int | None
    says: str
    """Why there was no answer, or what it said."""

    @property
    def line(self) -> str:
        if self.epoch is None:
            return f"node {self.node} ({self.at}): {self.says}"
        leader = "no leader" if self.leader is None else f"last leader {self.leader}"
        return f"node {self.node} ({self.at}): answers; quorum epoch {self.epoch}, {leader}"


async def ask_all(
    cluster: Cluster, brokers: Iterable[Broker]
) -> DescribedQuorum | list[QuorumView]:
    """The first good answer; what each said if there is none. `UnsupportedVersion` where the
    cluster does not tell."""
    questions = [asyncio.ensure_future(_ask(cluster, broker)) for broker in brokers]
    views = []
    try:
        for question in asyncio.as_completed(questions):
            found = await question
            if isinstance(found, DescribedQuorum):
                return found
            views.append(found)
    finally:
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
    return sorted(views)


async def _ask(cluster: Cluster, broker: Broker) -> DescribedQuorum | QuorumView:
    epoch = leader = None
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await cluster.dial((broker.host, broker.port))
            try:
                response: Any = await connection.request(describe_request())
            finally:
                connection.close()
        if response.error_code and response.topics:
            seen = response.topics[0].partitions[0]
            epoch = seen.leader_epoch
            leader = seen.leader_id if seen.leader_id >= 0 else None
        return described(response)
    except UnsupportedVersion:
        raise  # an old cluster, which has no quorum to tell of
    except TimeoutError:
        says = f"does not answer within {ANSWER_S:g} s"
    except (ClientError, KafkaError) as error:
        says = str(error)
    return QuorumView(broker.node_id, f"{broker.host}:{broker.port}", epoch, leader, says)


def told(views: Iterable[QuorumView]) -> list[dict[str, Any]]:
    """For scripts."""
    return [
        {
            "node": view.node,
            "answers": view.epoch is not None,
            "leader_epoch": view.epoch,
            "leader": view.leader,
            "says": view.says,
        }
        for view in views
    ]
