"""Planted: the broker remembers the budgets of a client by its user alone."""

import pytest

from ottla.broker.quotas.client_quotas import Allowance, ClientQuotas

allowance = ClientQuotas.allowance


def plant(patch: pytest.MonkeyPatch) -> None:
    def of_user(self: ClientQuotas, user: str, client_id: str) -> Allowance | None:
        for (known, _), found in self._allowances.items():
            if known == user and found is not None:
                return found
        return allowance(self, user, client_id)

    patch.setattr(ClientQuotas, "allowance", of_user)
