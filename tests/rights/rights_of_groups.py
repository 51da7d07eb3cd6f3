"""Samples of requests about groups and the offsets that they commit."""

from __future__ import annotations

from rights_samples import Sample

GROUPS: list[Sample] = []
