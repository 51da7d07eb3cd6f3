"""Samples of requests about topics, configs and replicas."""

from __future__ import annotations

from rights_samples import Sample

TOPICS: list[Sample] = []
