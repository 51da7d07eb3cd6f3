"""Delegation tokens: made, renewed and removed by the active controller."""
