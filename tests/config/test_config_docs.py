"""docs/configuration.md says what the code says."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "document_config.py"))
    if PAGE.read_text() != script["render"](PAGE.read_text()):
        pytest.fail("run: python scripts/document_config.py", pytrace=False)


def test_every_key_in_use_is_on_the_page_with_its_default() -> None:
    page = PAGE.read_text()
    assert "| `log.segment.bytes` | int | `1073741824` | >= 1048576 | cluster-wide |" in page
    assert "| `segment.bytes` | int | `1073741824` | `log.segment.bytes` |" in page
