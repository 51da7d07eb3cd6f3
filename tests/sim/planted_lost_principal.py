"""Planted: the controller takes the broker that forwards a request for the one who asks."""

from typing import Any

import pytest

from ottla.broker.server.envelopes import serving
from ottla.broker.server.envelopes.format import contents_of


def plant(patch: pytest.MonkeyPatch) -> None:
    def forgetful(envelope: Any, sender: Any) -> Any:
        return contents_of(envelope, sender)._replace(caller=sender)

    patch.setattr(serving, "contents_of", forgetful)
