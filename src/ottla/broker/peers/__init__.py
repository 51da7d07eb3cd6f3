"""The interface for requests between the nodes of a cluster, without its implementation, so that
packages of low layers can use it.

`client/peers.py` implements it, for production and for the simulation.
"""
