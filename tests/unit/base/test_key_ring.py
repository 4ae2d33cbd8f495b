"""Of several keys the first one signs and encrypts, and what any of them made is accepted."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from pipeweave import callback_tokens, dispatch_ids, ids, signatures, webhooks
from pipeweave.errors import InvalidSetting, InvalidStorageToken, Unauthenticated
from pipeweave.key_ring import key_id, keys_of
from pipeweave.orchestrator.deployment import shared_settings
from pipeweave.orchestrator.dispatch import object_urls
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.security import sealed_texts
from pipeweave.settings import Settings, load
from pipeweave.storage import tokens

OLD, NEW, OTHER = "0" * 32, "1" * 32, "2" * 32
RING = f"{NEW},{OLD}"
ATTEMPT = ids.task_run_id(ids.new_id(), 1)
NOW = 1_700_000_000
CONTENT = {"id": "a", "provider": "local", "endpoint": "", "bucket": "", "credentials": {"basePath": "/x"}}
# What one process signed, and another one with another ring reads: who signs, who reads, whether it is taken.
PAIRS = [(OLD, RING, True), (NEW, RING, True), (RING, NEW, True), (RING, OLD, False), (RING, OTHER, False)]

pairs = pytest.mark.parametrize(("signs", "reads", "is_taken"), PAIRS)


@pairs
def test_ids_of_attempts_and_callbacks_are_read_with_each_key(signs: str, reads: str, is_taken: bool) -> None:
    dispatch_id = dispatch_ids.make(signs, ATTEMPT, 1)
    assert (dispatch_ids.read(reads, dispatch_id) is not None) == is_taken
    token = callback_tokens.make(signs, ATTEMPT, 1, datetime.now(UTC))
    assert (callback_tokens.read(reads, token) is not None) == is_taken


@pairs
def test_dispatches_are_verified_with_each_key(signs: str, reads: str, is_taken: bool) -> None:
    header = signatures.sign(signs, NOW, "/tasks/a", b"{}")
    assert signatures.is_valid(reads, header, "/tasks/a", b"{}", NOW) == is_taken


@pairs
def test_a_service_s_own_secret_is_as_many_keys(signs: str, reads: str, is_taken: bool) -> None:
    mine, theirs = (signatures.worker_secret(each, "t", "s", is_shared=False) for each in (signs, reads))
    header = signatures.sign(mine, NOW, "/tasks/a", b"{}")
    assert signatures.is_valid(theirs, header, "/tasks/a", b"{}", NOW) == is_taken


@pytest.mark.parametrize("format", ["sdk", "pbkdf2"])
@pairs
def test_storage_tokens_are_opened_with_each_key(
    format: tokens.Format, signs: str, reads: str, is_taken: bool
) -> None:
    token = tokens.seal(CONTENT, signs, format=format, now=NOW, seconds=60)
    if is_taken:
        assert tokens.open_sealed(token, reads, now=NOW)["id"] == "a"
    else:
        with pytest.raises(InvalidStorageToken):
            tokens.open_sealed(token, reads, now=NOW)


@pairs
def test_urls_of_objects_are_checked_with_each_key(signs: str, reads: str, is_taken: bool) -> None:
    url = object_urls.own_url(signs, "GET", "b", "p", NOW)
    given = ("GET", "b", "p", NOW, url.rpartition("=")[2], NOW)
    if is_taken:
        object_urls.check(reads, *given)
    else:
        with pytest.raises(Unauthenticated):
            object_urls.check(reads, *given)


@pytest.mark.parametrize("knows", [RING, NEW, OLD])
def test_what_hooks_send_is_signed_with_all_keys(knows: str) -> None:
    header = webhooks.sign(webhooks.hook_secret(RING, "t", "ops"), NOW, b"{}")
    assert webhooks.is_valid(webhooks.hook_secret(knows, "t", "ops"), header, b"{}", NOW)
    assert not webhooks.is_valid(webhooks.hook_secret(OTHER, "t", "ops"), header, b"{}", NOW)


@pairs
def test_stored_texts_are_opened_with_each_key(signs: str, reads: str, is_taken: bool) -> None:
    sealed = sealed_texts.seal(signs, "p", "text")
    assert sealed.startswith(sealed_texts.prefix(signs)) and key_id(keys_of(signs)[0]) in sealed
    if is_taken:
        assert sealed_texts.open_sealed(reads, "p", sealed) == "text"
    else:
        with pytest.raises(InvalidSetting, match="cannot be read"):
            sealed_texts.open_sealed(reads, "p", sealed)


def test_a_stored_text_of_the_first_form_is_opened_and_a_changed_one_is_not() -> None:
    of_first_form = sealed_texts.seal(OLD, "p", "text").rpartition(":")[2]
    assert sealed_texts.open_sealed(RING, "p", of_first_form) == "text"
    for wrong in (f"2:{key_id(OLD)}:{of_first_form}", f"1::{of_first_form}", "1:", ":", "a:b:c:d", "", "?"):
        with pytest.raises(InvalidSetting):
            sealed_texts.open_sealed(RING, "p", wrong)
    with pytest.raises(InvalidSetting):
        sealed_texts.open_sealed(RING, "of another row", of_first_form)


def test_the_log_of_an_attempt_is_looked_for_by_each_key() -> None:
    [_, by_new, by_old] = paths.log_paths(RING, ATTEMPT, 1)
    assert dispatch_ids.make(NEW, ATTEMPT, 1) in by_new and dispatch_ids.make(OLD, ATTEMPT, 1) in by_old


def test_a_process_works_beside_those_that_accept_what_it_signs() -> None:
    def takes(one: str, other: str) -> bool:
        mine, theirs = (
            shared_settings.SharedSettings.of(Settings(secret_key=each), "p") for each in (one, other)
        )
        return not list(mine.differences(theirs, signs=True))

    # The exchange: each step beside the one before.
    steps = [OLD, f"{OLD},{NEW}", RING, NEW]
    assert all(takes(one, other) and takes(other, one) for one, other in pairwise(steps))
    assert not takes(OLD, RING) and not takes(RING, OLD) and not takes(OLD, NEW)
    assert not takes(RING, f"{OTHER},{NEW}")


def test_the_setting_takes_several_keys() -> None:
    assert load({"PIPEWEAVE_SECRET_KEY": f" {NEW} , {OLD} "}).secret_key == RING
    for wrong in (f"{NEW},", f"{NEW},short", f"{NEW},{NEW}", ",".join(str(each) * 32 for each in range(6))):
        with pytest.raises(InvalidSetting) as refused:
            load({"PIPEWEAVE_SECRET_KEY": wrong})
        assert NEW not in str(refused.value)
