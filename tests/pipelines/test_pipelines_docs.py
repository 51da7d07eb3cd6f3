"""The pages and examples of pipelines: what they show can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.pipelines.application import check_file

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    one
    for one in sorted((ROOT / "examples" / "pipelines").iterdir())
    if one.suffix in (".yaml", ".py") and one.name != "conversion.py"
]
PAGE = (ROOT / "docs" / "pipelines.md").read_text()
BLOCKS = [(kind, text) for kind, text in re.findall(r"```(yaml|python)\n(.*?)```", PAGE, re.S)]


@pytest.mark.parametrize("file", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_every_example_passes_the_checks(file: Path) -> None:
    assert check_file(file)


@pytest.mark.parametrize(("kind", "text"), BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_of_the_page_passes_the_checks(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("def enrich(frame):\n    return frame\n")
    file = tmp_path / f"block.{'py' if kind == 'python' else 'yaml'}"
    file.write_text(text)
    assert check_file(file)
