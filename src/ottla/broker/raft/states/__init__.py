"""The states of a replica in an epoch, one module each. `raft/quorum.py` has the transitions.

Each state knows its epoch, its election (the state to persist), the leader it knows, and whether it
grants a vote.
"""
