"""The blocking `Admin`.

scripts/mirror_admin.py writes this module from `ottla.client.admin`: change methods there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self, Unpack

from ottla.blocking.loop_user import LoopUser
from ottla.client.admin.acls import ALL_ACLS, Acl, AclFilter
from ottla.client.admin.admin import Admin as AsyncAdmin
from ottla.client.admin.cluster_admin import DescribedCluster, FeatureLevels, ServedApi
from ottla.client.admin.configs import Changes, ConfigEntry, ConfigResource
from ottla.client.admin.group_values import DescribedGroup, GroupMember, ListedGroup, PartitionLag
from ottla.client.admin.groups import REMOVED_BY_HAND
from ottla.client.admin.log_dirs import LogDir, ReplicaLogDirs, ReplicaOf
from ottla.client.admin.offsets import IsolationLevel
from ottla.client.admin.producers import IDLE_MS_DEFAULT
from ottla.client.admin.quorum import DescribedQuorum
from ottla.client.admin.quotas import Name, QuotaEntity
from ottla.client.admin.reassignments import Reassignment
from ottla.client.admin.tokens import DelegationToken
from ottla.client.admin.topics import SERVER_DEFAULT, CreatedTopic, EligibleLeaders, NewTopic
from ottla.client.admin.transaction_values import (
    ActiveProducer,
    DescribedTransaction,
    FencedProducer,
    HangingTransaction,
    ListedTransaction,
)
from ottla.client.admin.users import ScramCredential, ScramDeletion, ScramUpsertion
from ottla.client.network.metadata import Topic
from ottla.client.settings.common import ClientOptions, ClientSettings
from ottla.client.settings.documentation import lists_settings
from ottla.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.producer.transactions.prepared import PreparedTransaction


@lists_settings(ClientSettings)
class Admin:
    """Administers a cluster.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     admin.create_topic("payments", partitions=6)
    ...     print(admin.list_topics())

    Requests that the cluster does not support raise `UnsupportedVersion`.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        self._loop = LoopUser("Admin")
        self._admin = AsyncAdmin(**options)

    def start(self) -> None:
        """Connect; `with` does this. Raises `NoBrokerReachable` if no broker answers within
        default_api_timeout_ms."""
        self._loop.open(self._admin.start)

    def close(self) -> None:
        """Close all connections. Further calls do nothing."""
        self._loop.close(self._admin.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Cluster calls

    def describe_cluster(self) -> DescribedCluster:
        """Return the controller and all brokers, fenced ones too if the cluster reports them."""
        return self._loop.call(self._admin.describe_cluster)

    def describe_apis(self, broker: int | None = None) -> list[ServedApi]:
        """Return the versions of each API that a broker serves: the given broker, or any."""
        return self._loop.call(lambda: self._admin.describe_apis(broker))

    def describe_features(self, broker: int | None = None) -> FeatureLevels:
        """Return the finalized and supported levels of features such as metadata.version."""
        return self._loop.call(lambda: self._admin.describe_features(broker))

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        downgrade: Literal["safe", "unsafe"] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise features to these levels, all or none. Level 0 disables a feature. Lowering a
        level requires `downgrade`: "safe" if it loses no metadata, otherwise "unsafe".

        >>> admin.update_features({"transaction.version": 2})
        """
        self._loop.call(
            lambda: self._admin.update_features(
                levels, downgrade=downgrade, validate_only=validate_only
            )
        )

    def unregister_broker(self, broker: int) -> None:
        """Unregister a broker that was stopped for good. Its partitions are not moved: reassign
        them first."""
        self._loop.call(lambda: self._admin.unregister_broker(broker))

    # Quorum calls

    def describe_metadata_quorum(self) -> DescribedQuorum:
        """Describe the metadata log: leader, voters, observers, and how far each has come."""
        return self._loop.call(self._admin.describe_metadata_quorum)

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: str,
        endpoints: Mapping[str, tuple[str, int]],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller that follows the metadata log a voter. `directory_id` is that of its
        metadata log (`ottla storage info` shows it); `endpoints` are its controller listeners.

        >>> admin.add_raft_voter(4, "kXSyEMBiQkKj0yEAzPXpRg", {"CONTROLLER": ("host4", 9093)})
        """
        self._loop.call(
            lambda: self._admin.add_raft_voter(
                voter_id, directory_id, endpoints, cluster_id=cluster_id
            )
        )

    def remove_raft_voter(
        self, voter_id: int, directory_id: str, *, cluster_id: str | None = None
    ) -> None:
        """Remove a controller from the voters. Stop it only after this call succeeds: it counts for
        the majority until then."""
        self._loop.call(
            lambda: self._admin.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id)
        )

    # Config calls

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, documentation: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        """Return all configs of each resource, with the source of each value.

        >>> payments = ConfigResource(ResourceType.TOPIC, "payments")
        >>> settings = (admin.describe_configs([payments]))[payments]
        """
        return self._loop.call(
            lambda: self._admin.describe_configs(resources, documentation=documentation)
        )

    def describe_config(
        self, resource: ConfigResource, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return the configs of one resource, sorted by name."""
        return self._loop.call(
            lambda: self._admin.describe_config(resource, documentation=documentation)
        )

    def alter_configs(
        self, changes: Mapping[ConfigResource, Changes], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change the named configs of each resource and leave its other configs as they are.

        >>> payments = ConfigResource(ResourceType.TOPIC, "payments")
        >>> admin.alter_configs({payments: {"retention.ms": "3600000"}})
        """
        return self._loop.call(
            lambda: self._admin.alter_configs(changes, validate_only=validate_only)
        )

    def alter_config(
        self, resource: ConfigResource, changes: Changes, *, validate_only: bool = False
    ) -> None:
        """Change configs of one resource, or raise its error."""
        self._loop.call(
            lambda: self._admin.alter_config(resource, changes, validate_only=validate_only)
        )

    # Offset calls

    def list_offsets(
        self,
        at: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """Return each partition's offset at an `OffsetSpec`, or its first at a timestamp in ms.

        An offset of -1 means that no record is that late. With read_committed, LATEST is the last
        stable offset.

        >>> admin.list_offsets({TopicPartition("payments", 0): OffsetSpec.LATEST})
        """
        return self._loop.call(
            lambda: self._admin.list_offsets(at, isolation_level=isolation_level)
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete the records before an offset (-1: all), and return the new first offsets.

        >>> admin.delete_records({TopicPartition("payments", 0): 1_000})
        """
        return self._loop.call(lambda: self._admin.delete_records(before))

    # GroupLag calls

    def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return the lag, in records and in ms, of each partition that a group committed or owns.

        >>> sum(partition.lag or 0 for partition in admin.group_lag("ledger"))
        """
        return self._loop.call(lambda: self._admin.group_lag(group_id))

    def group_lags(
        self, groups: Iterable[DescribedGroup]
    ) -> dict[str, list[PartitionLag] | KafkaError]:
        """Return the same for several groups that are already described."""
        return self._loop.call(lambda: self._admin.group_lags(groups))

    # Group calls

    def list_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """Return all groups of the cluster, or those with one of these states and types."""
        return self._loop.call(lambda: self._admin.list_groups(states=states, types=types))

    def list_consumer_groups(self, *, states: Collection[str] = ()) -> list[ListedGroup]:
        """Return the consumer groups of both protocols, and groups that only hold offsets."""
        return self._loop.call(lambda: self._admin.list_consumer_groups(states=states))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, DescribedGroup | KafkaError]:
        """Describe groups of either protocol; GROUP_ID_NOT_FOUND for a group that does not exist.

        >>> groups = admin.describe_groups(["ledger"])
        >>> [member.client_id for member in groups["ledger"].members]
        """
        return self._loop.call(lambda: self._admin.describe_groups(group_ids))

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Describe one group. Raises `GroupMissing` if it does not exist."""
        return self._loop.call(lambda: self._admin.describe_group(group_id))

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, with their committed offsets."""
        return self._loop.call(lambda: self._admin.delete_groups(group_ids))

    def delete_group(self, group_id: str) -> None:
        """Delete one group. Raises `GroupMissing`, or `GroupActive` if it has members."""
        self._loop.call(lambda: self._admin.delete_group(group_id))

    def remove_members_from_group(
        self,
        group_id: str,
        members: Iterable[GroupMember | str] | None = None,
        *,
        reason: str = REMOVED_BY_HAND,
    ) -> dict[str, KafkaError | None]:
        """Remove members at once: by group_instance_id, as `describe_group` returns them, or all.

        Use it for consumers that are gone, so that the group does not wait for them. A consumer
        that is still running rejoins by itself.
        """
        return self._loop.call(
            lambda: self._admin.remove_members_from_group(group_id, members, reason=reason)
        )

    # GroupOffset calls

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets the group has committed, for these partitions or all; empty if the
        group does not exist. With `stable`, wait for transactions that may still commit offsets."""
        return self._loop.call(
            lambda: self._admin.list_group_offsets(group_id, partitions, stable=stable)
        )

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set the offsets from which a group continues. Raises `GroupActive` if it has members.

        >>> admin.alter_group_offsets("ledger", {TopicPartition("payments", 0): 1_000})
        """
        return self._loop.call(lambda: self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets. An active group keeps those of topics it subscribes to."""
        return self._loop.call(lambda: self._admin.delete_group_offsets(group_id, partitions))

    # Producer calls

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        """Return the active producers of each partition."""
        return self._loop.call(lambda: self._admin.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
    ) -> None:
        """Write an abort marker to one partition without asking the coordinator. Use it only for a
        transaction from `find_hanging_transactions`. To abort the open transaction of a
        transactional id, use `fence_producers`."""
        self._loop.call(
            lambda: self._admin.abort_transaction(
                partition, producer_id, producer_epoch, coordinator_epoch
            )
        )

    def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        brokers: Collection[int] | None = None,
        idle_ms: int = IDLE_MS_DEFAULT,
    ) -> list[HangingTransaction]:
        """Return transactions that are open in a partition and idle for `idle_ms`, but unknown to
        their coordinator: they block read_committed consumers for ever."""
        return self._loop.call(
            lambda: self._admin.find_hanging_transactions(topics, brokers=brokers, idle_ms=idle_ms)
        )

    # Transaction calls

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return all transactional ids of the cluster that match the filters.

        >>> admin.list_transactions(states=["Ongoing"], open_for_ms=60_000)
        """
        return self._loop.call(
            lambda: self._admin.list_transactions(
                states=states, producer_ids=producer_ids, open_for_ms=open_for_ms, pattern=pattern
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, DescribedTransaction | KafkaError]:
        """Describe transactions; TRANSACTIONAL_ID_NOT_FOUND for an id that was never used."""
        return self._loop.call(lambda: self._admin.describe_transactions(transactional_ids))

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        return self._loop.call(lambda: self._admin.describe_transaction(transactional_id))

    def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, FencedProducer | KafkaError]:
        """Abort the open transaction of each id and fence its producers, by taking a new epoch.

        An id that was never used is created by this.
        """
        return self._loop.call(lambda: self._admin.fence_producers(transactional_ids))

    def commit_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Commit what `Producer.prepare_transaction` prepared, in any process.

        Committing it again is no error.
        """
        self._loop.call(lambda: self._admin.commit_prepared(prepared))

    def abort_prepared(self, prepared: PreparedTransaction | str) -> None:
        """Abort what `Producer.prepare_transaction` prepared, in any process."""
        self._loop.call(lambda: self._admin.abort_prepared(prepared))

    # Topic calls

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; with `internal`, internal topics too."""
        return self._loop.call(lambda: self._admin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic | KafkaError]:
        """Describe the named topics, or all: partitions, leaders, replicas and ISR.

        >>> topics = admin.describe_topics(["payments"])
        >>> [partition.leader for partition in topics["payments"].partitions]
        """
        return self._loop.call(lambda: self._admin.describe_topics(names))

    def describe_topic(self, name: str) -> Topic:
        """Describe one topic. Raises `TopicMissing` if it does not exist."""
        return self._loop.call(lambda: self._admin.describe_topic(name))

    def describe_eligible_leaders(
        self, names: Iterable[str] | None = None
    ) -> dict[TopicPartition, EligibleLeaders]:
        """Return the partitions of the named topics, or of all, that have eligible leader replicas
        or last known ones. Empty if the cluster does not report them.

        >>> waiting = admin.describe_eligible_leaders(["payments"])
        """
        return self._loop.call(lambda: self._admin.describe_eligible_leaders(names))

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with individual settings; a plain name takes the broker's defaults.

        >>> admin.create_topics([NewTopic("payments", partitions=6), "clicks"])
        """
        return self._loop.call(
            lambda: self._admin.create_topics(topics, validate_only=validate_only)
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = SERVER_DEFAULT,
        replication_factor: int = SERVER_DEFAULT,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create one topic, or raise its error.

        >>> admin.create_topic("payments", partitions=6, configs={"retention.ms": "86400000"})
        """
        return self._loop.call(
            lambda: self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics with all their records, and return an error or None for each."""
        return self._loop.call(lambda: self._admin.delete_topics(names))

    def delete_topic(self, name: str) -> None:
        """Delete one topic. Raises `TopicMissing` if it does not exist."""
        self._loop.call(lambda: self._admin.delete_topic(name))

    def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `count` partitions; `assignments` lists the brokers of each new one.

        This moves keys to other partitions and cannot be undone.
        """
        self._loop.call(
            lambda: self._admin.create_partitions(
                topic, count, assignments=assignments, validate_only=validate_only
            )
        )

    # LogDir calls

    def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> list[LogDir]:
        """Return the log directories of all or the given brokers, with their replicas, or with
        those of `partitions`."""
        return self._loop.call(
            lambda: self._admin.describe_log_dirs(brokers, partitions=partitions)
        )

    def describe_replica_log_dirs(
        self, replicas: Iterable[ReplicaOf]
    ) -> dict[ReplicaOf, ReplicaLogDirs]:
        """Return the log directories of these replicas; None where the broker has no replica."""
        return self._loop.call(lambda: self._admin.describe_replica_log_dirs(replicas))

    def alter_replica_log_dirs(
        self, moves: Mapping[ReplicaOf, str]
    ) -> dict[ReplicaOf, KafkaError | None]:
        """Move replicas to the given log directories, in the background (see `is_future`)."""
        return self._loop.call(lambda: self._admin.alter_replica_log_dirs(moves))

    # Reassignment calls

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move partitions to brokers, the preferred leader first; None cancels a reassignment.

        >>> admin.alter_partition_reassignments({TopicPartition("payments", 0): [2, 3]})
        """
        return self._loop.call(lambda: self._admin.alter_partition_reassignments(targets))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the ongoing reassignments of these partitions, or of all."""
        return self._loop.call(lambda: self._admin.list_partition_reassignments(partitions))

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: Literal["preferred", "unclean"] = "preferred",
    ) -> dict[TopicPartition, KafkaError | None]:
        """Make the preferred replica the leader or, with "unclean", any replica if none is in sync.

        An unclean election loses the records that the new leader does not have. Without
        `partitions`, every partition that needs an election gets one. ELECTION_NOT_NEEDED means
        that the partition already has such a leader.
        """
        return self._loop.call(
            lambda: self._admin.elect_leaders(partitions, election_type=election_type)
        )

    # User calls

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        """Return the SCRAM mechanisms of the named users, or of all users that have one."""
        return self._loop.call(lambda: self._admin.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """Set passwords and delete mechanisms, and return an error or None for each user.

        >>> admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
        """
        return self._loop.call(lambda: self._admin.alter_user_scram_credentials(changes))

    # Token calls

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
    ) -> DelegationToken:
        """Create a token for this client's own user, or with the right to do so for another one.
        The renewers may renew and expire it, too.

        >>> token = admin.create_delegation_token(renewers=["User:scheduler"])
        """
        return self._loop.call(
            lambda: self._admin.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
            )
        )

    def renew_delegation_token(self, hmac: bytes, *, period_ms: int | None = None) -> int:
        """Let a token expire in `period_ms` from now, or when the cluster lets tokens expire.
        Returns when that is."""
        return self._loop.call(
            lambda: self._admin.renew_delegation_token(hmac, period_ms=period_ms)
        )

    def expire_delegation_token(self, hmac: bytes, *, period_ms: int | None = None) -> int:
        """Let a token expire in `period_ms` from now, or remove it at once. Returns when it
        expires."""
        return self._loop.call(
            lambda: self._admin.expire_delegation_token(hmac, period_ms=period_ms)
        )

    def describe_delegation_token(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of these owners, or all, that this client may see."""
        return self._loop.call(lambda: self._admin.describe_delegation_token(owners))

    # Quota calls

    def describe_client_quotas(
        self, *, user: Name = None, client_id: Name = None, ip: Name = None, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of matching entities: by name, DEFAULT or ANY; without arguments, all.

        `strict` leaves out entities with parts that are not named here.
        """
        return self._loop.call(
            lambda: self._admin.describe_client_quotas(
                user=user, client_id=client_id, ip=ip, strict=strict
            )
        )

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas by Kafka's keys; None removes a quota.

        >>> alice = QuotaEntity(user="alice")
        >>> admin.alter_client_quotas({alice: {"producer_byte_rate": 1_048_576}})
        """
        return self._loop.call(
            lambda: self._admin.alter_client_quotas(changes, validate_only=validate_only)
        )

    # Acl calls

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """Add ACLs and return an error or None for each. Adding an existing ACL is no error."""
        return self._loop.call(lambda: self._admin.create_acls(acls))

    def describe_acls(self, matching: AclFilter = ALL_ACLS) -> list[Acl]:
        """Return the ACLs that match the filter; without a filter, all ACLs."""
        return self._loop.call(lambda: self._admin.describe_acls(matching))

    def delete_acls(self, matching: Iterable[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        """Delete the ACLs that match, and return the deleted ACLs of each filter."""
        return self._loop.call(lambda: self._admin.delete_acls(matching))
