"""Writes docs/clients/settings.md from the settings classes: names, defaults, meanings.

`python scripts/document_client_settings.py` rewrites the page.
"""

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields
from pathlib import Path

from ottla.client.settings.common import ClientSettings
from ottla.client.settings.consumer import ConsumerSettings
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
    meanings = docs(kind)
    rows = [f"## {title}\n", "| Setting | Default | Meaning |", "|---|---|---|"]
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in leave_out:
            continue
        assert field.default is not MISSING, field.name
        rows.append(f"| `{field.name}` | {shown(field.default)} | {meanings[field.name]} |")
    return "\n".join(rows) + "\n"


def shown(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, str):
        return f'`"{default}"`'
    if isinstance(default, tuple):
        return f"`[{', '.join(map(repr, default))}]`" if default else "none"
    return f"`{default}`"


def docs(kind: type) -> dict[str, str]:
    """The text below each field, which Python itself throws away."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = " ".join(words.split()).replace("|", "\\|")
    return found


if __name__ == "__main__":
    main()
