"""The work of `ottla storage format` and `info`, apart from their options and output."""

from __future__ import annotations

import os.path
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.metadata.features import FEATURES, UNSERVED
from ottla.broker.metadata.formatting import (
    KRAFT_VERSION_FEATURE,
    FirstVoter,
    write_first_features,
    write_first_voters,
)
from ottla.broker.metadata.records import METADATA_VERSION_FEATURE
from ottla.broker.storage.dirs.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.broker.storage.errors import CorruptFile
from ottla.config.broker import BrokerConfig
from ottla.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from ottla.protocol.uuids import from_text, random_uuid
from ottla.runtime.os_disk import OsDisk

NO_QUORUM_TOLD: Final = (
    "controller.quorum.voters is not set on this controller: give one of --standalone, "
    "--initial-controllers or --no-initial-controllers"
)


class CannotFormat(Exception):
    """The folders or the options do not fit together; the message says what to do."""


@dataclass
class Found:
    """The contents of a node's data folders."""

    folders: list[str] = field(default_factory=list)
    """Folders that exist."""
    formatted: dict[str, MetaProperties] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def data_folders(config: BrokerConfig) -> list[str]:
    return sorted({*config.log_dirs, config.metadata_log_dir})


def look(config: BrokerConfig) -> Found:
    found = Found()
    for folder in data_folders(config):
        if not os.path.isdir(folder):
            state = "is not a folder" if os.path.exists(folder) else "does not exist"
            found.problems.append(f"{folder} {state}")
            continue
        found.folders.append(folder)
        try:
            properties = read_meta_properties(OsDisk(), folder)
        except CorruptFile as error:
            found.problems.append(str(error))
            continue
        if properties is None:
            found.problems.append(f"{folder} is not formatted")
        else:
            found.formatted[folder] = properties
    found.problems += _disagreements(found.formatted.values())
    return found


def _disagreements(known: Iterable[MetaProperties]) -> list[str]:
    clusters = sorted({one.cluster_id for one in known})
    nodes = sorted({one.node_id for one in known})
    told = []
    if len(clusters) > 1:
        told.append(f"the folders belong to different clusters: {', '.join(clusters)}")
    if len(nodes) > 1:
        told.append(f"the folders belong to different nodes: {', '.join(map(str, nodes))}")
    return told


# Formatting


def parse_controllers(text: str) -> list[FirstVoter]:
    """Parse `id@host:port:directory` entries, separated by commas."""
    return [_parse_controller(item.strip()) for item in text.split(",")]


def _parse_controller(item: str) -> FirstVoter:
    node_id, _, rest = item.partition("@")
    address, _, directory = rest.rpartition(":")
    host, _, port = address.rpartition(":")
    wrong = CannotFormat(f"--initial-controllers: {item!r} is no id@host:port:directory")
    try:
        voter = FirstVoter(int(node_id), from_text(directory), host.strip("[]"), int(port))
    except ValueError:
        raise wrong from None
    if not host or voter.id < 0 or not 0 < voter.port < 65_536:
        raise wrong
    return voter


def standalone(config: BrokerConfig) -> list[FirstVoter]:
    """Return this controller as the only voter."""
    listeners = config.advertised_controller_listeners
    if not config.is_controller:
        raise CannotFormat("--standalone is for controllers (process.roles)")
    if not listeners:
        raise CannotFormat("--standalone needs a listener of controller.listener.names")
    host = listeners[0].host or "localhost"
    directory_id = random_uuid(random.SystemRandom())
    return [FirstVoter(config.node_id, directory_id, host, listeners[0].port)]


def check_quorum(config: BrokerConfig, voters: Sequence[FirstVoter], none_wanted: bool) -> None:
    if len({one.id for one in voters}) < len(voters):
        raise CannotFormat("--initial-controllers: each needs an id of its own")
    if voters and config.voters:
        raise CannotFormat(
            "controller.quorum.voters names voters that cannot change: remove it, or format "
            "without --standalone and --initial-controllers"
        )
    named = config.voters or voters or none_wanted
    if config.is_controller and config.bootstrap_controllers and not named:
        raise CannotFormat(NO_QUORUM_TOLD)


