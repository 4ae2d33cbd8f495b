"""Know the words of other tools for what a step does, so that a mistake names the word that is right here."""

from __future__ import annotations

from typing import Final

WORDS: Final = {
    **dict.fromkeys(("if", "when", "runIf", "run_if"), "condition"),
    **dict.fromkeys(("switch", "case", "branches", "Choices"), "choice"),
    **dict.fromkeys(("then", "next", "Next", "after", "dependsOn", "depends_on", "upstream"), "needs"),
    **dict.fromkeys(("fork", "do"), "parallel"),
    **dict.fromkeys(("for", "forEach", "foreach", "each", "expand"), "map"),
    **dict.fromkeys(("while", "until", "repeat"), "loop"),
    **dict.fromkeys(("wait", "delay", "pause"), "sleep"),
    **dict.fromkeys(("listen", "event", "waitForEvent", "wait_for_event"), "signal"),
    **dict.fromkeys(("set", "output", "Result"), "transform"),
    **dict.fromkeys(("run", "workflow", "subflow"), "pipeline"),
    **dict.fromkeys(("call", "type", "Type", "uses", "Resource"), "task"),
    **dict.fromkeys(("with", "inputs", "arguments", "Parameters"), "params"),
    "name": "id",
}
"""The key of a step by what others call it."""
