"""The essence of Spark's errors, which come with pages of stack traces of both languages."""

from __future__ import annotations

import re

LINE_MAX = 600
CAUSES_MAX = 8
_PYTHON_LAST = re.compile(
    r"^(?:[\w.]+\.)?(?P<error>\w+(?:Error|Exception|Warning|Exit|Interrupt)\b.*)$"
    r"|^(?:\w+\.)+(?P<other>[A-Z]\w+: .+)$",  # with a module, and so not a line of a message
    re.M,
)
_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_ORIGIN = re.compile(r"record (\S+-\d+@\d+)")
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?) SQLSTATE", re.S)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+): (.*)$", re.M)
_NOT_THEIRS = ("/pyspark/", "/py4j/", "/ottla/", "<frozen", "/lib/python")


def first_line(error: BaseException) -> str:
    """Return one line about any error: its own text, not that of the layers around it."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    name = type(error).__name__
    is_spark = lines[0].startswith("[") or name == "AnalysisException"
    return _cut(lines[0] if is_spark else f"{name}: {lines[0]}")


def text_with_causes(error: BaseException) -> str:
    """Return the message of an exception of Spark's. If it tells nothing by itself, as "Writing job
    failed." does, those of its causes follow."""
    text = str(error)
    causes: list[str] = []
    cause = getattr(error, "_cause", None)
    while cause is not None and len(causes) < CAUSES_MAX:
        causes.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return text if "Traceback" in text else "\n".join([text, *causes])


def query_error(text: str) -> str:
    """Return one line about a failed query, from the text of its exception."""
    if raised := _RAISED.search(text):
        return _cut(raised.group(1))
    if "Traceback (most recent call last)" in text:
        return _cut(_python_error(text))
    causes = _CAUSE.findall(text)
    if causes:
        name, message = causes[-1]
        return _cut(f"{name}: {message}")
    text = text.partition("terminated with exception: ")[2] or text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _cut(lines[0]) if lines else "no reason given"


def _python_error(text: str) -> str:
    """Return `ValueError: no such currency (steps.py line 12, in convert)`."""
    trace = text[text.rindex("Traceback (most recent call last)") :]
    last = _PYTHON_LAST.search(trace)
    message = (last["error"] or last["other"]) if last else trace.splitlines()[-1]
    theirs = [one for one in _PLACE.findall(trace) if not any(no in one[0] for no in _NOT_THEIRS)]
    if not theirs:
        return message
    file, line, function = theirs[-1]
    return f"{message} ({file.rpartition('/')[2]} line {line}, in {function})"


def record_in(text: str) -> str | None:
    """Return the record that an error names, as `topic-partition@offset`."""
    found = _ORIGIN.search(text)
    return found.group(1) if found else None


def _cut(line: str) -> str:
    line = re.sub(r" SQLSTATE: \w+(?=;|$)", "", " ".join(line.split()))
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"
