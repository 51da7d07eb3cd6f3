"""Kafka's error codes, and the exceptions of the protocol.

ValueError
  MalformedMessage   bytes that no correct peer would send
Exception
  KafkaError         an error code, sent to or received from a peer
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeVar


class MalformedMessage(ValueError):
    """The bytes are not the message they should be. The peer is at fault."""


class TooManyElements(MalformedMessage):
    """A message has more array elements than the caller decodes or encodes in one go."""


class ErrorCode(IntEnum):
    """Every error code of the protocol: number, meaning, and whether a retry can help."""

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str, retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "The server met an error it did not expect."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The offset lies outside the offsets this partition holds."
    CORRUPT_MESSAGE = (
        2,
        "The message is corrupt: bad checksum, impossible size, or no key on a compacted topic.",
        True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not host that topic or partition.", True
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", True
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker is not the leader of the partition, or no replica of it.",
        True,
    )
    REQUEST_TIMED_OUT = 7, "The request ran out of time.", True
    BROKER_NOT_AVAILABLE = 8, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, "The replica of that partition cannot be reached.", True
    MESSAGE_TOO_LARGE = 10, "The message is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, "Another controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata string of the committed offset is too long."
    NETWORK_EXCEPTION = 13, "The connection was lost before the answer came.", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state.", True
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", True
    NOT_COORDINATOR = 16, "This broker does not coordinate that group or transaction.", True
    INVALID_TOPIC_EXCEPTION = (
        17,
        "The topic name is not valid, or the operation is not allowed on this topic.",
    )
    RECORD_LIST_TOO_LARGE = 18, "The batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = 19, "Too few replicas are in sync to accept the write.", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The write is in the log, but too few replicas are in sync.",
        True,
    )
    INVALID_REQUIRED_ACKS = 21, "The acks setting must be 0, 1 or -1."
    ILLEGAL_GENERATION = 22, "The group is not at that generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no protocol with the group, or named none."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "The timestamp of the record is outside the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer that SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "This version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic of that name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or above the number of usable brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is not valid."
    INVALID_CONFIG = 40, "A configuration value is not valid."
    NOT_CONTROLLER = 41, "This node is not the active controller.", True
    INVALID_REQUEST = 42, "The request is malformed or makes no sense to this broker."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The stored message format cannot serve this request."
    POLICY_VIOLATION = 44, "The request breaks a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The batch does not continue the sequence of its producer."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The batch with this sequence was stored before."
    INVALID_PRODUCER_EPOCH = 47, "The producer uses an old epoch."
    INVALID_TXN_STATE = 48, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the limit of the broker."
    CONCURRENT_TRANSACTIONS = (
        51,
        "Another operation on the same transaction is still running.",
        True,
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "A newer transaction coordinator has taken over this producer.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "Not tried, since another operation of the same request failed."
    KAFKA_STORAGE_ERROR = 56, "The disk that holds the log failed.", True
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59,
        "The broker holds no state of this producer id; its records may have expired.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal may not act on this delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be managed over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation Token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of the principal is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "There is no such fetch session.", True
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session is at another epoch.", True
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name this request came in by.", True
    TOPIC_DELETION_DISABLED = 73, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, "The leader epoch of the request is older than the broker's.", True
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch of the request is newer than the broker's.", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The compression type is not supported in this version."
    STALE_BROKER_EPOCH = 77, "The broker has registered anew since."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know its high watermark yet.", True
    MEMBER_ID_REQUIRED = 79, "Join again with the member id that was just given out."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", True
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that may lead is available.", True
    ELECTION_NOT_NEEDED = 84, "The partition needs no election.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        "The group is subscribed to the topic, so its offsets must stay.",
    )
    INVALID_RECORD = 87, "A record broke a rule of the broker or topic."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        "A pending transaction holds offsets that are not stable yet.",
        True,
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", True
    PRODUCER_FENCED = 90, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The request names a resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, "Sender and receiver disagree on who votes."
    INVALID_UPDATE_VERSION = 95, "The version to update to is not valid."
    FEATURE_UPDATE_FAILED = 96, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        "The principal of a forwarded request could not be read.",
    )
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not host a topic with that id.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "Another live broker uses this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of that id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The log belongs to another topic id than the request says.", True
    INCONSISTENT_CLUSTER_ID = 104, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session mixes requests with and without topic ids.",
        True,
    )
    INELIGIBLE_REPLICA = 107, "The new in-sync set names a replica that may not be in it."
    NEW_LEADER_ELECTED = 108, "The partition was changed as asked, and its leader changed with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, "The member epoch is fenced; give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, "Another member still uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, "The member epoch is old; retry after the next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller of that id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is unknown or out of date."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller refused the registration of the broker."
    TRANSACTION_ABORTABLE = 120, "The transaction failed; abort it to go on."
    INVALID_RECORD_STATE = 121, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, "There is no such share session.", True
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session is at another epoch.", True
    FENCED_STATE_EPOCH = 124, "The state epoch of the share group is another one."
    INVALID_VOTER_KEY = 125, "The voter key is not that of the receiver."
    DUPLICATE_VOTER = 126, "The voter is in the voter set already."
    VOTER_NOT_FOUND = 127, "The voter is not in the voter set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, "The metadata of the client is too old; bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology epoch is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, "There are as many share sessions as there may be.", True

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """Return the member for a number from the wire; UNKNOWN_SERVER_ERROR for codes that are
        newer than these."""
        try:
            return cls(code)  # type: ignore[call-arg]
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR


MESSAGE_CHARS_MAX: Final = 2_000
"""Messages quote the invalid input, which may be a megabyte, but a string of a response must be
shorter."""


class KafkaError(Exception):
    """An error with a code that a peer understands; the message is for people."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message[:MESSAGE_CHARS_MAX]
        super().__init__(f"{code.name}: {self.message}")

    @property
    def retriable(self) -> bool:
        return self.code.retriable


E = TypeVar("E", bound=KafkaError)


def without_traceback(error: E) -> E:
    """Remove the traceback of an error that is kept: it would keep everything that the functions in
    it referred to, for example a batch decompressed to 100 MB."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error
