"""Quotas in a storm: who has them, clients that take all they get, and what must hold."""
