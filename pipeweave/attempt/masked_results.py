"""Take the values of secrets out of what a call has returned and added, before anything of it is stored."""

from __future__ import annotations

from dataclasses import replace

import orjson

from pipeweave.attempt.files import Files
from pipeweave.authoring import CallResult, encode
from pipeweave.masking import Masks


def masked_result(result: CallResult, masks: Masks) -> CallResult:
    """The result of a call without the values; the same object if it holds none.

    The URL of a poll is part of it: a URL with a secret is asked without it, and fails where all can see it.
    """
    suspend = result.suspend
    if suspend is not None:
        url = None if suspend.url is None else masks.text(suspend.url)
        return result if url == suspend.url else replace(result, suspend=replace(suspend, url=url))
    text = result.encoded.decode() if masks.longest else ""
    if masks.text(text) == text:
        return result
    output, encoded = encode(masks.json(orjson.loads(text)))
    return replace(result, output=output, encoded=encoded)


def mask_assets(files: Files, masks: Masks) -> tuple[str, ...]:
    """Take the values out of the assets that are text or JSON; returns the keys of those that held one.

    Binary assets are left as they are: their content is not looked into.
    """
    held = []
    if masks.longest:
        for key, asset in files.added.items():
            if asset.type == "binary":
                continue
            text = asset.path.read_text()
            masked = masks.line(text) if asset.type == "json" else masks.text(text)
            if masked != text:
                files.replace(key, masked.encode())
                held.append(key)
    return tuple(held)
