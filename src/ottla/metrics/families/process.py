"""The process: what it uses, and how busy its event loop is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metrics.exposition import GAUGE, Family, counter, gauge, labels
from ottla.metrics.families import Families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.runtime.process import Usage


def process_families(usage: Usage) -> Families:
    """These have the names that Prometheus's client libraries give them."""
    yield counter("process_cpu_seconds_total", "Time on processors, in seconds", usage.cpu_s)
    yield gauge("process_resident_memory_bytes", "Memory in use", usage.resident_bytes)
    yield gauge("process_start_time_seconds", "When it started", usage.started_s)
    yield gauge("process_open_fds", "Open file descriptors", usage.open_files)
    yield gauge("process_max_fds", "The most file descriptors it may have", usage.open_files_max)


def idle_families(idle: float) -> Families:
    """Kafka has these for its threads. All requests are served, and all sockets read, by one event
    loop: both names tell the share of its time in which it had nothing to do."""
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The share of time in which the event loop was idle, from 0 to 1",
        idle,
    )
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The share of time in which the event loop was idle, from 0 to 1",
        idle,
    )


def connection_families(by_listener: Mapping[str, int]) -> Families:
    yield Family(
        "kafka_server_socket_server_metrics_connection_count",
        GAUGE,
        "Connections, by listener",
        [
            (labels(listener=listener, networkProcessor="0"), number)
            for listener, number in by_listener.items()
        ],
    )


def info_families(version: str, node_id: int, cluster_id: str, roles: str) -> Families:
    text = labels(version=version, node_id=node_id, cluster_id=cluster_id, roles=roles)
    yield Family("ottla_info", GAUGE, "1, with what this node is as labels", ((text, 1),))
