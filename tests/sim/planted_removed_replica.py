"""Planted: a replica that was moved away is still counted as one in sync."""

import pytest

from ottla.broker.controller.partition_change import Target


def plant(patch: pytest.MonkeyPatch) -> None:
    completed = Target.completed

    def keeping(self: Target) -> Target:
        done = completed(self)
        return done._replace(isr=self.isr) if done is not self else done

    patch.setattr(Target, "completed", keeping)
