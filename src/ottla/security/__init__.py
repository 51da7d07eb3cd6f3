"""Principals: the identities of clients. Authentication and authorization will be added here."""
