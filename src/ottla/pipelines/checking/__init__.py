"""Finds mistakes in a pipeline within a second, without Spark and without a broker.

Only certain mistakes are reported: a name that no column, alias, view or function has. Only Spark
knows which types fit, which functions exist and what files contain (`check --full`).
"""
