"""A whole cluster and its clients in one simulated world: what it is made of, what befalls it."""
