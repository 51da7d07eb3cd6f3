"""Internal topics and groups of a pipeline, which are deleted with it.

Apps of streams have topics between their queries, and the sink has a group for each query, whose
offset points to its newest decision. Nothing else uses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ottla.blocking import Admin
from ottla.client.errors import ClientError
from ottla.pipelines.folders import VersionFolder
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.spark.client_options import admin_options
from ottla.spark.first_contact import check_reachable
from ottla.spark.sink.names import PREFIX

KINDS = ("topics", "groups", "left")
_NEVER_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


def remove_internals(version: VersionFolder) -> dict[str, list[str]]:
    """Delete the internal `topics` and `groups`; return those that existed. `left` says which stay
    and why: if the cluster does not answer, any may."""
    gone: dict[str, list[str]] = {kind: [] for kind in KINDS}
    connection = version.outputs()["connection"]
    names: list[str] = version.outputs().get("internal", [])
    ids = query_ids(version)
    if not connection or not (ids or names):
        return gone
    try:
        check_reachable(connection)
        with Admin(**admin_options(connection)) as admin:
            groups = _own_groups(admin, ids)
            outcomes: dict[str, Mapping[str, KafkaError | None]] = {
                "topics": admin.delete_topics(names) if names else {},
                "groups": admin.delete_groups(groups) if groups else {},
            }
            for kind, errors in outcomes.items():
                gone[kind] = sorted(name for name, error in errors.items() if error is None)
                gone["left"] += [
                    f"{name}: {error}" for name, error in errors.items() if _is_left(error)
                ]
    except (ClientError, KafkaError) as error:
        gone["left"] = [str(error)]
    return gone


def _own_groups(admin: Admin, ids: set[str]) -> list[str]:
    listed = [one.group_id for one in admin.list_consumer_groups()]
    sinks = [name for name in listed if name.startswith(PREFIX)]
    return [name for name in sinks if any(each in name for each in ids)]


def _is_left(error: KafkaError | None) -> bool:
    return error is not None and error.code not in _NEVER_THERE


def query_ids(version: VersionFolder) -> set[str]:
    """Return the ids of its queries, which are in the sink's group names, from its progress and its
    checkpoints."""
    told = {one.get("id") for one in version.progress().get("queries", [])}
    return {one for one in told if one} | _in_checkpoints(version)


def _in_checkpoints(version: VersionFolder) -> set[str]:
    """Return the ids from checkpoints on this machine."""
    found = set()
    for file in (version.path / "checkpoints").glob("**/metadata"):
        if file.is_file():
            try:
                found.add(str(json.loads(file.read_text())["id"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another file with that name
    return found
