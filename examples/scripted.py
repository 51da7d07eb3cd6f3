"""A script without `await`: a topic, records, a group, and how far the group is behind."""

import uuid

from ottla.blocking import Admin, Consumer, Producer

BOOTSTRAP = "localhost:9092"
TOPIC = f"notes-{uuid.uuid4().hex[:8]}"

with Admin(bootstrap_servers=BOOTSTRAP) as admin:
    admin.create_topic(TOPIC, partitions=3)

with Producer(bootstrap_servers=BOOTSTRAP) as producer:
    sent = [producer.send(TOPIC, f"note {number}".encode()) for number in range(30)]
    print("the last one is at", sent[-1].result())

with Consumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, group_id=f"reader-{TOPIC}", auto_offset_reset="earliest"
) as consumer:
    notes = []
    for record in consumer:
        notes.append(record.value)
        if len(notes) == 30:
            break
print(f"{len(notes)} notes read")
