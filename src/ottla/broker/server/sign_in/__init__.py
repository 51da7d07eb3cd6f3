"""Clients sign in by SASL before their requests are served."""
