"""Plans how a topology becomes queries, without running anything."""

from ottla.streams.plan.plan import Input, InternalTopic, Output, Plan, Query, make_plan

__all__ = ["Input", "InternalTopic", "Output", "Plan", "Query", "make_plan"]
