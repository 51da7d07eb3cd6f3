"""The registry of the kinds of groups."""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinator.classic import hosting as classic
from ottla.broker.coordinator.consumer import hosting as consumer
from ottla.broker.coordinator.group_kind import GroupKinds

GROUP_KINDS: Final = GroupKinds(classic.KIND, consumer.KIND)
