"""The page of a verb: asks, shows what will be sent, and sends it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.api.http import RecordedCall
from pipeweave.api.ui.screens import Redirect, ScreenPage
from pipeweave.api.ui.verbs import VERBS, Effects, Verb
from pipeweave.api.ui.view import ROOT, View
from pipeweave.errors import FieldError, InvalidInput, NotFound, PipeWeaveError

# Fields of the form that are not members of the body.
NEXT, KEY, TYPED = "next", "key", "typed"
# Members of bodies that mean the same as the key.
TOKENS = frozenset({"runToken", "idempotencyKey"})


@dataclass(frozen=True, slots=True)
class _Form:
    name: str
    verb: Verb
    ids: Mapping[str, str]
    body: Any
    effects: Effects


def page(view: View, name: str, problem: PipeWeaveError | None = None) -> ScreenPage:
    """The question.

    Args:
        name: of the verb.
        problem: why it was not done.

    Raises:
        NotFound: there is no such verb, or an id is missing.
    """
    verb = _verb(view, name)
    field_texts = verb.parameters(view)
    try:
        form: _Form | None = _form(view, name, verb)
    except InvalidInput as error:
        # What is only missing yet is no mistake of a person who has just been asked.
        is_unasked = all(each.code == "required" for each in error.errors)
        problem, form = problem or (None if is_unasked else error), None
    endpoint = view.inside.endpoint(verb.operation)
    ids = _ids(view, verb)
    path = endpoint.path
    for each, text in ids.items():
        path = path.replace(f"{{{each}}}", text)
    title = (form and form.effects.title) or verb.question
    shown = {
        "name": name,
        "verb": verb,
        "title": title,
        "ids": ids,
        "problem": problem and problem.to_problem(),
        "wrong": _wrong(verb, problem),
        "sent": form and RecordedCall(endpoint.method, path, (), form.body if endpoint.body else None),
        "effects": form.effects if form else Effects(),
        "to_type": form.effects.to_type if form else "",
        "line": verb.line(ids, field_texts, view.tenant, form and form.body),
        "given": field_texts,
        "next": _next(view),
        "key": view.parameters.get(KEY) or secrets.token_hex(12),
        "takes_key": bool(endpoint.longest_key),
    }
    return ScreenPage(title, shown)


def send(view: View, name: str) -> Redirect | ScreenPage:
    """Do it, and go on to the screen that follows, or show the answer.

    Raises:
        PipeWeaveError: as the endpoint; nothing was changed.
    """
    verb = _verb(view, name)
    form = _form(view, name, verb)
    _require_typed(view, form.effects)
    endpoint = view.inside.endpoint(verb.operation)
    if verb.each:
        return _send_each(view, name, form)
    # A person who gives a token of their own means that one.
    has_own = isinstance(form.body, dict) and not TOKENS.isdisjoint(form.body)
    key = view.parameters.get(KEY) if endpoint.longest_key and not has_own else None
    body = form.body if endpoint.body is not None else None
    answer, _ = view.inside.ask(view.caller, verb.operation, form.ids, {}, body, key)
    if verb.shows:
        return ScreenPage(verb.done, {"answer": answer, "next": _next(view)})
    return Redirect(_told_next(view, name, view.url(verb.after.format_map(answer)) if verb.after else ""))


def _require_typed(view: View, effects: Effects) -> None:
    """Refuse what the person has not typed out.

    Raises:
        InvalidInput: something else was typed, or nothing.
    """
    wanted = effects.to_type
    if wanted and view.parameters.get(TYPED, "").strip() != wanted:
        what = "the name" if effects.typed else "the number of objects that this changes"
        message = f"type {wanted}, {what}"
        raise InvalidInput(message, errors=[FieldError(TYPED, message, "invalid", wanted)])


def _send_each(view: View, name: str, form: _Form) -> Redirect:
    """Do it to one after the other. Those that refuse it leave the others as they are.

    Raises:
        PipeWeaveError: of the first that refused it; the message says how many were changed.
    """
    refusals: list[PipeWeaveError] = []
    chosen = list(dict.fromkeys(view.lists.get(form.verb.each, ())))
    for each in chosen:
        try:
            view.inside.ask(view.caller, form.verb.operation, {"id": each}, {}, form.body)
        except PipeWeaveError as error:
            refusals.append(error)
    if refusals:
        done = len(chosen) - len(refusals)
        message = f"{done:,} of {len(chosen):,} are done. The first of the others: {refusals[0].detail}"
        raise InvalidInput(message, errors=refusals[0].errors)
    return Redirect(_told_next(view, name))


def _told_next(view: View, name: str, target: str = "") -> str:
    target = target or _next(view)
    return f"{target}{'&' if '?' in target else '?'}done={name}"


def template(name: str) -> str:
    """The template that shows the answer of a verb."""
    return VERBS.rows[name].shows


def done_sentence(name: str | None) -> str:
    """The sentence that tells that a verb was done; empty for any other name."""
    verb = VERBS.rows.get(name or "")
    return verb.done if verb else ""


def _verb(view: View, name: str) -> Verb:
    verb = VERBS.rows.get(name)
    if verb is None or not view.inside.has(verb.operation):
        raise NotFound(f"the dashboard has no verb {name[:100]!r}")
    return verb.of(view)


def _wrong(verb: Verb, problem: PipeWeaveError | None) -> dict[str, str]:
    """The mistakes by the names of fields; one within a list belongs to the field of the list."""
    mistakes = {each.field: each.message for each in problem.errors} if problem else {}
    names = sorted((each.name for each in verb.fields), key=len, reverse=True)
    for place, message in list(mistakes.items()):
        owner = next((name for name in names if place.startswith((f"{name}.", f"{name}["))), None)
        if owner is not None:
            mistakes.setdefault(owner, f"{place.removeprefix(owner)} {message}")
    return mistakes


def _form(view: View, name: str, verb: Verb) -> _Form:
    ids, body = _ids(view, verb), verb.read(verb.parameters(view))
    return _Form(name, verb, ids, body, verb.effects(view, ids, body))


def _ids(view: View, verb: Verb) -> dict[str, str]:
    names = view.inside.endpoint(verb.operation).ids
    if verb.each:
        # The request that is shown is that of the first.
        return dict.fromkeys(names, next(iter(view.lists.get(verb.each, ())), "ID"))
    missing = [each for each in names if not view.parameters.get(each)]
    if missing:
        raise NotFound(f"the address names no {missing[0]}")
    return {each: view.parameters[each] for each in names}


def _next(view: View) -> str:
    """Where to go on; only to a screen of this dashboard."""
    target = view.parameters.get(NEXT, "")
    is_ours = target.startswith(f"{ROOT}/{view.tenant}/") and not any(
        each in target for each in ("\\", "\r", "\n", "//")
    )
    return target if is_ours else view.url("/")
