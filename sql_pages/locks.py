"""Reads from the text of a statement what it locks and what it writes."""

from __future__ import annotations

import re

_ROWS = re.compile(r"\bFOR ((?:NO KEY )?UPDATE|(?:KEY )?SHARE)(?: OF (\w+))?( SKIP LOCKED| NOWAIT)?")
_ADVISORY = re.compile(r"\bpg_(?:try_)?advisory_\w*lock\w*")
_TABLES = re.compile(r"\bLOCK TABLE (.+) IN (.+) MODE")
_DEFINITION = re.compile(r"\s*(?:ALTER|CREATE|DROP)\b")
_WRITTEN = re.compile(r"(?<!FOR )(?<!KEY )(?<!DO )\b(UPDATE|INSERT INTO|DELETE FROM) (\w+)")
_FROM = re.compile(r"\bFROM (\w+)")


def locked(sql: str) -> list[str]:
    """What a statement locks beside the rows that it changes."""
    found = [
        f"rows of `{_table(sql, match)}` (`FOR {match[1]}{match[3] or ''}`)" for match in _ROWS.finditer(sql)
    ]
    found += [f"an advisory lock (`{each}`)" for each in _ADVISORY.findall(sql) if "unlock" not in each]
    found += [f"table {match[1].replace('ONLY ', '')} (`{match[2]}`)" for match in _TABLES.finditer(sql)]
    if _DEFINITION.match(sql):
        found.append("the tables that it creates, changes or drops")
    return list(dict.fromkeys(found))


def written(sql: str) -> list[str]:
    """The tables whose rows a statement changes, and how."""
    found = [f"`{table}` (`{verb.split()[0]}`)" for verb, table in _WRITTEN.findall(sql)]
    return list(dict.fromkeys(found))


def _table(sql: str, lock: re.Match[str]) -> str:
    before = sql[: lock.start()]
    if lock[2]:
        tables: list[str] = re.findall(rf"(\w+) AS {lock[2]}\b", before)
        return tables[-1]
    own = _FROM.search(_same_brackets(before))
    return own[1] if own else "?"


def _same_brackets(before: str) -> str:
    """The end of a text as far as it lies in the same brackets, without what they hold in brackets."""
    kept, depth = "", 0
    for character in reversed(before):
        depth += {")": 1, "(": -1}.get(character, 0)
        if depth < 0:
            break
        if depth == 0 and character != "(":
            kept = character + kept
    return kept
