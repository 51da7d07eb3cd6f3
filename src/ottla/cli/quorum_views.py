"""What the nodes of a cluster know of their controllers, each asked for itself.

One that has a majority behind it tells everything. Without one, each node tells which epoch, leader
and voters it last knew of. Voters that are no brokers are asked then, too, so that whoever does not
answer is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.admin.quorum import DescribedQuorum, describe_request, described
from ottla.client.errors import ClientError, UnsupportedVersion
from ottla.client.network.metadata import Broker
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.errors import Address
    from ottla.client.network.cluster import Cluster
    from ottla.client.network.controllers import Controllers

ANSWER_S: Final = 2.5
"""A broker of ours gives up waiting for a controller after two seconds, and says so."""


class QuorumView(NamedTuple):
    """A node that could not tell how the quorum is doing."""

    node: int
    at: str
    answers: bool
    epoch: int | None
    leader: int | None
    says: str
    """Why there was no answer, or what it said."""
    voters: Mapping[int, Address]
    """Who votes, as far as it told, and where."""

    @property
    def line(self) -> str:
        if self.epoch is None:
            return f"node {self.node} ({self.at}): {self.says}"
        leader = "no leader" if self.leader is None else f"last leader {self.leader}"
        return f"node {self.node} ({self.at}): answers; quorum epoch {self.epoch}, {leader}"


async def ask_all(cluster: Cluster, nodes: Iterable[Broker]) -> DescribedQuorum | list[QuorumView]:
    """The first good answer; what each said if there is none. `UnsupportedVersion` where the
    cluster does not tell."""
    asked = {node.node_id: (node.host, node.port) for node in nodes}
    found = await _first_good(cluster, asked)
    if isinstance(found, DescribedQuorum):
        return found
    others = {
        voter: address
        for view in found
        for voter, address in view.voters.items()
        if voter not in asked
    }
    more = await _first_good(cluster, others)
    if isinstance(more, DescribedQuorum):
        return more
    return sorted([*found, *more], key=lambda view: view.node)


async def _first_good(
    cluster: Cluster, nodes: Mapping[int, Address]
) -> DescribedQuorum | list[QuorumView]:
    questions = [asyncio.ensure_future(_ask(cluster, *node)) for node in nodes.items()]
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
    return views


async def _ask(cluster: Cluster, node: int, address: Address) -> DescribedQuorum | QuorumView:
    answers, epoch, leader = False, None, None
    voters: dict[int, Address] = {}
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await cluster.dial(address)
            try:
                response: Any = await connection.request(describe_request())
            finally:
                connection.close()
        answers = True
        epoch, leader = _last_known(response)
        voters = _voters(response)
        return described(response)
    except UnsupportedVersion:
        raise  # an old cluster, which has no quorum to tell of
    except TimeoutError:
        says = f"does not answer within {ANSWER_S:g} s"
    except (ClientError, KafkaError) as error:
        says = str(error)
    return QuorumView(node, f"{address[0]}:{address[1]}", answers, epoch, leader, says, voters)


def _last_known(response: Any) -> tuple[int | None, int | None]:
    """The epoch and leader of an answer that is an error; Kafka's nodes do not tell them then."""
    if not (response.topics and response.nodes):
        return None, None
    seen = response.topics[0].partitions[0]
    return seen.leader_epoch, seen.leader_id if seen.leader_id >= 0 else None


def _voters(response: Any) -> dict[int, Address]:
    return {
        one.node_id: (one.listeners[0].host, one.listeners[0].port)
        for one in response.nodes
        if one.listeners
    }


async def known_controllers(cluster: Controllers) -> list[Broker]:
    """Those that have registered, and who votes by the word of the first that answers."""
    registered = (await cluster.refresh(())).brokers
    response: Any = await (await cluster.any_controller()).request(describe_request())
    voters = {node: Broker(node, *address) for node, address in _voters(response).items()}
    return list({**voters, **registered}.values())


async def leading_controller(cluster: Cluster) -> int | None:
    """Who leads the controllers, by the word of one broker; None if nobody does, or it cannot
    tell. `UnsupportedVersion` where the cluster does not tell."""
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await cluster.any_broker()
            return described(await connection.request(describe_request())).leader
    except (TimeoutError, KafkaError):
        return None


def told(views: Iterable[QuorumView]) -> list[dict[str, Any]]:
    """For scripts."""
    return [
        {
            "node": view.node,
            "answers": view.answers,
            "leader_epoch": view.epoch,
            "leader": view.leader,
            "says": view.says,
        }
        for view in views
    ]
