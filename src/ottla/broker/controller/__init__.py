"""Decisions about the cluster: pure functions from the image and a request to records and a
response.

`controller.Controller` is the thin driver that commits the records.
"""
