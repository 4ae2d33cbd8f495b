"""Reads a certificate that a command takes: a file with it, or its SHA-256."""

from __future__ import annotations

import hashlib
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _Thumbprint = click.ParamType[str]
else:
    # Generic from click 8.4 on.
    _Thumbprint = click.ParamType

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Thumbprint(_Thumbprint):
    """The SHA-256 of a certificate as 64 hexadecimal digits, with or without colons, or a file in PEM."""

    name = "FILE|SHA256"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        digits = str(value).replace(":", "").lower()
        if re.fullmatch("[0-9a-f]{64}", digits):
            return digits
        try:
            text = Path(str(value)).read_text(encoding="ascii")
            first = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()
        except (OSError, ValueError):
            self.fail(f"{value!r} is neither a file with a certificate (PEM) nor its SHA-256.", param, ctx)
