"""The quorum of the metadata log: KRaft's protocol as a pure core.

`core.py` is the module to read first: events and the time go in, effects come out. Nothing here
waits, writes a file or opens a connection; a driver does, and tells the core the results.
"""
