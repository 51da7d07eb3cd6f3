"""`ottla produce`, `consume` and `perf`."""
