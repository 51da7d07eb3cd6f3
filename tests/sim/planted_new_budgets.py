"""Planted: whenever a quota changes, the broker forgets what its clients have used."""

import pytest

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.entities import AllQuotas

take = ClientQuotas.take


def plant(patch: pytest.MonkeyPatch) -> None:
    def take_and_forget(self: ClientQuotas, quotas: AllQuotas) -> None:
        take(self, quotas)
        self._budgets.clear()

    patch.setattr(ClientQuotas, "take", take_and_forget)
