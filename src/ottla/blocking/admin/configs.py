"""Settings, without `await`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.blocking.admin.calls import AdminCalls
from ottla.client.admin.configs import Changes, ConfigEntry, ConfigResource
from ottla.protocol.errors import KafkaError


class ConfigCalls(AdminCalls):
    def describe_configs(
        self, resources: Iterable[ConfigResource], *, documentation: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        return self._call(
            lambda: self._admin.describe_configs(resources, documentation=documentation)
        )

    def describe_config(
        self, resource: ConfigResource, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        return self._call(
            lambda: self._admin.describe_config(resource, documentation=documentation)
        )

    def alter_configs(
        self, changes: Mapping[ConfigResource, Changes], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        return self._call(lambda: self._admin.alter_configs(changes, validate_only=validate_only))

    def alter_config(
        self, resource: ConfigResource, changes: Changes, *, validate_only: bool = False
    ) -> None:
        return self._call(
            lambda: self._admin.alter_config(resource, changes, validate_only=validate_only)
        )
