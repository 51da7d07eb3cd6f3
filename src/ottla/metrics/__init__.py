"""The pages of a node: `/metrics` for Prometheus, `/health` and `/ready` for who restarts it.

exposition  families of samples, written in Prometheus's text format and in OpenMetrics
families/   a module per subject: reads the node when it is asked, and keeps nothing
endpoint    which pages there are
http        connections that ask for them, within bounds
"""
