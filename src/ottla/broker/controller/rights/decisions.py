"""The decisions of the active controller about users, ACLs, quotas and tokens.

It is imported when the first such request arrives: most clusters have none of these, and start-up
is measured in milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.controller.rights.acls import checked, create_acls, delete_acls, matching
from ottla.broker.controller.scram_credentials import alter_scram_credentials
from ottla.broker.controller.tokens.tokens import DelegationTokens
from ottla.runtime.pace import in_slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.controller.rights.acls import Deleted
    from ottla.broker.metadata.log import MetadataLog
    from ottla.config.broker import BrokerConfig
    from ottla.protocol.errors import KafkaError
    from ottla.protocol.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )
    from ottla.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.protocol.messages.create_acls import AclCreation
    from ottla.protocol.messages.delete_acls import DeleteAclsFilter
    from ottla.runtime.runtime import Runtime


class RightsDecisions:
    """Every method returns once its change is durable, as those of `Controller`."""

    def __init__(self, metadata: MetadataLog, config: BrokerConfig, runtime: Runtime) -> None:
        self._metadata = metadata
        self._runtime = runtime
        self.tokens = DelegationTokens(metadata, config, runtime)

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasResponse:
        return await self._metadata.write(
            lambda image: alter_client_quotas(image, request), paced=True
        )

    async def alter_scram_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        return await self._metadata.write(
            lambda image: alter_scram_credentials(image, request), paced=True
        )

    async def create_acls(self, creations: Sequence[AclCreation]) -> list[KafkaError | None]:
        """Return the error of each ACL, or None if it exists now."""
        asked = await in_slices(self._runtime, checked(creations, self._runtime.random))
        return await self._metadata.write(lambda image: create_acls(image, asked), paced=True)

    async def delete_acls(self, filters: Sequence[DeleteAclsFilter]) -> list[Deleted]:
        """Return the ACLs that each filter deleted, or why it is refused."""
        image = self._metadata.image
        found = await in_slices(self._runtime, matching(image.acls, image.acl_ids, filters))
        return await self._metadata.write(lambda image: delete_acls(image, found), paced=True)
