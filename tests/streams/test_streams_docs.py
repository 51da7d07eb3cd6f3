"""The programs of the page on streams can be built; the first is run as an example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.streams import App, BadTopology

PAGE = Path(__file__).parents[2] / "docs" / "streams" / "README.md"
BLOCKS = [
    code
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    if "spark_" not in code
]


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_the_programs_of_the_page_can_be_built(code: str) -> None:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    app = names["app"]
    assert isinstance(app, App)
    assert "Sub-topology: 0" in app.describe()
    with pytest.raises(BadTopology):
        app.picture(form="png")


def test_the_page_has_programs() -> None:
    assert len(BLOCKS) >= 4
