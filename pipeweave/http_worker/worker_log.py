"""The log of an HTTP worker: lines on stderr, as others write them; those of tasks are stored, too."""

from __future__ import annotations

import logging
import sys

from pipeweave.attempt import ToStoredLogs
from pipeweave.http_worker.attempt import current_names
from pipeweave.log_lines import LEVELS
from pipeweave.settings import wants_colours
from pipeweave.terminal_lines import formatter

# What they say at INFO is said better by PipeWeave's own lines, or holds secrets.
_NOISY = ("waitress", "urllib3", "botocore", "google")


class _AttemptNames(logging.Filter):
    """Adds the ids of the current attempt to a record, unless the record has members of these names."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = vars(record)
        for name, value in current_names().items():
            known.setdefault(name, value)
        return True


def configure_unless_configured(log_format: str, log_level: str, log_names: str) -> None:
    """Send every logger's lines to stderr, unless the program has configured its logging itself.

    Args:
        log_format: as PIPEWEAVE_LOG_FORMAT has it.
        log_level: as LOG_LEVEL has it.
        log_names: as LOG_NAMES has it.
    """
    if logging.root.handlers:
        return
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(formatter(log_format, log_names, sys.stderr, is_coloured=wants_colours()))
    to_stderr.addFilter(_AttemptNames())
    logging.basicConfig(level=LEVELS.get(log_level, logging.INFO), handlers=[to_stderr])
    logging.captureWarnings(True)
    for each in _NOISY:
        logging.getLogger(each).setLevel(logging.WARNING)


def store_lines(lines: ToStoredLogs) -> None:
    """Store what tasks log from now on."""
    logging.root.addHandler(lines)
    for name in ("pipeweave.task", "pipeweave.stdout", "pipeweave.stderr"):
        # Without a configuration, a program logs warnings alone.
        if not logging.getLogger(name).isEnabledFor(logging.INFO):
            logging.getLogger(name).setLevel(logging.INFO)


def store_no_lines(lines: ToStoredLogs) -> None:
    """Undo `store_lines`."""
    logging.root.removeHandler(lines)
