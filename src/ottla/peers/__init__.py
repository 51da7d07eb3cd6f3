"""How nodes of a cluster ask each other: only the seam, so that rooms of low floors can use it.

`client/peers.py` has what it is in production and in the simulation.
"""
