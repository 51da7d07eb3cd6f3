"""Shell completion of topic and group names: asked of the cluster, quickly or not at all.

If anything fails, nothing is printed and nothing is proposed: an error would break the line that
the user is typing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

TIMEOUT_S = 1.5
"""A shell should not keep its user waiting for longer."""

Completer = Callable[[typer.Context, str], list[str]]


def complete_names(kinds: Iterable[Any]) -> None:
    """Let parameters that are topics or groups, by metavar or option, be completed with the names
    in the cluster. `kinds` are their annotations."""
    for kind in kinds:
        for info in getattr(kind, "__metadata__", ()):
            # Within `Annotated`, typer takes the first name of an option for its default.
            options = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
            complete = _completer_of(getattr(info, "metavar", None), options)
            if complete is not None:
                info.autocompletion = complete


def _completer_of(metavar: str | None, options: Sequence[object]) -> Completer | None:
    name = (metavar or "").lstrip("[")
    if name.startswith("TOPIC") or "--topic" in options:
        return complete_topics
    if name.startswith("GROUP") or "--group" in options:
        return complete_groups
    return None


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return await admin.list_topics(internal=True)

    return _proposals(context, incomplete, names)


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return [one.group_id for one in await admin.list_groups()]

    return _proposals(context, incomplete, names)


def _proposals(context: typer.Context, incomplete: str, names: Callable[[Admin], Any]) -> list[str]:
    import logging

    from ottla.cli.names import is_internal
    from ottla.logs import visible

    logging.getLogger("ottla").setLevel(logging.CRITICAL)
    try:
        found = _ask(context, names)
    except Exception:
        return []
    return sorted(
        name
        for name in found
        if name.startswith(incomplete)
        and name == visible(name)
        and (incomplete or not is_internal(name))
    )


def _ask(context: typer.Context, names: Callable[[Admin], Any]) -> list[str]:
    import asyncio
    from pathlib import Path

    from ottla.cli.connection_options import BOOTSTRAP_DEFAULT, read_given
    from ottla.client.admin.admin import Admin
    from ottla.client.network.cluster import Cluster
    from ottla.client.settings.base import settings_from
    from ottla.client.settings.common import ClientSettings
    from ottla.client.settings.java_names import translate
    from ottla.runtime.os_runtime import OsRuntime, run

    said = context.params
    file = said.get("command_config")
    options = translate(
        read_given(Path(file) if file else None, said.get("client_settings")), ClientSettings
    )
    options["bootstrap_servers"] = (
        said.get("bootstrap") or options.get("bootstrap_servers") or BOOTSTRAP_DEFAULT
    )

    async def main(runtime: OsRuntime) -> list[str]:
        async with asyncio.timeout(TIMEOUT_S):
            async with Cluster.of(settings_from(ClientSettings, options), runtime) as cluster:
                return list(await names(Admin.over(cluster)))

    return run(main)
