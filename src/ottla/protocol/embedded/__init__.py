"""Structures that other messages contain as plain bytes."""
