"""What becomes of the refusals of Google's store, and what never leaves: the account's key."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
from support.gcs_server import an_account
from support.stub_http_server import Served

from pipeweave.errors import InvalidSetting, NotFound, PipeWeaveError, Unavailable
from pipeweave.storage import Backends, GcsStorage, gcs, open_backend


@pytest.fixture
def storage(served: Served, monkeypatch: pytest.MonkeyPatch) -> GcsStorage:
    """A backend whose store and whose tokens come from the stub."""
    monkeypatch.setattr(gcs, "RETRY_FOR_S", 0.3)
    monkeypatch.setattr(gcs, "_TOKENS_FROM", f"{served.url}/token")
    served.put("POST /token", (200, {"access_token": "a-token", "expires_in": 3600}))
    return opened(served.url, an_account())


def opened(url: str, credentials: dict[str, str]) -> GcsStorage:
    entry = {"id": "google", "provider": "gcs", "bucket": "values", "endpoint": url}
    storage = open_backend({**entry, "credentials": credentials})
    assert isinstance(storage, GcsStorage)
    return storage


def failing(storage: GcsStorage, kind: type[PipeWeaveError]) -> PipeWeaveError:
    """The error of looking for an object, which holds no secret."""
    with pytest.raises(kind) as caught:
        storage.delete("a")
    said = "".join(traceback.format_exception(caught.value)) + str(caught.value.to_problem()) + repr(storage)
    key = an_account()["privateKey"].splitlines()[3]
    assert not [secret for secret in (key, "a-token") if secret in said]
    return caught.value


def refuse(served: Served, status: int, document: Any = None) -> None:
    request = "DELETE /storage/v1/b/values/o/a?prettyPrint=false"
    served.put(request, (status, document or {"error": {"code": status, "message": "a-token"}}))


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refusal_names_the_bucket_and_the_setting(served: Served, storage: GcsStorage, status: int) -> None:
    refuse(served, status)
    error = failing(storage, InvalidSetting)
    assert "'values'" in error.detail and error.hint
    assert [each.field for each in error.errors] == ["STORAGE_BACKENDS"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_store_that_stays_in_trouble_is_unavailable(
    served: Served, storage: GcsStorage, status: int
) -> None:
    refuse(served, status)
    error = failing(storage, Unavailable)
    assert served.url in str(error.hint)


def test_an_account_that_google_refuses_is_a_wrong_setting(served: Served, storage: GcsStorage) -> None:
    served.put("POST /token", (400, {"error": "invalid_grant", "error_description": "a-token"}))
    assert "RefreshError" in failing(storage, InvalidSetting).detail


def test_a_key_that_is_none_is_a_wrong_setting(served: Served) -> None:
    storage = opened(served.url, {**an_account(), "privateKey": "hunter2"})
    with pytest.raises(InvalidSetting, match="private key is not valid") as caught:
        storage.get("a")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_key_may_have_its_lines_written_as_escapes(served: Served) -> None:
    account = an_account()
    storage = opened(served.url, {**account, "privateKey": account["privateKey"].replace("\n", "\\n")})
    assert storage.presign("a", method="GET", seconds=60)


def test_the_timeouts_are_bounded() -> None:
    assert (gcs.CONNECT_TIMEOUT_S, gcs.READ_TIMEOUT_S, gcs.RETRY_FOR_S) == (2, 10, 5)


def test_the_package_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    entry = {"id": "google", "provider": "gcs", "bucket": "values", "credentials": an_account()}
    with pytest.raises(InvalidSetting, match="google-cloud-storage") as caught:
        Backends((entry,))
    assert "pipeweave[gcs]" in str(caught.value.hint)


def test_a_missing_object_of_a_bucket_is_not_found(served: Served, storage: GcsStorage) -> None:
    served.put("GET /storage/v1/b/values/o?maxResults=1&projection=noAcl&prettyPrint=false", (200, {}))
    request = "GET /storage/v1/b/values/o/a?projection=noAcl&prettyPrint=false"
    served.put(request, (404, {"error": {"code": 404, "message": "No such object: values/a"}}))
    with pytest.raises(NotFound), storage.open("a"):
        pass
