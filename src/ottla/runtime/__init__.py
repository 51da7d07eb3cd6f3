"""Clock, disk, network and tasks: the only room with a window to the operating system.

The protocols live here beside their real implementations; `ottla.sim` has the simulated ones.
"""
