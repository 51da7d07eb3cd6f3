"""Clusters whose clients sign in and may do only what ACLs allow them.

Workers have ACLs for what they do, administration is a super user, and an intruder may look but
touch nothing. Nodes among themselves, and clients of controller listeners, are ANONYMOUS and super
users.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ottla.client.admin.acls import Acl, AclOperation, AclPatternType, AclResourceType
from ottla.config.authorization import STANDARD_AUTHORIZER

if TYPE_CHECKING:
    from ottla.sim.cluster.shape import Shape

STREAM: Final = "acls"
"""Its own random stream; seeds depend on this name."""
RATE: Final = 0.3
WORKER: Final = "worker"
ADMIN: Final = "admin"
INTRUDER: Final = "intruder"
ANONYMOUSLY: Final[dict[str, Any]] = {"security_protocol": "PLAINTEXT"}

_USERS: Final = " ".join(f'user_{user}="{user}"' for user in (WORKER, ADMIN, INTRUDER))
_SETTINGS: Final = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,"
    "CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
    f"PlainLoginModule required {_USERS};",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{ADMIN}",
}


def with_rights(shape: Shape, chance: random.Random, wanted: bool | None = None) -> Shape:
    """Return the cluster with ACLs for some seeds, or as `wanted`."""
    is_drawn = chance.random() < RATE
    if not (is_drawn if wanted is None else wanted):
        return shape
    return replace(shape, guarded=True, settings={**shape.settings, **_SETTINGS})


def sign_in(user: str) -> dict[str, Any]:
    """Return the settings by which a client signs in."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": user,
    }


def first_acls(shape: Shape) -> list[Acl]:
    """Return the ACLs that workers need, of several kinds. The intruder may look at a topic and a
    group: otherwise clients would give up before they try to read and write."""
    who = f"User:{WORKER}"
    topics, groups = AclResourceType.TOPIC, AclResourceType.GROUP
    ids = AclResourceType.TRANSACTIONAL_ID
    acls = [
        Acl(topics, topic.name, who, operation)
        for topic in shape.topics
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    prefixed = AclPatternType.PREFIXED
    looker = f"User:{INTRUDER}"
    return [
        *acls,
        Acl(groups, "members", who, AclOperation.ALL),
        Acl(groups, "copi", who, AclOperation.READ, pattern_type=prefixed),
        Acl(ids, "*", who, AclOperation.WRITE),
        Acl(topics, shape.plain.name, looker, AclOperation.DESCRIBE),
        Acl(groups, "members", looker, AclOperation.DESCRIBE),
    ]
