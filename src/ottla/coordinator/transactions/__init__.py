"""The transaction coordinator.

`TransactionShard` is the pure machine of one partition of `__transaction_state`, `Transaction` what
it knows of one transactional id. `TransactionService` is what the rest of the broker talks to, and
`MarkerWriter` writes the end of a transaction into the partitions that took part in it.
"""
