"""The few words of Kusto that the alerts are written in, played over lines of the log.

It takes `let NAME = (...);`, a table, `where Message matches regex`, `where COLUMN !in (NAME)`, `extend COLUMN =
extract(...)` and `distinct COLUMN`, and refuses everything else: a query that says more cannot be held
here against what the app says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Row = dict[str, str]
Tables = dict[str, Sequence[Row]]

_LET = re.compile(r"let (\w+) = \((.*?)\);\s*", re.DOTALL)
_MATCHES = re.compile(r'where Message matches regex @"([^"]*)"')
_NOT_IN = re.compile(r"where (\w+) !in \((\w+)\)")
_EXTEND = re.compile(r'extend (\w+) = (?:toint\()?extract\(@"([^"]*)", 1, Message\)\)?')
_DISTINCT = re.compile(r"distinct (\w+)")


def run(query: str, tables: Tables) -> list[Row]:
    """The rows that the query leaves. Raises ValueError for words that are not known here."""
    tables = dict(tables)
    for name, inner in _LET.findall(query):
        tables[name] = _pipe(inner, tables)
    return _pipe(_LET.sub("", query), tables)


def _pipe(text: str, tables: Tables) -> list[Row]:
    first, *steps = (step.strip() for step in re.split(r"^\s*\|", text, flags=re.MULTILINE))
    rows = [dict(row) for row in tables[first]]
    for step in steps:
        rows = list(_step(step, rows, tables))
    return rows


def _step(step: str, rows: list[Row], tables: Tables) -> Iterable[Row]:
    if found := _MATCHES.fullmatch(step):
        return (row for row in rows if re.search(found[1], row["Message"]))
    if found := _NOT_IN.fullmatch(step):
        others = {row[found[1]] for row in tables[found[2]]}
        return (row for row in rows if row[found[1]] not in others)
    if found := _EXTEND.fullmatch(step):
        return (row | {found[1]: _first(found[2], row["Message"])} for row in rows)
    if found := _DISTINCT.fullmatch(step):
        return ({found[1]: value} for value in dict.fromkeys(row[found[1]] for row in rows))
    raise ValueError(f"not known here: {step}")


def _first(pattern: str, message: str) -> str:
    found = re.search(pattern, message)
    return found[1] if found else ""
