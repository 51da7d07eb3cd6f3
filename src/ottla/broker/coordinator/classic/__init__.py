"""Classic groups: the members agree on an assignment, the coordinator keeps them in step.

group.py         ClassicGroup: its state, and what can be told from it
state.py         the five states and the transitions between them
members.py       the members, their leader, the protocols they all support
subscription.py  the topics inside the members' opaque metadata

The other modules are functions that change a group:

hosting.py       classic groups among the groups of a shard, and their kind
joining.py       JoinGroup, case by case
requests.py      SyncGroup, Heartbeat, LeaveGroup
rebalancing.py   the phases of a rebalance, and their time-outs
sessions.py      sessions of members, and members that are dropped
waiting.py       joins and syncs that wait for an answer
conversion.py    members that come from a consumer group, or go to one
stored.py        a group as a record, and back
"""
