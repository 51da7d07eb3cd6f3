"""The samples of all APIs."""

from __future__ import annotations

from rights_of_groups import GROUPS
from rights_of_nodes import NODES
from rights_of_quotas import QUOTAS
from rights_of_records import RECORDS
from rights_of_security import SECURITY
from rights_of_topics import TOPICS
from rights_of_transactions import TRANSACTIONS

SAMPLES = [*RECORDS, *TOPICS, *GROUPS, *TRANSACTIONS, *SECURITY, *QUOTAS, *NODES]
