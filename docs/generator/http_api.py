"""The HTTP API, from the OpenAPI document that the web UI serves."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from http import HTTPStatus
from typing import Any

from pyspider_zk.webui.api import create_api
from pyspider_zk.webui.api.backend import Backend

Node = Mapping[str, Any]
"""A part of the document."""


def document() -> Node:
    """Return the document; the API is asked for nothing else, so it needs no cluster."""
    nothing: Any = {field.name: {} for field in fields(Backend)}
    found: Node = create_api(Backend(**nothing)).test_client().get("/openapi.json").get_json()
    return found


def lines() -> Iterator[str]:
    """Yield a section in Markdown for each request, then one for each kind of object."""
    found = document()
    yield "## Requests\n"
    for path, methods in found["paths"].items():
        for method, request in methods.items():
            if method != "parameters":
                shared = methods.get("parameters", [])
                yield from _request(method, path, request, shared)
    yield "## Objects\n"
    for name, schema in sorted(found["components"]["schemas"].items()):
        yield from _object(name, schema)


def _request(method: str, path: str, request: Node, shared: list[Node]) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    yield f"{request['summary']} {request.get('description', '')}\n"
    given = [*shared, *request.get("parameters", [])]
    yield from _table({each["name"]: each | each["schema"] for each in given})
    if "requestBody" in request:
        yield f"Body: {_content(request['requestBody'])}.\n"
    yield f"Answer: {', '.join(_answers(request['responses']))}.\n"
    yield f"Errors: {', '.join(_errors(request['responses']))}.\n"


def _answers(responses: Node) -> Iterator[str]:
    for code, response in sorted(responses.items()):
        if int(code) < HTTPStatus.BAD_REQUEST:
            yield f"{code}, {_content(response)}"


def _errors(responses: Node) -> Iterator[str]:
    for code in sorted(responses):
        if int(code) >= HTTPStatus.BAD_REQUEST:
            yield f"{code} {HTTPStatus(int(code)).phrase.lower()}"


def _content(part: Node) -> str:
    (content,) = part["content"].values()
    return _type(content["schema"])


def _object(name: str, schema: Node) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{schema.get('description', '')}\n"
    yield from _table(schema.get("properties", {}))


def _table(entries: Mapping[str, Node]) -> Iterator[str]:
    if not entries:
        return
    yield "| name | type | meaning |"
    yield "|---|---|---|"
    for name, entry in entries.items():
        yield f"| `{name}` | {_type(entry)} | {_meaning(entry)} |"
    yield ""


def _meaning(entry: Node) -> str:
    said = [entry.get("description", "")]
    if "enum" in entry:
        said.append(" ".join(f"`{each}`" for each in entry["enum"]))
    if entry.get("default") is not None:
        said.append(f"default `{entry['default']}`")
    if "maximum" in entry:
        said.append(f"{entry.get('minimum', '')} to {entry['maximum']}".strip())
    return "; ".join(filter(None, said)).replace("|", "\\|")


def _type(schema: Node) -> str:
    """Return a type in words; an object of the document is a link to its section."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    either = schema.get("anyOf") or schema.get("allOf")
    if either:
        return " or ".join(map(_type, either))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)
