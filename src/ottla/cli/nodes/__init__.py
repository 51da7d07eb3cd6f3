"""Nodes on this machine: `ottla start --nodes`, and `ottla storage`."""
