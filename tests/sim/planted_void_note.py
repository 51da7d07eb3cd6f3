"""Planted: a leader does not ask again where a marker came between its question and the answer."""

import pytest

from ottla.broker.replication import verifying


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verifying, "is_void", lambda *_: False)
