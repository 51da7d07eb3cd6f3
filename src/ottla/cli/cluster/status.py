"""The state of a cluster, collected from its brokers and controllers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.cluster.quorum_views import QuorumView, ask_all, told
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.quorum import DescribedQuorum
from ottla.client.admin.topics import EligibleLeaders
from ottla.client.errors import UnsupportedVersion
from ottla.client.network.metadata import Broker, Topic
from ottla.client.values import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.admin.quorum import QuorumMember
    from ottla.client.network.cluster import Cluster

SILENT_MS: Final = 3_000
"""A node that has not fetched metadata for this long is not just between two fetches."""
NONE_ELIGIBLE: Final[Mapping[TopicPartition, EligibleLeaders]] = {}
MIN_ISR: Final = "min.insync.replicas"
NO_LEADER: Final = "no leader"
UNDER_MIN_ISR: Final = "fewer in sync than min.insync.replicas"
UNDER_REPLICATED: Final = "not all in sync"


@dataclass(frozen=True, slots=True)
class BrokerState:
    node: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    why: str | None
    """Why it is fenced, as far as it is visible from outside."""
    leads: int
    replicas: int
    in_sync: int
    metadata_lag: int | None
    registered: bool = True


@dataclass(frozen=True, slots=True)
class PartitionInNeed:
    topic: str
    partition: int
    problem: str
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    missing: tuple[int, ...]
    waits_for: tuple[int, ...] = ()
    """If there is no leader: the first of these brokers that is available becomes leader."""


@dataclass(frozen=True, slots=True)
class Stock:
    cluster_id: str | None
    metadata_version: int | None
    quorum: DescribedQuorum | None
    now_ms: int
    brokers: tuple[BrokerState, ...]
    topic_count: int
    partition_count: int
    in_need: tuple[PartitionInNeed, ...]
    views: tuple[QuorumView, ...] = ()
    """The view of each node on the controllers, if none of them leads."""

    def count(self, problem: str) -> int:
        return sum(one.problem == problem for one in self.in_need)

    @property
    def problems(self) -> list[str]:
        """The problems, worst first, one line each."""
        found = []
        if self.views:
            found.append(
                "no majority of the controllers: nothing can be changed, no leader elected, and "
                "what is said of brokers and partitions is old"
            )
            found += [view.line for view in self.views]
        found += [
            f"{self.count(problem)} partition(s): {problem}"
            for problem in (NO_LEADER, UNDER_MIN_ISR, UNDER_REPLICATED)
            if self.count(problem)
        ]
        found += [
            f"broker {one.node} is {'fenced: ' if one.registered else ''}{one.why}"
            for one in self.brokers
            if one.fenced
        ]
        if self.quorum is not None:
            found += lagging_voters(self.quorum, self.now_ms)
        return found


async def take_stock(cluster: Cluster) -> Stock:
    admin = Admin.over(cluster)
    there = await admin.describe_cluster()
    quorum, views = await _quorum(cluster, there.brokers.values())
    topics = [
        topic
        for topic in (await admin.describe_topics()).values()
        if not isinstance(topic, KafkaError)
    ]
    now_ms = SystemClock().wall_ms()
    needy = [topic for topic in topics if any(_is_short(p) for p in topic.partitions)]
    return Stock(
        there.cluster_id,
        (await admin.describe_features()).finalized.get("metadata.version"),
        quorum,
        now_ms,
        tuple(
            broker_states(
                there.brokers.values(), topics, quorum, now_ms, tells_fenced=there.tells_fenced
            )
        ),
        len(topics),
        sum(len(topic.partitions) for topic in topics),
        tuple(
            partitions_in_need(needy, await _min_isr(admin, needy), await _eligible(admin, needy))
        ),
        tuple(views),
    )


async def _quorum(
    cluster: Cluster, brokers: Iterable[Broker]
) -> tuple[DescribedQuorum | None, list[QuorumView]]:
    """Return the quorum, or the views of all nodes; neither if the cluster does not support it."""
    try:
        found = await ask_all(cluster, brokers)
    except UnsupportedVersion:
        return None, []
    return (found, []) if isinstance(found, DescribedQuorum) else (None, found)


async def _eligible(admin: Admin, topics: Sequence[Topic]) -> dict[TopicPartition, EligibleLeaders]:
    """Return the eligible leaders of the topics that have a partition without a leader."""
    names = [topic.name for topic in topics if any(p.leader < 0 for p in topic.partitions)]
    return await admin.describe_eligible_leaders(names)


async def _min_isr(admin: Admin, topics: Sequence[Topic]) -> dict[str, int]:
    wanted = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    if not wanted:
        return {}
    found = await admin.describe_configs(wanted)
    return {
        resource.name: int(entry.value or 1)
        for resource, entries in found.items()
        if not isinstance(entries, KafkaError)
        for entry in entries
        if entry.name == MIN_ISR
    }


# --- brokers ------------------------------------------------------------------------------------


def broker_states(
    brokers: Iterable[Broker],
    topics: Sequence[Topic],
    quorum: DescribedQuorum | None,
    now_ms: int,
    *,
    tells_fenced: bool = False,
) -> list[BrokerState]:
    """Return the state of each broker. `tells_fenced`: `brokers` includes fenced ones, so any other
    broker that has replicas is not registered."""
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions:
            leads[partition.leader] += 1
            replicas.update(partition.replicas)
            in_sync.update(partition.isr)
    members = {} if quorum is None else {m.node_id: m for m in (*quorum.voters, *quorum.observers)}
    known = {broker.node_id: broker for broker in brokers}
    # A broker that has replicas but is not listed is unregistered or, in an old cluster, fenced.
    missing = replicas.keys() - known.keys()
    forgotten = missing if tells_fenced else set()
    for gone in missing:
        known[gone] = Broker(gone, "", -1, is_fenced=True)

    def why(node: int) -> str | None:
        if node in forgotten:
            return (
                f"not registered any more, but {replicas[node]} partition(s) still name it: "
                "reassign them"
            )
        return _why_fenced(members.get(node), quorum, now_ms)

    return [
        BrokerState(
            node=node,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            fenced=broker.is_fenced,
            why=why(node) if broker.is_fenced else None,
            leads=leads[node],
            replicas=replicas[node],
            in_sync=in_sync[node],
            metadata_lag=_lag(members.get(node), quorum),
            registered=node not in forgotten,
        )
        for node, broker in sorted(known.items())
    ]


def _lag(member: QuorumMember | None, quorum: DescribedQuorum | None) -> int | None:
    return None if member is None or quorum is None else quorum.lag_of(member)


def _why_fenced(
    member: QuorumMember | None, quorum: DescribedQuorum | None, now_ms: int
) -> str | None:
    if quorum is None:
        return "so it was when a controller was last heard of"
    if member is None:
        return "it does not follow the controllers: stopped, or not reached"
    if member.node_id == quorum.leader:
        return "its own heartbeats do not arrive in time, or it is starting"
    if member.last_fetch_ms is None:
        return f"not heard of since controller {quorum.leader} took over: stopped, or not reached"
    if now_ms - member.last_fetch_ms > SILENT_MS:
        silent_s = (now_ms - member.last_fetch_ms) / 1000
        return f"not heard of for {silent_s:.0f} s: stopped, or not reached"
    if lag := quorum.lag_of(member):
        return f"catching up with the metadata, {lag} offsets behind"
    return "it follows the controllers, but its heartbeats do not arrive, or it is starting"


def lagging_voters(quorum: DescribedQuorum, now_ms: int) -> list[str]:
    found = []
    for voter in quorum.voters:
        if voter.node_id == quorum.leader:
            continue
        behind_ms = None if voter.last_caught_up_ms is None else now_ms - voter.last_caught_up_ms
        if behind_ms is None:
            found.append(
                f"voter {voter.node_id} has not caught up with the controllers' log since "
                f"controller {quorum.leader} took over"
            )
        elif behind_ms > SILENT_MS:
            found.append(
                f"voter {voter.node_id} has not caught up with the controllers' log for "
                f"{behind_ms / 1000:.0f} s, {quorum.lag_of(voter)} offsets behind"
            )
    return found


# --- partitions ---------------------------------------------------------------------------------


def _is_short(partition: Any) -> bool:
    return partition.leader < 0 or len(partition.isr) < len(partition.replicas)


def partitions_in_need(
    topics: Iterable[Topic],
    min_isr: Mapping[str, int],
    eligible: Mapping[TopicPartition, EligibleLeaders] = NONE_ELIGIBLE,
) -> Iterable[PartitionInNeed]:
    for topic in topics:
        for partition in filter(_is_short, topic.partitions):
            least = min(min_isr.get(topic.name, 1), len(partition.replicas))
            problem = UNDER_REPLICATED
            if partition.leader < 0:
                problem = NO_LEADER
            elif len(partition.isr) < least:
                problem = UNDER_MIN_ISR
            yield PartitionInNeed(
                topic.name,
                partition.index,
                problem,
                partition.leader if partition.leader >= 0 else None,
                partition.replicas,
                partition.isr,
                tuple(b for b in partition.replicas if b not in partition.isr),
                _waits_for(partition, eligible.get(TopicPartition(topic.name, partition.index))),
            )


def _waits_for(partition: Any, found: EligibleLeaders | None) -> tuple[int, ...]:
    if partition.leader >= 0:
        return ()
    others = () if found is None else found.eligible or found.last_known
    return partition.isr or others


# --- for scripts --------------------------------------------------------------------------------


def as_json(stock: Stock) -> dict[str, Any]:
    from ottla.cli.cluster.quorum import members_of

    quorum = stock.quorum
    return {
        "cluster_id": stock.cluster_id,
        "metadata_version": stock.metadata_version,
        "controllers": None
        if quorum is None
        else {
            "leader": quorum.leader,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "members": members_of(quorum, stock.now_ms),
        },
        "nodes_without_majority": told(stock.views),
        "brokers": [asdict(one) for one in stock.brokers],
        "topics": stock.topic_count,
        "partitions": stock.partition_count,
        "without_leader": stock.count(NO_LEADER),
        "under_min_isr": stock.count(UNDER_MIN_ISR),
        "under_replicated": len(stock.in_need),
        "in_need": [asdict(one) for one in stock.in_need],
        "problems": stock.problems,
    }
