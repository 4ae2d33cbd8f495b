"""Values of secrets are hidden in every form in which programs write them, wherever they stand."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import masking
from pipeweave.masking import HIDDEN, Masking, Masks

VALUE = 'p"a/s\\s wörd+1'
# A star may be part of what stands in the place of a secret.
SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*\0"), min_size=6, max_size=40)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=30)
WRITINGS = (
    lambda text: text,
    lambda text: json.dumps(text),
    lambda text: orjson.dumps(text).decode(),
    lambda text: repr(text),
    lambda text: quote(text),
    lambda text: quote(text, safe=""),
    lambda text: quote_plus(text),
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
)


def masks(*values: str) -> Masks:
    made = Masks()
    for each in values:
        made.add(each)
    return made


@pytest.mark.parametrize("write", WRITINGS)
def test_each_form_of_a_value_is_hidden(write) -> None:  # type: ignore[no-untyped-def]
    written = write(VALUE)
    assert masks(VALUE).text(f"before {written} behind").replace('"', "").replace("'", "") == (
        f"before {HIDDEN} behind"
    )


@given(SECRETS, AROUND, AROUND, st.sampled_from(WRITINGS))
def test_no_form_of_a_value_is_left_in_any_text(secret, before, after, write) -> None:  # type: ignore[no-untyped-def]
    written = write(secret)
    inner = written.strip("\"'") if written != secret else secret
    masked = masks(secret).text(before + written + after)
    assert len(inner) < 6 or inner not in masked
    assert secret not in masked


@given(SECRETS, st.binary(max_size=5), st.binary(max_size=5))
def test_a_value_in_the_middle_of_base64_is_hidden(secret: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    masked = masks(secret).text(encoded)
    assert HIDDEN in masked
    # At its two ends, a character may hold bits of a neighbour, too.
    inside = len(secret.encode()) * 8 // 6 - 2
    assert len(masked.replace(HIDDEN, "")) <= len(encoded) - inside


@given(st.lists(SECRETS, min_size=2, max_size=4), st.integers(1, 5))
def test_values_that_overlap_are_hidden_whole(secrets: list[str], shared: int) -> None:
    first, second = secrets[0], secrets[1]
    overlapping = first[-shared:] + second
    masked = masks(first, overlapping).text(f"<{first}{overlapping[shared:]}>")
    assert first not in masked and second not in masked


def test_a_value_inside_of_another_leaves_no_rest() -> None:
    assert masks("abcdef", "defghi").text("abcdefghi") == HIDDEN
    assert masks("abcdef", "xabcdefy").text("xabcdefy abcdef") == f"{HIDDEN} {HIDDEN}"
    assert masks("aaaaaa").text("a" * 100_000) == HIDDEN


@pytest.mark.parametrize("value", ["", "a", "12345", " 12345"])
def test_a_short_value_is_left_where_it_stands_by_chance(value: str) -> None:
    assert masks(value).text("a12345") == "a12345"


@given(
    SECRETS,
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_a_json_value_keeps_its_shape_and_loses_the_secret(secret: str, other: object) -> None:
    value = {"a": [other, secret], secret: f"Bearer {secret}"}
    masked = masks(secret).json(value)
    assert secret not in json.dumps(masked, ensure_ascii=False)
    assert masked["a"][-1] == HIDDEN and len(masked) == 2


def test_numbers_that_are_a_secret_are_hidden_and_others_stay() -> None:
    assert masks("123456").json([123456, 1.5, True, 91234567]) == [HIDDEN, 1.5, True, HIDDEN]


def test_a_value_without_a_secret_is_the_same_object() -> None:
    value = {"a": [1, "text"]}
    assert masks("abcdef").json(value) is value
    assert Masks().json(value) is value


def test_the_lines_of_a_key_and_the_texts_of_a_json_secret_are_hidden_alone() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    account = '{"user": "shopkeeper", "password": "hunter2hunter2", "ports": [{"name": "primary-port"}]}'
    made = masks(key, account)
    assert made.text("line MIIEvQIBADANBgkq") == f"line {HIDDEN}"
    assert made.text("hunter2hunter2 primary-port") == f"{HIDDEN} {HIDDEN}"


def test_a_line_of_json_stays_json_whatever_the_secret_is() -> None:
    made = masks('","mes', "abcdef")
    line = json.dumps({"level": "info", "message": 'abcdef","message'})
    assert json.loads(made.line(line)) == {"level": "info", "message": f"{HIDDEN}{HIDDEN}sage"} or (
        json.loads(made.line(line))["message"].startswith(HIDDEN)
    )


def test_the_block_of_an_attempt_masks_by_its_own_values_alone() -> None:
    other = masks("of-the-other")
    masking.remember("of-the-process")
    with Masking(masks("of-this-one")):
        assert masking.of_process().text("of-this-one of-the-other") == f"{HIDDEN} of-the-other"
        with Masking(other):
            assert masking.current() is other
    assert masking.current() is None
    assert masking.of_process().text("of-the-process") == HIDDEN
