"""`python -m help_pages [FOLDER]`: builds the site, into api/help or into this folder."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

CONFIG = Path(__file__).parents[1] / "mkdocs.yml"


def main(arguments: list[str]) -> None:
    """Build the site; a link that leads nowhere ends it with an error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    chosen = {"site_dir": str(Path(arguments[0]).resolve())} if arguments else {}
    config = load_config(str(CONFIG), **chosen)
    build(config)
    print(f"{sum(1 for _ in Path(config.site_dir).rglob('*.html'))} pages in {config.site_dir}")


if __name__ == "__main__":
    main(sys.argv[1:])
