"""Samples of requests about producers and transactions."""

from __future__ import annotations

from rights_samples import Sample

TRANSACTIONS: list[Sample] = []
