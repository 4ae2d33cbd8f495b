"""What a page looks like: its roles and names, where its boxes are, and a picture; kept in files, compared.

Roles and names are the same in every browser. Boxes and pictures depend on fonts and on the browser: they are
compared only where both are those that the files were made with. `make looks` makes the files anew.
"""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page

from support.pages import ROOT

# Of each screen: NAME.txt with roles and names, NAME.boxes with the boxes. Pictures are those of docs/ui.md.
TEXTS = ROOT / "tests/ui/looks"
PICTURES = ROOT / "docs/pictures"
MADE_WITH = TEXTS / "made_with.json"
SHEET = ROOT / ".pipeweave/looks.png"

RENEWED = os.environ.get("PIPEWEAVE_TEST_LOOKS") == "renew"

# Links are kept by their names; where they lead is for other tests.
_ADDRESS = re.compile(r"^ *- /url: .*\n?", re.MULTILINE)

COLOURS = 96
MOST_BYTES, MOST_BYTES_IN_ALL = 60_000, 2_000_000
# How far a channel of a pixel may be off (0 to 255), and how many pixels may be further off.
NEAR, MOST_OFF = 48, 0.003
GRID = 8

_MEASURE = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const families = ["system-ui", "sans-serif", "monospace"];
  return families.map((family) => {
    pen.font = `400 100px ${family}`;
    return Math.round(pen.measureText("Sphinx of black quartz, 0123456789 ✓ ✗ → ≈").width);
  });
}"""

_BOXES = """(grid) => [...document.querySelectorAll(
  "main, main nav, h1, h2, h3, section, form, table, thead, tbody, svg, canvas, pre, button, dl, ul, ol"
)].filter((each) => each.checkVisibility()).map((each) => {
  const { x, y, width, height } = each.getBoundingClientRect();
  const name = each.id ? `#${each.id}` : typeof each.className === "string" && each.className
    ? `.${each.className.trim().split(/\\s+/).join(".")}` : "";
  return [each.tagName.toLowerCase() + name, ...[x, y, width, height].map((n) => Math.round(n / grid) * grid)]
    .join(" ");
}).join("\\n")"""


@dataclass(frozen=True, slots=True)
class Look:
    """What a page looks like now.

    Args:
        name: of its picture.
        words: the name of its text and its boxes, which both themes share.
    """

    name: str
    words: str
    roles: str
    boxes: str
    picture: bytes


class Looks:
    """The files, and the machine that compares with them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @cached_property
    def here(self) -> dict[str, Any]:
        """The browser and the fonts of this machine."""
        page = self._browser.new_page()
        try:
            page.goto("about:blank")
            fonts = page.evaluate(_MEASURE)
        finally:
            page.close()
        return {"chromium": int(self._browser.version.partition(".")[0]), "fonts": fonts}

    @cached_property
    def is_comparable(self) -> bool:
        """Whether boxes and pictures can be compared on this machine."""
        return RENEWED or (MADE_WITH.exists() and json.loads(MADE_WITH.read_text()) == self.here)

    def take(self, page: Page, name: str, words: str) -> Look:
        """Look at a page that is complete."""
        roles = _ADDRESS.sub("", page.locator("main").aria_snapshot())
        if not self.is_comparable:
            return Look(name, words, roles, "", b"")
        shot = page.screenshot(animations="disabled", caret="hide")
        return Look(name, words, roles, page.evaluate(_BOXES, GRID), _small(shot))

    def differences(self, look: Look) -> list[str]:
        """What is different from the files; nothing while they are made anew."""
        text, picture = TEXTS / f"{look.words}.txt", PICTURES / f"{look.name}.png"
        boxes = text.with_suffix(".boxes")
        if RENEWED:
            self._write(look, text, boxes, picture)
            return []
        found = _lines(text, look.roles)
        if self.is_comparable:
            found += _lines(boxes, look.boxes)
            found += [] if found else _pixels(picture, look.picture)
        return found

    def _write(self, look: Look, text: Path, boxes: Path, picture: Path) -> None:
        PICTURES.mkdir(exist_ok=True)
        text.write_text(look.roles.rstrip("\n") + "\n")
        boxes.write_text(look.boxes + "\n")
        if _pixels(picture, look.picture):
            picture.write_bytes(look.picture)
        MADE_WITH.write_text(json.dumps(self.here) + "\n")


def contact_sheet() -> Path:
    """All pictures beside each other, for whoever made them to look at."""
    shown = [Image.open(each).convert("RGB") for each in sorted(PICTURES.glob("*.png"))]
    for each in shown:
        each.thumbnail((480, 300))
    sheet = Image.new("RGB", (4 * 490, (len(shown) + 3) // 4 * 310), "white")
    for number, each in enumerate(shown):
        sheet.paste(each, (number % 4 * 490 + 5, number // 4 * 310 + 5))
    SHEET.parent.mkdir(exist_ok=True)
    sheet.save(SHEET)
    return SHEET


def _small(shot: bytes) -> bytes:
    """The picture with its most frequent colours alone: those of the statuses are kept as they are."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    counted: Any = sorted(image.getcolors(1 << 24) or (), key=_weight, reverse=True)
    colours = [channel for _, colour in counted[:COLOURS] for channel in colour]
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours + colours[:3] * (256 - len(colours) // 3))
    packed = io.BytesIO()
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def _weight(counted: Any) -> float:
    """How much a colour matters: a status may have a few pixels only, and is what is not grey."""
    number, channels = counted
    return float(number * (1 + (max(channels) - min(channels)) / 4))


def _lines(path: Path, now: str) -> list[str]:
    if not path.exists():
        return [f"{path.name} is missing"]
    before = path.read_text().rstrip("\n").splitlines()
    after = now.rstrip("\n").splitlines()
    gone, new = [each for each in before if each not in after], [each for each in after if each not in before]
    if before == after:
        return []
    changes = [f"- {each}" for each in gone] + [f"+ {each}" for each in new] or ["the order of its lines"]
    return [f"{path.name}: {each}" for each in changes[:20]]


def _pixels(path: Path, now: bytes) -> list[str]:
    """How the picture differs, if it does."""
    if not path.exists():
        return [f"{path.name} is missing"]
    before, after = Image.open(path).convert("RGB"), Image.open(io.BytesIO(now)).convert("RGB")
    if before.size != after.size:
        return [f"{path.name} was {before.size}, and is {after.size}"]
    apart = ImageChops.difference(before, after).convert("L").point(lambda value: 255 * (value > NEAR))
    share = apart.histogram()[255] / (after.width * after.height)
    return [f"{path.name}: {share:.1%} of the pixels changed"] if share > MOST_OFF else []
