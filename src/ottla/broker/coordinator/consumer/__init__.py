"""Consumer groups of the new protocol (KIP-848): the coordinator assigns, the members reconcile.

group.py            ConsumerGroup: its state, and what can be told from it
stored.py           the durable part of that state, changed by records only
member.py           a member, reconcile.py how it moves to its target

The other modules are functions that change a group:

hosting.py          consumer groups among the groups of a shard, and their kind
heartbeats.py       ConsumerGroupHeartbeat
classic_members.py  JoinGroup, SyncGroup, Heartbeat, LeaveGroup of members that use these
members.py          members that join, are fenced, or leave
assigning.py        epochs, targets, members that move to them
subscriptions.py    the topics that a group reads
timers.py           the timers of members
writing.py          the records that a change writes
upgrade.py          a classic group becomes a consumer group, downgrade.py the reverse
"""
