"""Samples of requests about ACLs, users, tokens and quotas."""

from __future__ import annotations

from rights_samples import Sample

SECURITY: list[Sample] = []
