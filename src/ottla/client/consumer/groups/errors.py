"""Turns error codes of group coordinators into messages that say what to do."""

from __future__ import annotations

from ottla.client.errors import CommitFailed, CommitInterrupted
from ottla.client.settings.consumer import ConsumerSettings
from ottla.protocol.errors import ErrorCode, KafkaError


def explained(
    code: ErrorCode, settings: ConsumerSettings, message: str | None = None
) -> KafkaError:
    """Return an error with advice. `message` is the broker's own error message, if it sent one."""
    text = _advice(code, settings)
    if text is None:
        text = f"group {settings.group_id!r}: {message or code.message}"
    elif message:
        text = f"{text} ({message})"
    return KafkaError(code, text)


def _advice(code: ErrorCode, settings: ConsumerSettings) -> str | None:
    group = f"group {settings.group_id!r}"
    match code:
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return f"this client may not use {group}: it needs READ on the group"
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            offered = ", ".join(assignor_names(settings)) or "none"
            return (
                f"{group} has members whose assignors differ from all of this consumer's "
                f"({offered}): give partition_assignment_strategy one that all members have"
            )
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"session_timeout_ms={settings.session_timeout_ms} is outside what the broker "
                "allows: see its group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            return (
                f"{group} has as many members as its broker allows: close one, or raise the "
                "broker's group.max.size (group.consumer.max.size for the new protocol)"
            )
        case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.UNRELEASED_INSTANCE_ID:
            return (
                f"another consumer of {group} has group_instance_id="
                f"{settings.group_instance_id!r}: each needs its own"
            )
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            return (
                f"the broker has no assignor {settings.group_remote_assignor!r}: choose one of "
                "its group.consumer.assignors for group_remote_assignor, or leave it out"
            )
        case ErrorCode.INVALID_GROUP_ID:
            return f"{settings.group_id!r} is no group id, or that group speaks another protocol"
        case _:
            return None


def assignor_names(settings: ConsumerSettings) -> list[str]:
    strategy = settings.partition_assignment_strategy
    return [one if isinstance(one, str) else one.name for one in strategy]


def given_away(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"offsets were not committed: group {group_id!r} has given the partitions of this consumer "
        "to others. Usually too much time passed between two polls: raise max_poll_interval_ms, "
        "or lower max_poll_records"
    )


def not_a_member(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"offsets were not committed: this consumer is no member of group {group_id!r} now. "
        "Poll to join it again"
    )


def taken_by_members(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"offsets were not committed: group {group_id!r} has members, and only they may commit. "
        "A consumer whose partitions are assigned by hand needs a group_id of its own"
    )


def rebalancing(group_id: str) -> CommitInterrupted:
    return CommitInterrupted(
        f"offsets were not committed: group {group_id!r} is sharing out its partitions anew. "
        "Poll, and commit again what is still assigned"
    )
