"""`ottla cluster` and `ottla quorum`."""
