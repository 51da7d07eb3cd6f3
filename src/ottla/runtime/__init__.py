"""Clock, disk, network and tasks: the only package with access to the operating system.

The protocols are here beside their real implementations; `ottla.sim` has the simulated ones.
"""
