"""All checks, in their order: what must work first, what may end the worker last."""

from __future__ import annotations

from pipeweave.conformance import (
    bad_input_checks,
    first_checks,
    long_checks,
    repetition_checks,
    restart_checks,
    signature_checks,
    size_checks,
)
from pipeweave.conformance.check import ContractCheck

CHECKS: tuple[ContractCheck, ...] = (
    *first_checks.CHECKS,
    *repetition_checks.CHECKS,
    *signature_checks.CHECKS,
    *bad_input_checks.CHECKS,
    *size_checks.CHECKS,
    *long_checks.CHECKS,
    # Before the bodies that the kit itself spoils: what a worker makes of them is none of its faults.
    *repetition_checks.AFTER_ALL_RUNS,
    *bad_input_checks.BODIES,
    *restart_checks.CHECKS,
)
NAMES = tuple(check.name for check in CHECKS)
