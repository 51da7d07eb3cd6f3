"""Planted: a new follower cuts its log at its high watermark, as Kafka did before leader epochs."""

import pytest

from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.following import truncate
from ottla.broker.replication.partition import Partition


def plant(patch: pytest.MonkeyPatch) -> None:
    follow = Partition.follow

    def cut(self: Partition, assigned: PartitionImage) -> bool:
        is_news = follow(self, assigned)
        if is_news and self.log is not None and self.error is None:
            truncate(self, self.high_watermark)
        return is_news

    patch.setattr(Partition, "follow", cut)
