"""The public promise is the program's own."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_apis_is_what_the_broker_serves() -> None:
    script = ROOT / "scripts" / "document_apis.py"
    spec = importlib.util.spec_from_file_location("document_apis", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text()
    assert module.render(page) == page, "run scripts/document_apis.py"


def test_every_proof_that_the_page_names_exists() -> None:
    import re

    page = (ROOT / "docs" / "compatibility.md").read_text()
    for name in re.findall(r"`(tests/[\w/.]+)`", page):
        assert (ROOT / name).exists(), name
