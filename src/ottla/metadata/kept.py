"""Records of what Ottla does not act on yet (ACLs, SCRAM users, quotas, tokens): kept as they are.

The image holds the latest of each, so that a snapshot has what the log it stands for had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Key = tuple[Any, ...]


def _quota(record: Any) -> Key:
    entity = tuple((part.entity_type, part.entity_name) for part in record.entity)
    return ("quota", entity, record.key)


KEYS: Final[dict[str, Callable[[Any], Key]]] = {
    "AccessControlEntryRecord": lambda record: ("acl", record.id),
    "RemoveAccessControlEntryRecord": lambda record: ("acl", record.id),
    "UserScramCredentialRecord": lambda record: ("scram", record.name, record.mechanism),
    "RemoveUserScramCredentialRecord": lambda record: ("scram", record.name, record.mechanism),
    "DelegationTokenRecord": lambda record: ("token", record.token_id),
    "RemoveDelegationTokenRecord": lambda record: ("token", record.token_id),
    "ClientQuotaRecord": _quota,
    "ZkMigrationStateRecord": lambda record: ("zk",),
}
"""What a record is about, by its kind: the next one about the same takes its place."""


def removes(record: Any) -> bool:
    return record.__class__.__name__.startswith("Remove") or getattr(record, "remove", False)
