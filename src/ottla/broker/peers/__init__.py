"""The interface for requests between the nodes of a cluster, without its implementation, so that
packages of low layers can use it.

`connected.py` implements it over connections of `ottla.network`, for production and for the
simulation.
"""
