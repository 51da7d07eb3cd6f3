"""The generated pages say what the program says."""

import runpy
from pathlib import Path

import pytest

import ottla
import ottla.blocking
from ottla.client.settings.common import ClientSettings
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.settings.documentation import meanings
from ottla.client.settings.producer import ProducerSettings

ROOT = Path(__file__).parents[2]
HOW = "{} is out of date. To write it anew: make reference"


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "document_cli.py"))
    if script["PAGE"].read_text() != script["render"]():
        pytest.fail(HOW.format("docs/reference/cli.md"), pytrace=False)


def test_the_blocking_admin_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "mirror_admin.py"))
    if script["MIRROR"].read_text() != script["render"]():
        pytest.fail(HOW.format("src/ottla/blocking/admin.py"), pytrace=False)


def test_the_reference_of_the_python_api_is_up_to_date() -> None:
    pytest.importorskip("pyspark")
    script = runpy.run_path(str(ROOT / "scripts" / "document_api.py"))
    pages = script["render"]()
    for name, text in pages.items():
        if (script["FOLDER"] / name).read_text() != text:
            pytest.fail(HOW.format(f"docs/reference/api/{name}"), pytrace=False)
    assert {path.name for path in script["FOLDER"].iterdir()} == set(pages)


CLIENTS = [
    (package.__name__, name, settings)
    for package in (ottla, ottla.blocking)
    for name, settings in (
        ("Producer", ProducerSettings),
        ("Consumer", ConsumerSettings),
        ("Admin", ClientSettings),
    )
]


@pytest.mark.parametrize(("package", "name", "settings"), CLIENTS)
def test_help_of_a_client_lists_its_settings(package: str, name: str, settings: type) -> None:
    import importlib
    import pydoc

    client = getattr(importlib.import_module(package), name)
    text = " ".join(pydoc.plain(pydoc.render_doc(client)).replace("|", " ").split())
    for setting, meaning in meanings(settings).items():
        assert f"{setting}=" in text
        assert meaning.replace("|", " ") in text, setting


def test_a_client_without_its_source_still_lists_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ottla.client.settings import documentation

    def no_source(_: type) -> str:
        raise OSError("could not get source code")

    monkeypatch.setattr(documentation.inspect, "getsource", no_source)
    assert "linger_ms=5" in documentation.settings_text(ProducerSettings)
