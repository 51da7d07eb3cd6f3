"""Pictures as text that other programs draw: Mermaid and Graphviz."""

from __future__ import annotations

from ottla.streams.picture.drawing import INTERNAL, STEP, STORE, TOPIC, Drawing, Shape

_MERMAID = {
    TOPIC: '[["{}"]]',
    INTERNAL: '[["{}"]]',
    STEP: '("{}")',
    STORE: '[("{}")]',
}
_DOT = {
    TOPIC: "shape=cds, style=filled, fillcolor=lightyellow",
    INTERNAL: "shape=cds, style=dashed",
    STEP: "shape=box, style=rounded",
    STORE: "shape=cylinder",
}


def mermaid(drawing: Drawing) -> str:
    ids = {shape: f"n{number}" for number, shape in enumerate(drawing.shapes)}

    def line(shape: Shape) -> str:
        return ids[shape.id] + _MERMAID[shape.kind].format(shape.label)

    lines = ["---", f"title: {drawing.title}", "---", "flowchart TD"]
    lines += [f"  {line(shape)}" for shape in drawing.of_group(None)]
    for number, name in _filled(drawing):
        lines.append(f'  subgraph q{number} ["query {name}"]')
        lines += [f"    {line(shape)}" for shape in drawing.of_group(number)]
        lines.append("  end")
    lines += [f"  {ids[start]} --> {ids[end]}" for start, end in drawing.arrows]
    return "\n".join(lines) + "\n"


def dot(drawing: Drawing) -> str:
    def line(shape: Shape) -> str:
        return f"{_quoted(shape.id)} [label={_quoted(shape.label)}, {_DOT[shape.kind]}];"

    lines = [f"digraph {_quoted(drawing.title)} {{"]
    lines += [f"  {line(shape)}" for shape in drawing.of_group(None)]
    for number, name in _filled(drawing):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(f'query {name}')};"]
        lines += [f"    {line(shape)}" for shape in drawing.of_group(number)]
        lines.append("  }")
    lines += [f"  {_quoted(start)} -> {_quoted(end)};" for start, end in drawing.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _filled(drawing: Drawing) -> list[tuple[int, str]]:
    """Return the queries with steps; one that only copies between topics has none to draw."""
    numbered = enumerate(drawing.groups)
    return [(number, name) for number, name in numbered if drawing.of_group(number)]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
