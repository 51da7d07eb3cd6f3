"""Samples of requests that write, read and find records, and of those that find topics."""

from __future__ import annotations

from rights_samples import Sample

RECORDS: list[Sample] = []
