"""Simulated quorums whose voters change."""
