"""Ottla: an event-streaming platform in Python that speaks Kafka's protocol.

These names are the public interface of the clients: `from ottla import Producer, Consumer, Admin`.
`ottla.blocking` has the same three without `await`. Modules are imported only when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl as Acl
    from ottla.client.admin.acls import AclFilter as AclFilter
    from ottla.client.admin.acls import AclOperation as AclOperation
    from ottla.client.admin.acls import AclPatternType as AclPatternType
    from ottla.client.admin.acls import AclPermission as AclPermission
    from ottla.client.admin.acls import AclResourceType as AclResourceType
    from ottla.client.admin.admin import Admin as Admin
    from ottla.client.admin.cluster_admin import DescribedCluster as DescribedCluster
    from ottla.client.admin.cluster_admin import FeatureLevels as FeatureLevels
    from ottla.client.admin.cluster_admin import ServedApi as ServedApi
    from ottla.client.admin.configs import AlterOperation as AlterOperation
    from ottla.client.admin.configs import ConfigChange as ConfigChange
    from ottla.client.admin.configs import ConfigEntry as ConfigEntry
    from ottla.client.admin.configs import ConfigResource as ConfigResource
    from ottla.client.admin.configs import ConfigSource as ConfigSource
    from ottla.client.admin.configs import ResourceType as ResourceType
    from ottla.client.admin.group_values import DescribedGroup as DescribedGroup
    from ottla.client.admin.group_values import GroupMember as GroupMember
    from ottla.client.admin.group_values import ListedGroup as ListedGroup
    from ottla.client.admin.group_values import PartitionLag as PartitionLag
    from ottla.client.admin.log_dirs import LogDir as LogDir
    from ottla.client.admin.log_dirs import Replica as Replica
    from ottla.client.admin.log_dirs import ReplicaLogDirs as ReplicaLogDirs
    from ottla.client.admin.log_dirs import ReplicaOf as ReplicaOf
    from ottla.client.admin.offsets import OffsetSpec as OffsetSpec
    from ottla.client.admin.quorum import DescribedQuorum as DescribedQuorum
    from ottla.client.admin.quorum import QuorumMember as QuorumMember
    from ottla.client.admin.quotas import QuotaEntity as QuotaEntity
    from ottla.client.admin.quotas import QuotaName as QuotaName
    from ottla.client.admin.reassignments import Reassignment as Reassignment
    from ottla.client.admin.tokens import DelegationToken as DelegationToken
    from ottla.client.admin.topics import CreatedTopic as CreatedTopic
    from ottla.client.admin.topics import EligibleLeaders as EligibleLeaders
    from ottla.client.admin.topics import NewTopic as NewTopic
    from ottla.client.admin.transaction_values import ActiveProducer as ActiveProducer
    from ottla.client.admin.transaction_values import DescribedTransaction as DescribedTransaction
    from ottla.client.admin.transaction_values import FencedProducer as FencedProducer
    from ottla.client.admin.transaction_values import HangingTransaction as HangingTransaction
    from ottla.client.admin.transaction_values import ListedTransaction as ListedTransaction
    from ottla.client.admin.users import ScramCredential as ScramCredential
    from ottla.client.admin.users import ScramDeletion as ScramDeletion
    from ottla.client.admin.users import ScramMechanism as ScramMechanism
    from ottla.client.admin.users import ScramUpsertion as ScramUpsertion
    from ottla.client.consumer.assignors.assignor import Assignment as Assignment
    from ottla.client.consumer.assignors.assignor import Assignor as Assignor
    from ottla.client.consumer.assignors.assignor import RebalanceProtocol as RebalanceProtocol
    from ottla.client.consumer.assignors.assignor import Subscription as Subscription
    from ottla.client.consumer.assignors.cooperative_sticky import (
        CooperativeStickyAssignor as CooperativeStickyAssignor,
    )
    from ottla.client.consumer.assignors.range_assignor import RangeAssignor as RangeAssignor
    from ottla.client.consumer.assignors.round_robin import RoundRobinAssignor as RoundRobinAssignor
    from ottla.client.consumer.assignors.sticky import StickyAssignor as StickyAssignor
    from ottla.client.consumer.consumer import Consumer as Consumer
    from ottla.client.consumer.fetching.buffer import FetchedBatch as FetchedBatch
    from ottla.client.consumer.groups.rebalance_listener import (
        RebalanceListener as RebalanceListener,
    )
    from ottla.client.consumer.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from ottla.client.consumer.parallel.settings import ParallelOptions as ParallelOptions
    from ottla.client.errors import AuthenticationFailed as AuthenticationFailed
    from ottla.client.errors import BadAddress as BadAddress
    from ottla.client.errors import BadColumn as BadColumn
    from ottla.client.errors import BadResponse as BadResponse
    from ottla.client.errors import BadSetting as BadSetting
    from ottla.client.errors import BufferExhausted as BufferExhausted
    from ottla.client.errors import ClientError as ClientError
    from ottla.client.errors import CommitFailed as CommitFailed
    from ottla.client.errors import CommitInterrupted as CommitInterrupted
    from ottla.client.errors import ConnectionLost as ConnectionLost
    from ottla.client.errors import DeliveryFailed as DeliveryFailed
    from ottla.client.errors import DeliveryTimedOut as DeliveryTimedOut
    from ottla.client.errors import GroupActive as GroupActive
    from ottla.client.errors import GroupMissing as GroupMissing
    from ottla.client.errors import HandlerCancelled as HandlerCancelled
    from ottla.client.errors import IllegalState as IllegalState
    from ottla.client.errors import LogTruncation as LogTruncation
    from ottla.client.errors import MissingExtra as MissingExtra
    from ottla.client.errors import NoBrokerReachable as NoBrokerReachable
    from ottla.client.errors import NoOffsetForPartition as NoOffsetForPartition
    from ottla.client.errors import NotBytes as NotBytes
    from ottla.client.errors import OffsetOutOfRange as OffsetOutOfRange
    from ottla.client.errors import PartitionUnreadable as PartitionUnreadable
    from ottla.client.errors import PositionTimedOut as PositionTimedOut
    from ottla.client.errors import PreparedTransactionLost as PreparedTransactionLost
    from ottla.client.errors import ProducerClosed as ProducerClosed
    from ottla.client.errors import ProducerFenced as ProducerFenced
    from ottla.client.errors import RecordDeserializationError as RecordDeserializationError
    from ottla.client.errors import RecordTooLarge as RecordTooLarge
    from ottla.client.errors import RequestTimedOut as RequestTimedOut
    from ottla.client.errors import TlsFailed as TlsFailed
    from ottla.client.errors import TopicMissing as TopicMissing
    from ottla.client.errors import TransactionAborted as TransactionAborted
    from ottla.client.errors import TransactionError as TransactionError
    from ottla.client.errors import TransactionFailed as TransactionFailed
    from ottla.client.errors import TransactionFatal as TransactionFatal
    from ottla.client.errors import TransactionStateError as TransactionStateError
    from ottla.client.errors import TransactionTimedOut as TransactionTimedOut
    from ottla.client.errors import Unreachable as Unreachable
    from ottla.client.errors import UnreadableBatch as UnreadableBatch
    from ottla.client.errors import UnsupportedVersion as UnsupportedVersion
    from ottla.client.errors import Wakeup as Wakeup
    from ottla.client.network.metadata import Broker as Broker
    from ottla.client.network.metadata import Partition as Partition
    from ottla.client.network.metadata import Topic as Topic
    from ottla.client.producer.columns.sent_rows import SentRange as SentRange
    from ottla.client.producer.columns.sent_rows import SentRows as SentRows
    from ottla.client.producer.interceptors import ProducerInterceptor as ProducerInterceptor
    from ottla.client.producer.interceptors import ProducerRecord as ProducerRecord
    from ottla.client.producer.producer import Producer as Producer
    from ottla.client.producer.routing.partitioners import PartitionChoices as PartitionChoices
    from ottla.client.producer.routing.partitioners import Partitioner as Partitioner
    from ottla.client.producer.routing.partitioners import RandomPartitioner as RandomPartitioner
    from ottla.client.producer.routing.partitioners import (
        RoundRobinPartitioner as RoundRobinPartitioner,
    )
    from ottla.client.producer.sent import Sent as Sent
    from ottla.client.producer.transactions.prepared import (
        PreparedTransaction as PreparedTransaction,
    )
    from ottla.client.serializers import Deserializer as Deserializer
    from ottla.client.serializers import JsonDeserializer as JsonDeserializer
    from ottla.client.serializers import JsonSerializer as JsonSerializer
    from ottla.client.serializers import Serializer as Serializer
    from ottla.client.serializers import StringDeserializer as StringDeserializer
    from ottla.client.serializers import StringSerializer as StringSerializer
    from ottla.client.settings.base import with_underscores as with_underscores
    from ottla.client.settings.common import ClientOptions as ClientOptions
    from ottla.client.settings.consumer import ConsumerOptions as ConsumerOptions
    from ottla.client.settings.producer import ProducerOptions as ProducerOptions
    from ottla.client.values import AnyRecord as AnyRecord
    from ottla.client.values import ConsumerRecord as ConsumerRecord
    from ottla.client.values import GroupMetadata as GroupMetadata
    from ottla.client.values import OffsetAndMetadata as OffsetAndMetadata
    from ottla.client.values import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.client.values import RecordMetadata as RecordMetadata
    from ottla.client.values import TimestampType as TimestampType
    from ottla.client.values import TopicPartition as TopicPartition
    from ottla.protocol.errors import ErrorCode as ErrorCode
    from ottla.protocol.errors import KafkaError as KafkaError

__version__ = "0.1.0"

if not TYPE_CHECKING:  # so that type checkers report names that do not exist
    __getattr__, __dir__ = lazily(__name__)
