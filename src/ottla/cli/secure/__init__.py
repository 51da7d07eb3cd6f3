"""`ottla start --secure`: a broker or cluster of this machine with TLS, users and ACLs."""
