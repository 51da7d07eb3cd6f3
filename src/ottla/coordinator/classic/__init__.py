"""Classic groups: the members agree among themselves, the coordinator keeps them in step.

group.py         ClassicGroup: what a request, a timer or a stored record does to a group
  joining.py     the answer to a JoinGroup, case by case
    phases.py    the phases of a rebalance, and their time-outs
      members.py who is in the group, who leads, what all of them speak
state.py         the five states and the ways between them
stored.py        a group as a record, and back
subscription.py  the topics inside the members' opaque metadata
"""
