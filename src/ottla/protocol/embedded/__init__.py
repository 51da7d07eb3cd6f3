"""Data that other messages carry as plain bytes."""
