"""The operations a client may do, as the bit field in responses: without ACLs, all of them."""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(2**31)
"""The value if the client did not ask for its authorized operations."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ALL_ON_TOPIC: Final = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
ALL_ON_CLUSTER: Final = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)
ALL_ON_GROUP: Final = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
