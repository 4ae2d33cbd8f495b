"""The application compiles no functions for URLs, which nobody calls; who calls one gets its URL."""

from __future__ import annotations

import pytest
from werkzeug.routing import Map, Rule

from pipeweave.api import create_app
from pipeweave.api.http import PathRule
from pipeweave.settings import Settings

SETTINGS = Settings(
    database_url="postgresql://nobody:none@127.0.0.1:1/none",
    broker_url="redis://127.0.0.1:1/0",
    secret_key="5e" * 32,
)
PATHS = (
    "/api/runs",
    "/api/runs/<id>",
    "/api/storage/<path:id>/<self>",
    "/ä b/<int:n>",
    "/ui/<tenant>/runs/<id>/steps",
)
VALUES = {"id": "a b/ä?#&", "self": "x", "n": 7, "tenant": "%2f", "q": ["1", "ö"]}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("has_query", [True, False])
def test_a_rule_makes_the_urls_that_every_rule_makes(path: str, has_query: bool) -> None:
    def urls(kind: type[Rule]) -> list[str]:
        rule = kind(path, endpoint="it")
        urls = Map([rule]).bind("localhost")
        values = {each: VALUES[each] for each in rule.arguments} | ({"q": VALUES["q"]} if has_query else {})
        return [urls.build("it", values, append_unknown=has_query) for _ in range(2)]

    assert urls(PathRule) == urls(Rule)


def test_building_the_application_compiles_no_function_for_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_builder = Rule._compile_builder

    def counted(rule: Rule, append_unknown: bool = True) -> object:
        compiled.append(rule.rule)
        return compile_builder(rule, append_unknown)

    monkeypatch.setattr(Rule, "_compile_builder", counted)
    app = create_app(SETTINGS)
    of_paths = [each.rule for each in app.url_map.iter_rules() if type(each) is PathRule]
    assert len(of_paths) > 200
    assert set(compiled).isdisjoint(of_paths)
    urls = app.url_map.bind("localhost")
    assert [urls.build("runs.get_run", {"id": "prun_x"}) for _ in range(3)] == ["/api/runs/prun_x"] * 3
    assert len([each for each in compiled if each in of_paths]) == 1
