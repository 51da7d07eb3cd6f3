"""Decisions about the cluster: pure functions from the image and a request to records and a reply.

`controller.Controller` is the thin driver that has them committed.
"""
