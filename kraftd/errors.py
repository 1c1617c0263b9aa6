"""What can go wrong, sorted by who has to act.

`InvariantError` means that this program is wrong. Nothing may catch it: the process stops, and
starts again from what it last made durable. Only around a decision of the controller, which has changed
nothing yet, it is caught like any other error (D-14).

Every other error is a `KraftdError`: the world did something we planned for. `ErrorCode` are Kafka's
codes on the wire; a peer's fault inside the core is never raised, it is a response or an effect (D-14).
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's wire codes, as far as kraftd speaks them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SECURITY_DISABLED = 54
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    THROTTLING_QUOTA_EXCEEDED = 89
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_CLUSTER_ID = 104
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_REGISTRATION = 119
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later, here or at another node."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


class InvariantError(AssertionError):
    """Raised when a promise made by this program to itself does not hold. Never caught."""


class KraftdError(Exception):
    """Base of every error that a correct program can meet. Its text is fit for an operator."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class ConfigError(KraftdError):
    """The configuration cannot be used; raised before anything is opened."""

    code = ErrorCode.INVALID_CONFIG


class MalformedError(KraftdError):
    """Bytes that do not follow their schema: a frame, a record, a small file."""

    code = ErrorCode.INVALID_REQUEST


class CorruptBatchError(MalformedError):
    """A record batch that is cut short, lies about its size or fails its checksum.

    `torn` says that the buffer ends before the batch does: an unfinished write, if it is the last one.
    """

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, reason: str, *, position_bytes: int, path: str = "", torn: bool = False) -> None:
        where = f"{path} at byte {position_bytes}" if path else f"byte {position_bytes}"
        super().__init__(f"{where}: {reason}")
        self.reason = reason
        self.position_bytes = position_bytes
        self.path = path
        self.torn = torn


class UnencodableError(KraftdError):
    """A value that its schema cannot hold: too long a string, a field that the wanted version lacks."""

    code = ErrorCode.INVALID_REQUEST


class StorageError(KraftdError):
    """The disk lied or refused, or a directory does not hold what it must; what, where, what to do."""
