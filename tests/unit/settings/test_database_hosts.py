"""Several hosts in the settings of the database, as the client library takes them."""

from __future__ import annotations

import pytest
from psycopg2.extensions import parse_dsn

from pipeweave.errors import InvalidSetting
from pipeweave.settings import explain, load
from pipeweave.settings.database_hosts import Host, hosts_of
from pipeweave.settings.readers import passwords_of

PRIMARY = "target_session_attrs=primary"


def read(text: str) -> str | None:
    return load({"DATABASE_URL": text}).database_url


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("postgresql://u:p@a:5432,b:5433/d", f"postgresql://u:p@a:5432,b:5433/d?{PRIMARY}"),
        ("postgres://u@a,b/d", f"postgresql://u@a:5432,b:5432/d?{PRIMARY}"),
        (
            "postgresql://u@a,b/d?target_session_attrs=read-write",
            "postgresql://u@a:5432,b:5432/d?target_session_attrs=read-write",
        ),
        (
            "postgresql://u@a,[::1]:6432/d?sslmode=require",
            f"postgresql://u@a:5432,[::1]:6432/d?sslmode=require&{PRIMARY}",
        ),
        ("postgresql+psycopg2://u@/d?host=a:1&host=b:2", f"postgresql://u@a:1,b:2/d?{PRIMARY}"),
        ("postgresql://u@/d?host=a,b&port=7", f"postgresql://u@a:7,b:7/d?{PRIMARY}"),
        (
            "postgresql://u@/d?host=/run/a,/run/b&port=7,8",
            f"postgresql://u@%2Frun%2Fa:7,%2Frun%2Fb:8/d?{PRIMARY}",
        ),
        ("postgresql://u@a/d?target_session_attrs=primary", f"postgresql://u@a/d?{PRIMARY}"),
        ("postgresql://u@/d?host=/run/a", "postgresql://u@/d?host=/run/a"),
    ],
)
def test_every_form_of_several_hosts_becomes_the_one_of_the_client_library(given: str, stored: str) -> None:
    assert read(given) == stored
    theirs = parse_dsn(stored)
    assert theirs["dbname"] == "d"
    hosts, ports = theirs["host"].split(","), theirs.get("port", "5432").split(",")
    assert [host for host, _ in zip(hosts, ports, strict=True)] == [each.name for each in hosts_of(stored)]
    assert [int(port or 5432) for port in ports] == [each.port for each in hosts_of(stored)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://u@a,b", "must name the database"),
        ("postgresql://u@a,b/", "must name the database"),
        ("postgresql://u@a,,b/d", "host:port,host:port/database"),
        ("postgresql://u@a:1,b:x/d", "host:port,host:port/database"),
        ("postgresql://u@a:0,b/d", "host:port,host:port/database"),
        ("postgresql://u@/d?host=a,b,c&port=1,2", "host:port,host:port/database"),
        ("postgresql://u:pass/word@a,b/d", "written as %2F"),
        ("postgresql://u@a,b/d?target_session_attrs=standby", "ask for primary"),
        ("postgresql://u@a/d?target_session_attrs=prefer-standby", "ask for primary"),
        ("mysql://u@a,b/d", "must be a URL that starts with postgresql://"),
    ],
)
def test_a_mistake_in_several_hosts_is_refused_with_what_was_expected(given: str, expected: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        read(given)
    [error] = refused.value.errors
    assert error.field == "DATABASE_URL"
    assert expected in error.message
    assert "word" not in error.message.replace("password", "")


def parts(host: str, **more: str) -> dict[str, str]:
    return {"DB_HOST": host, "DB_NAME": "d", "DB_USER": "u", **more}


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        (parts("a,b"), "a:5432,b:5432"),
        (parts("a, b", DB_PORT="6432"), "a:6432,b:6432"),
        (parts("a,::1", DB_PORT="1,2"), "a:1,[::1]:2"),
    ],
)
def test_parts_name_several_hosts_and_one_port_or_as_many(given: dict[str, str], hosts: str) -> None:
    url = f"postgresql://u@{hosts}/d?{PRIMARY}"
    assert load(given).database_url == url
    # Beside the URL that they mean, the parts say the same.
    assert load({**given, "DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (parts("a,b", DB_PORT="1,2,3"), "DB_PORT"),
        (parts("a,"), "DB_HOST"),
        (parts("a,b:1"), "DB_HOST"),
        ({**parts("a,c"), "DATABASE_URL": "postgresql://u@a,b/d"}, "DB_HOST"),
        ({**parts("a,b", DB_PORT="1,2"), "DATABASE_URL": "postgresql://u@a:1,b:3/d"}, "DB_PORT"),
    ],
)
def test_parts_that_contradict_each_other_or_the_url_are_refused_by_name(
    given: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load(given)
    assert [each.field for each in refused.value.errors] == [field]


def test_passwords_of_urls_with_several_hosts_are_found_and_masked() -> None:
    url = "postgresql://u:hun%40ter2@a:5432,[::1]:6432/d?sslpassword=hunter3"
    rows = {row.name: row.value or "" for row in explain({"DATABASE_URL": url})}
    assert rows["DATABASE_URL"] == f"postgresql://u:***@a:5432,[::1]:6432/d?sslpassword=***&{PRIMARY}"
    assert set(passwords_of(url)) == {"hun%40ter2", "hun@ter2", "hunter3"}


def test_hosts_of_a_url_have_the_usual_port_unless_it_names_one() -> None:
    assert hosts_of("postgresql://u@a,b:7/d") == (Host("a"), Host("b", 7))
    assert hosts_of("postgresql:///d") == (Host(""),)
