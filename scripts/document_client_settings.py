"""Writes docs/clients/settings.md from the settings classes: names, defaults, meanings.

`python scripts/document_client_settings.py` rewrites the page.
"""

from dataclasses import MISSING, fields
from pathlib import Path

from ottla.client.settings.common import ClientSettings
from ottla.client.settings.consumer import ConsumerSettings
from ottla.client.settings.documentation import meanings
from ottla.client.settings.producer import ProducerSettings

PAGE = Path(__file__).parents[1] / "docs" / "clients" / "settings.md"

HEAD = """\
# Settings of the clients

Kafka's names, with `_` where Kafka writes `.`, and Kafka's defaults. They are keyword arguments of
`Producer`, `Consumer` and `Admin`, the same in `ottla` and `ottla.blocking`; an unknown name or a
value out of range is refused with a `BadSetting` that says why. From a dictionary with Kafka's own
spelling:

```python
import ottla

ottla.Producer(**ottla.with_underscores({"bootstrap.servers": "localhost:9092", "linger.ms": 5}))
```

This page is written by `scripts/document_client_settings.py`.
"""


def main() -> None:
    PAGE.write_text(render())


def render() -> str:
    common = {field.name for field in fields(ClientSettings)}
    return "\n".join(
        [
            HEAD,
            section("All clients", ClientSettings, set()),
            section("Producer", ProducerSettings, common),
            section("Consumer", ConsumerSettings, common),
        ]
    )


def section(title: str, kind: type, leave_out: set[str]) -> str:
    known = meanings(kind)
    rows = [f"## {title}\n", "| Setting | Default | Meaning |", "|---|---|---|"]
    for field in fields(kind):
        if field.name in leave_out:
            continue
        assert field.default is not MISSING, field.name
        rows.append(f"| `{field.name}` | {shown(field.default)} | {cell(known[field.name])} |")
    return "\n".join(rows) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, tuple):
        return f"`[{', '.join(map(repr, default))}]`" if default else "none"
    return f"`{default}`"


if __name__ == "__main__":
    main()
