"""Pictures of an application, in several formats."""

from __future__ import annotations

from ottla.streams.errors import BadTopology
from ottla.streams.picture.drawing import drawing_of
from ottla.streams.picture.svg import svg
from ottla.streams.picture.text_forms import dot, mermaid
from ottla.streams.plan import Plan

_FORMS = {"svg": svg, "mmd": mermaid, "mermaid": mermaid, "dot": dot, "gv": dot}


def draw(plan: Plan, title: str, form: str) -> str:
    if form not in _FORMS:
        raise BadTopology(f"pictures are svg, mmd or dot, not {form!r}")
    return _FORMS[form](drawing_of(plan, title))


__all__ = ["draw"]
