"""Every statement that the orchestrator sends is shown in docs/sql/."""

from __future__ import annotations

from sql_pages import composed, statements


def test_every_text_that_is_handed_to_a_transaction_is_on_a_page() -> None:
    found = statements.modules()
    shown = statements.constants(found) + composed.composed(found)
    on_pages = {sender for statement in shown for sender in statement.senders}
    sending = {call.sender for module in found for call in statements.calls(module)}
    assert sending <= on_pages


def test_every_statement_says_what_it_is_for() -> None:
    found = statements.modules()
    silent = [each.name for each in statements.constants(found) + composed.composed(found) if not each.does]
    assert not silent, "give the function that sends it, or the one that calls that, a docstring"
