"""Planted: a broker that did not stop properly is still counted on for all that it had."""

import pytest

from ottla.broker.controller import registration
from ottla.broker.controller.broker_states import leave


def plant(patch: pytest.MonkeyPatch) -> None:
    def trusting(*arguments: object, lost: bool = False) -> object:
        return leave(*arguments)  # type: ignore[arg-type]

    patch.setattr(registration, "leave", trusting)
