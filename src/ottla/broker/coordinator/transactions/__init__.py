"""The transaction coordinator.

`TransactionShard` is the state machine of one partition of `__transaction_state`, `Transaction` the
state of one transactional id. `TransactionService` is the interface to the rest of the broker, and
`MarkerWriter` writes transaction markers to the partitions of a transaction.
"""
