"""BROKER_URL: sentinels in both forms, and lists of what is no sentinel."""

from __future__ import annotations

import pytest

from pipeweave.errors import InvalidSetting
from pipeweave.settings import explain, load
from pipeweave.settings.database_hosts import Host
from pipeweave.settings.readers import masked_url, passwords_of
from pipeweave.settings.sentinels import sentinels_of


def read(text: str) -> str | None:
    return load({"BROKER_URL": text}).broker_url


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("sentinel://h1/0?master_name=m", "sentinel://h1:26379/0?master_name=m"),
        ("sentinel://h1,h2:1/3?master_name=m", "sentinel://h1:26379,h2:1/3?master_name=m"),
        (
            "sentinel://:pw@h1:1;sentinel://h2:2;sentinel://h3/4?master_name=m",
            "sentinel://:pw@h1:1,h2:2,h3:26379/4?master_name=m",
        ),
        (
            "sentinel://u:p%2Fw@h1/2;sentinel://u:p%2Fw@[::1]:7/2?master_name=m",
            "sentinel://u:p%2Fw@h1:26379,[::1]:7/2?master_name=m",
        ),
        (
            "sentinel://:a;b@h1?master_name=m&sentinel_password=x%26y",
            "sentinel://:a;b@h1:26379/0?master_name=m&sentinel_password=x%26y",
        ),
        (
            "sentinel://h1/0?ssl_ca_certs=/etc/ca.pem&master_name=m&ssl_check_hostname=false",
            "sentinel://h1:26379/0?master_name=m&ssl_cert_reqs=required&ssl_ca_certs=/etc/ca.pem"
            "&ssl_check_hostname=false",
        ),
    ],
)
def test_every_form_of_sentinels_becomes_one(given: str, stored: str) -> None:
    assert read(given) == stored
    assert read(stored) == stored
    assert sentinels_of(given) == sentinels_of(stored)


def test_what_a_url_says_of_sentinels_is_read() -> None:
    found = sentinels_of(
        "sentinel://u:p%40w@h1,h2:7/3?master_name=m&sentinel_username=s&sentinel_password=x%26y&ssl_cert_reqs=none"
    )
    assert found.hosts == (Host("h1", 26379), Host("h2", 7))
    assert (found.master_name, found.account, found.database) == ("m", "u:p%40w", 3)
    assert (found.own_username, found.own_password) == ("s", "x&y")
    assert found.tls == {"ssl_cert_reqs": "none"}
    assert found.urls == ["sentinel://u:p%40w@h1:26379/3", "sentinel://u:p%40w@h2:7/3"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("redis://:hunter2@a;redis://:hunter2@b", "must name one server; several, of which one takes over"),
        ("rediss://:hunter2@a;redis://b/0", "must name one server"),
        ("redis://:hunter2@a,b:6379/0", "must name one server"),
        ("redis://:hun;ter2@a/0", "written as %3B"),
        ("redis+cluster://:hunter2@a/0", "must not be a Redis Cluster"),
        ("rediscluster://a,b/0", "must not be a Redis Cluster"),
        ("valkey://a/0", "or sentinel://"),
        ("sentinel://:hunter2@h1,h2/0", "must name what the sentinels watch"),
        ("sentinel://h1/0?master_name=", "must name what the sentinels watch"),
        ("sentinel://h1/0?mastername=m", "did you mean master_name?"),
        ("sentinel://h1/0?master_name=m&hunter2=1", "there are master_name,"),
        ("sentinel://:hunter2@h1;redis://h2/0?master_name=m", "must not mix sentinel://"),
        ("redis://:hunter2@h1;sentinel://h2/0?master_name=m", "must not mix sentinel://"),
        ("sentinel://h1:x,h2/0?master_name=m", "as host:port"),
        ("sentinel://h1,h2:65536/0?master_name=m", "as host:port"),
        ("sentinel://h1,,h2/0?master_name=m", "must name the host of each sentinel"),
        ("sentinel:///0?master_name=m", "must name the host of each sentinel"),
        ("sentinel://:hun/ter2@h1/0?master_name=m", "written as %2F"),
        ("sentinel://:hunter2@h1;sentinel://:hunter3@h2/0?master_name=m", "same user and password"),
        ("sentinel://h1/1;sentinel://h2/2?master_name=m", "same database"),
        ("sentinel://h1/x?master_name=m", "number of a database"),
        ("sentinel://h1?master_name=m;sentinel://h2?master_name=n", "must give master_name once"),
        ("sentinel://h1/0?master_name=m&ssl_cert_reqs=yes", "required, optional, none"),
        ("sentinel://h1/0?master_name=m&ssl_check_hostname=1", "true or false"),
    ],
)
def test_a_mistake_is_refused_with_what_was_expected_and_without_the_secret(
    given: str, expected: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read(given)
    [error] = refused.value.errors
    assert error.field == "BROKER_URL"
    assert expected in error.message
    assert "hunter" not in error.message
    assert "\n" not in error.message


def test_passwords_of_sentinels_are_found_and_masked_in_both_forms() -> None:
    one = "sentinel://u:hun%40ter2@h1:1,h2:2/0?master_name=m&sentinel_password=hunter3"
    shown = "sentinel://u:***@h1:1,h2:2/0?master_name=m&sentinel_password=***"
    assert {row.name: row.value for row in explain({"BROKER_URL": one})}["BROKER_URL"] == shown
    assert set(passwords_of(one)) == {"hun%40ter2", "hun@ter2", "hunter3"}
    celerys = "sentinel://:hunter2@h1;sentinel://:hunter2@h2/0?sentinel_password=hunter3"
    assert "hunter" not in masked_url(celerys)
    assert set(passwords_of(celerys)) == {"hunter2", "hunter3"}
