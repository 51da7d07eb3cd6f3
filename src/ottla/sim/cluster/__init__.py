"""A whole cluster and its clients in one simulated world: nodes, clients, faults, checks."""
