"""The samples of all APIs."""

from __future__ import annotations

from rights_of_groups import GROUPS
from rights_of_nodes import NODES
from rights_of_quotas import QUOTAS
from rights_of_records import RECORDS
from rights_of_security import SECURITY
from rights_of_topics import TOPICS
from rights_of_transactions import TRANSACTIONS

from ottla.broker.server.contract import SERVED

SAMPLES = [*RECORDS, *TOPICS, *GROUPS, *TRANSACTIONS, *SECURITY, *QUOTAS, *NODES]

TO_COME = set(SERVED) - {sample.key for sample in SAMPLES}
"""APIs whose handlers do not check rights yet."""
