"""Reads the head of a usual request by one expression, where gunicorn walks through it byte by byte.

Whatever is not plain is left to gunicorn's parser, which knows what to refuse: other versions and methods,
folded lines, names with underscores, fields that come twice, codings, expectations, upgrades. So a head is
either read here as gunicorn reads it, or not at all. docs/decisions/0108-plain-heads.md says why.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

# Within it, neither the line nor a field is longer than gunicorn takes.
MAX_PLAIN_HEAD = 8_190
MOST_FIELDS = 100

# Its target is a path that begins with one slash, and has no fragment.
_PLAIN = re.compile(
    r"(?P<method>GET|POST|PUT|PATCH|DELETE) "
    r"(?P<target>(?P<path>/(?!/)[!\"$->@-~]*)(?:\?(?P<query>[!\"$-~]*))?) HTTP/1\.1\r\n"
    r"(?P<fields>(?:[A-Za-z0-9-]+:[\t -~\x80-\xff]*\r\n)+)\r\n"
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(:[0-9]*)?\Z")
_LENGTH = re.compile(r"[0-9]{1,9}\Z")
# They change how the rest of the connection is read.
_OTHERS = ("HTTP_TRANSFER_ENCODING", "HTTP_EXPECT", "HTTP_UPGRADE")
_OWN_KEYS = {"HTTP_CONTENT_TYPE": "CONTENT_TYPE", "HTTP_CONTENT_LENGTH": "CONTENT_LENGTH"}


def read(head: bytes, scheme_keys: Collection[str] = ()) -> dict[str, str] | None:
    """The variables of WSGI that a head holds; None for a head that is gunicorn's to read.

    Args:
        head: with the empty line at its end.
        scheme_keys: the variables of the fields by which a proxy says the scheme. gunicorn compares several.
    """
    if len(head) > MAX_PLAIN_HEAD:
        return None
    match = _PLAIN.fullmatch(head.decode("latin-1"))
    if match is None:
        return None
    method, target, path, query, fields = match.groups()
    variables = _variables(fields)
    if variables is None or not _is_plain(variables, scheme_keys):
        return None
    variables["REQUEST_METHOD"] = method
    variables["RAW_URI"] = target
    variables["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path
    variables["QUERY_STRING"] = query or ""
    return variables


def _variables(fields: str) -> dict[str, str] | None:
    """What the fields say; None if one of them comes twice, or if they are too many."""
    lines = fields.split("\r\n")
    del lines[-1]
    variables: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        variables["HTTP_" + name.upper().replace("-", "_")] = value.strip(" \t")
    if len(variables) < len(lines) or len(lines) > MOST_FIELDS:
        return None
    for key, own in _OWN_KEYS.items():
        if key in variables:
            variables[own] = variables.pop(key)
    return variables


def _is_plain(variables: dict[str, str], scheme_keys: Collection[str]) -> bool:
    length = variables.get("CONTENT_LENGTH")
    return (
        _HOST.match(variables.get("HTTP_HOST", "")) is not None
        and (length is None or _LENGTH.match(length) is not None)
        and variables.keys().isdisjoint(_OTHERS)
        and len(variables.keys() & set(scheme_keys)) < 2
    )
