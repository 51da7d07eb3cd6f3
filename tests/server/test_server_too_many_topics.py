"""More new topics than one request may ask for are refused before one of them is made."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.broker.server.pieces import TOPICS_TOGETHER_MAX

WAIT_S = 60


@pytest.mark.ottla_only
def test_too_many_topics_are_each_refused_and_none_is_made() -> None:
    """Each is answered with its configuration. An answer that has grown too large could not be
    sent, and the topics would be there."""
    with ottla.testing.cluster(nodes=1) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        names = [f"t{number}" for number in range(TOPICS_TOGETHER_MAX + 1000)]
        asked = admin.create_topics([NewTopic(name, 1, 1) for name in names])
        codes = set()
        for outcome in asked.values():
            with pytest.raises(KafkaException) as refusal:
                outcome.result(WAIT_S)
            codes.add(refusal.value.args[0].code())
        assert codes == {KafkaError.POLICY_VIOLATION}
        assert "at most 5000 in one request" in str(refusal.value)
        assert not set(names) & set(admin.list_topics(timeout=WAIT_S).topics)
