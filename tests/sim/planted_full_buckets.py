"""Planted: the controller gives each request that changes partitions a full bucket."""

import pytest

from ottla.broker.quotas.entities import AllQuotas
from ottla.broker.quotas.mutations import Mutation, MutationQuotas

mutation = MutationQuotas.mutation


def plant(patch: pytest.MonkeyPatch) -> None:
    def afresh(
        self: MutationQuotas, quotas: AllQuotas, user: str, client_id: str, *, is_strict: bool
    ) -> Mutation:
        self._budgets.clear()
        return mutation(self, quotas, user, client_id, is_strict=is_strict)

    patch.setattr(MutationQuotas, "mutation", afresh)
