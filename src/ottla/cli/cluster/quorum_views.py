"""Asks each node of a cluster what it knows about the controllers.

A node with access to a majority tells everything. Without a majority, each node tells the epoch,
leader and voters it last knew. Then voters that are not brokers are asked too, so that those that
do not answer can be named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.admin.quorum import DescribedQuorum, describe_request, described
from ottla.client.errors import ClientError, UnsupportedVersion
from ottla.client.network.metadata import Broker
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.errors import Address
    from ottla.client.network.cluster import Cluster
    from ottla.client.network.controllers import Controllers

ANSWER_S: Final = 2.5
"""Ottla's brokers give up waiting for a controller after two seconds and report it."""


class QuorumView(NamedTuple):
    """The answer of a node that could not describe the quorum."""

    node: int
    at: str
    answers: bool
    epoch: int | None
    leader: int | None
    says: str
    """Why there was no answer, or the error in it."""
    voters: Mapping[int, Address]
    """The voters it named, and their addresses."""

    @property
    def line(self) -> str:
        if self.epoch is None:
            return f"node {self.node} ({self.at}): {self.says}"
        leader = "no leader" if self.leader is None else f"last leader {self.leader}"
        return f"node {self.node} ({self.at}): answers; quorum epoch {self.epoch}, {leader}"


async def ask_all(cluster: Cluster, nodes: Iterable[Broker]) -> DescribedQuorum | list[QuorumView]:
    """Return the first good answer, or every node's view if there is none. Raise
    `UnsupportedVersion` if the cluster cannot tell, and `KafkaError` if the caller may not know."""
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
        raise  # an old cluster, which has no quorum
    except TimeoutError:
        says = f"does not answer within {ANSWER_S:g} s"
    except KafkaError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        says = str(error)
    except ClientError as error:
        says = str(error)
    return QuorumView(node, f"{address[0]}:{address[1]}", answers, epoch, leader, says, voters)


def _last_known(response: Any) -> tuple[int | None, int | None]:
    """Return the epoch and leader in an error response; Kafka's nodes do not include them."""
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
    """Return the registered controllers, and the voters named by the first that answers."""
    registered = (await cluster.refresh(())).brokers
    response: Any = await (await cluster.any_controller()).request(describe_request())
    voters = {node: Broker(node, *address) for node, address in _voters(response).items()}
    return list({**voters, **registered}.values())


async def leading_controller(cluster: Cluster) -> int | None:
    """Return the leading controller according to one broker; None if there is none or it does not
    know. Raise `UnsupportedVersion` if the cluster cannot tell."""
    try:
        async with asyncio.timeout(ANSWER_S):
            connection = await cluster.any_broker()
            return described(await connection.request(describe_request())).leader
    except (TimeoutError, KafkaError):
        return None


def told(views: Iterable[QuorumView]) -> list[dict[str, Any]]:
    """Return the views as JSON types."""
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
