"""What a replica can be in an epoch: one module a state. `ottla.raft.quorum` has the transitions.

Each state knows its epoch, its election (what would be persisted), whom it knows as leader, and
whether it grants a vote.
"""
