"""The graph of an application, without anything that runs it."""

from ottla.streams.topology.topology import Node, Topology

__all__ = ["Node", "Topology"]