def feature_levels(wanted: Mapping[str, str], has_voters: bool) -> dict[str, int]:
    """Return all features with their first levels; `kraft.version` follows from the quorum."""
    known = {feature.name: feature for feature in FEATURES}
    levels = {feature.name: feature.level for feature in FEATURES}
    for name, text in wanted.items():
        if not text.isdigit():
            raise CannotFormat(f"--feature {name}={text}: the level is a number")
        if name == KRAFT_VERSION_FEATURE:
            if (int(text) > 0) != has_voters or int(text) > 1:
                raise CannotFormat(
                    f"--feature {name}={text}: it is 1 with --standalone or --initial-controllers, "
                    "and 0 without; leave it out"
                )
            continue
        if name in UNSERVED and int(text) == 0:
            continue
        if name in UNSERVED:
            raise CannotFormat(f"--feature {name}={text}: Ottla does not have it; give {name}=0")
        if name not in known:
            names = ", ".join(sorted((*known, KRAFT_VERSION_FEATURE)))
            raise CannotFormat(f"--feature {name}: not one of {names}")
        if not known[name].lowest <= int(text) <= known[name].level:
            allowed = f"{known[name].lowest} to {known[name].level}"
            raise CannotFormat(f"--feature {name}={text}: levels are {allowed}")
        levels[name] = int(text)
    return levels


def format_folders(
    config: BrokerConfig,
    cluster_id: str,
    voters: Sequence[FirstVoter],
    levels: Mapping[str, int],
    users: Sequence[UserScramCredentialRecord] = (),
    *,
    ignore_formatted: bool,
) -> list[str]:
    """Format the folders that are not formatted; return a sentence for each."""
    found = look(config)
    _check_formatted(found, config, cluster_id, ignore_formatted)
    done = [
        _format(config, folder, cluster_id, voters, levels, users)
        for folder in data_folders(config)
        if folder not in found.formatted
    ]
    return done or ["All folders are formatted already."]


def _check_formatted(
    found: Found, config: BrokerConfig, cluster_id: str, ignore_formatted: bool
) -> None:
    for folder, properties in found.formatted.items():
        if properties.cluster_id != cluster_id:
            raise CannotFormat(f"{folder} belongs to cluster {properties.cluster_id}")
        if properties.node_id != config.node_id:
            raise CannotFormat(f"{folder} belongs to node {properties.node_id}")
        if not ignore_formatted:
            raise CannotFormat(
                f"{folder} is formatted already; --ignore-formatted leaves such folders alone and "
                "formats the others"
            )


def _format(
    config: BrokerConfig,
    folder: str,
    cluster_id: str,
    voters: Sequence[FirstVoter],
    levels: Mapping[str, int],
    users: Sequence[UserScramCredentialRecord],
) -> str:
    """Format one folder. `meta.properties` comes last: with it the folder counts as formatted."""
    disk, now_ms = OsDisk(), time.time_ns() // 1_000_000
    disk.make_dirs(folder)
    directory_id = random_uuid(random.SystemRandom())
    kind = "data"
    write_first_features(disk, folder, levels, users, now_ms=now_ms)
    if folder == config.metadata_log_dir:
        kind = "metadata"
        own = [one.directory_id for one in voters if one.id == config.node_id]
        directory_id = own[0] if own else directory_id
        if voters:
            listener = config["controller.listener.names"][0].upper()
            write_first_voters(disk, folder, voters, listener=listener, now_ms=now_ms)
    identity = MetaProperties(cluster_id, config.node_id, directory_id)
    write_meta_properties(disk, folder, identity)
    return (
        f"Formatted {kind} folder {folder} with {METADATA_VERSION_FEATURE} "
        f"{levels[METADATA_VERSION_FEATURE]}."
    )
