"""Write sdk/node/src/documents.d.ts, the types of requests and answers in the SDK for Node: `make client`.

They are those of the OpenAPI document that sdk/node/src/index.d.ts imports, and what these are made of.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeweave.api.http import openapi
from pipeweave.api.routes import ENDPOINTS
from support.pages import ROOT

TYPES = ROOT / "sdk/node/src/index.d.ts"
FILE = TYPES.with_name("documents.d.ts")
HEAD = "// The documents of the API, as its OpenAPI document has them. `make client` writes this file.\n"
_KINDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_REFERENCE = "#/components/schemas/"

Schema = Mapping[str, Any]


def text() -> str:
    """The whole file."""
    schemas = openapi.build(ENDPOINTS)["components"]["schemas"]
    names = _reachable(schemas, imported(TYPES.read_text()))
    return HEAD + "".join(f"\n{_declared(name, schemas[name])}" for name in sorted(names))


def imported(types: str) -> list[str]:
    """The documents that the hand-written types import."""
    clause = re.search(r"import type \{([^}]*)\} from './documents\.js'", types)
    assert clause, f"{TYPES} imports no documents"
    return [name.strip() for name in clause[1].split(",") if name.strip()]


def _reachable(schemas: Schema, roots: list[str]) -> set[str]:
    names: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += re.findall(rf'"{_REFERENCE}(\w+)"', json.dumps(schemas[name]))
    return names


def _declared(name: str, schema: Schema) -> str:
    if "properties" not in schema:
        return f"{_comment(schema, '')}export type {name} = {_type(schema)}\n"
    members = "".join(_members(schema))
    return f"{_comment(schema, '')}export interface {name} {{\n{members}}}\n"


def _members(schema: Schema) -> Iterator[str]:
    required = schema.get("required", ())
    for name, each in schema["properties"].items():
        shown = name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)
        yield f"{_comment(each, '  ')}  {shown}{'' if name in required else '?'}: {_type(each)}\n"


def _comment(schema: Schema, indent: str) -> str:
    described = " ".join(str(schema.get("description", "")).replace("*/", "* /").split())
    return f"{indent}/** {described} */\n" if described else ""


def _type(schema: Schema) -> str:
    """The type in TypeScript."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REFERENCE)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_type(each) for each in variants))
    match schema.get("type"):
        case "array":
            return f"Array<{_type(schema.get('items', {}))}>"
        case "object":
            values = schema.get("additionalProperties")
            return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
        case kind:
            return _KINDS.get(str(kind), "unknown")


if __name__ == "__main__":
    FILE.write_text(text())
