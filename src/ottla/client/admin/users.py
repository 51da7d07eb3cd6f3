"""Admin calls for SCRAM users: the cluster keeps a salted hash of each password.

The password itself never leaves this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.client.admin.link import AdminLink
from ottla.client.network.coordinators import error_of, raise_for
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.scram import SCRAM_MECHANISMS

ITERATIONS_DEFAULT = 4_096
SALT_BYTES = 16


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")


class ScramCredential(NamedTuple):
    """A mechanism that a user can authenticate with; clusters do not return salts or hashes."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A new password for a user, which is created if it does not exist."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = ITERATIONS_DEFAULT


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


class UserAdmin:
    _link: AdminLink

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential] | KafkaError]:
        """Return the SCRAM mechanisms of the named users, or of all users that have one."""
        from ottla.protocol.messages.describe_user_scram_credentials import (
            DescribeUserScramCredentialsRequest,
            UserName,
        )

        names = None if users is None else [UserName(name=user) for user in users]
        response = await self._link.ask_any(DescribeUserScramCredentialsRequest(users=names))
        raise_for(response.error_code, response.error_message)
        return {
            found.user: error_of(found.error_code, found.error_message)
            or [
                ScramCredential(ScramMechanism(one.mechanism), one.iterations)
                for one in found.credential_infos
            ]
            for found in response.results
        }

    async def alter_user_scram_credentials(
        self, changes: Sequence[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        """Set passwords and delete mechanisms, and return an error or None for each user.

        >>> await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
        """
        from ottla.protocol.messages.alter_user_scram_credentials import (
            AlterUserScramCredentialsRequest,
            ScramCredentialDeletion,
        )

        upsertions = [
            await self._upsertion(one) for one in changes if isinstance(one, ScramUpsertion)
        ]
        deletions = [
            ScramCredentialDeletion(name=one.user, mechanism=one.mechanism)
            for one in changes
            if isinstance(one, ScramDeletion)
        ]
        request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
        response = await self._link.change(lambda _: request)
        return {
            found.user: error_of(found.error_code, found.error_message)
            for found in response.results
        }

    async def _upsertion(self, one: ScramUpsertion) -> Any:
        from ottla.protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion

        if not one.password:
            raise KafkaError(
                ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the new password of {one.user!r} is empty"
            )
        scram = SCRAM_MECHANISMS[one.mechanism.mechanism_name]
        salt = self._link.cluster.runtime.random.randbytes(SALT_BYTES)
        # The hash is slow by design, so it runs in a thread.
        salted = await self._link.cluster.runtime.in_thread(
            scram.salted_password, one.password.encode(), salt, one.iterations
        )
        return ScramCredentialUpsertion(
            name=one.user,
            mechanism=one.mechanism,
            iterations=one.iterations,
            salt=salt,
            salted_password=salted,
        )
