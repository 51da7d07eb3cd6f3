"""Planted: voters whose record a new leader has cut off the log count all the same."""

import pytest

from ottla.broker.raft.voters.history import VoterHistory


def plant(patch: pytest.MonkeyPatch) -> None:
    def keep(self: VoterHistory, offset: int) -> None:
        self._read_to = min(self._read_to, offset)

    patch.setattr(VoterHistory, "truncate", keep)
