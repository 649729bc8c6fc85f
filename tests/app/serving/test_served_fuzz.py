"""Every route of the description with parameters and bodies that nobody would send."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.support.fuzzing import examples
from tests.support.served import Client

ODD_TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\0",
        "../../etc/passwd",
        "/etc/passwd",
        "%00",
        "a" * 3000,
        "\u202e",
        "\ud83d",
        "null",
        "*:*",
        "[",
        '"',
    ]
)
TEXTS = st.one_of(
    st.text(max_size=20), ODD_TEXTS, st.sampled_from(["red planet", "Mars", "bm25", "planets", "words"])
)
NUMBERS = st.one_of(st.integers(-3, 30), st.sampled_from([10**30, -(10**30), 1 << 63, 1.5, 1e300, True]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@cache
def routes(url: str) -> list[tuple[str, str, list[str], tuple[str, ...]]]:
    """Method, path, names of parameters with their places, and the fields of the body."""
    schema = Client(url).get("/openapi.json").json()
    listed = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            names = [f"{one['in']}:{one['name']}" for one in route.get("parameters", [])]
            fields: tuple[str, ...] = ()
            if "requestBody" in route:
                reference = route["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                fields = tuple(schema["components"]["schemas"][reference.rpartition("/")[2]]["properties"])
            listed.append((method, path, names, fields))
    return listed


@cache
def schema(url: str, method: str, path: str) -> Draft202012Validator:
    """That of an answer, which has no other fields."""
    whole = Client(url).get("/openapi.json").json()
    answer = whole["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    for one in whole["components"]["schemas"].values():
        one.setdefault("additionalProperties", False)
    return Draft202012Validator({"components": whole["components"], "allOf": [answer]})


def value_of(field: str) -> st.SearchStrategy[Any]:
    """More often than not a value that the field takes."""
    if field in ("highlights", "evidence", "explain", "return_scores", "return_score"):
        return st.booleans()
    if field in ("query", "text", "input", "inputs", "questions", "queries", "documents", "texts", "urls"):
        return st.one_of(TEXTS, st.lists(TEXTS, max_size=5), st.lists(VALUES, max_size=3), VALUES)
    return st.one_of(NUMBERS, st.booleans(), TEXTS, VALUES)


@examples(300)
@given(data=st.data())
def test_any_request_gets_an_answer_or_a_sentence(service: Client, data: st.DataObject) -> None:
    method, path, names, fields = data.draw(st.sampled_from(routes(service.url)))
    operation = path
    parameters: dict[str, Any] = {}
    for name in names:
        place, _, name = name.partition(":")
        text = str(data.draw(st.one_of(TEXTS, NUMBERS)))
        if place == "path":
            path = path.replace(f"{{{name}:path}}", f"{{{name}}}").replace(
                f"{{{name}}}", quote(text.encode("utf-8", "surrogatepass"), safe="/") or "x"
            )
        elif data.draw(st.booleans()):
            parameters[name] = text.encode("utf-8", "surrogatepass")
    body = {field: data.draw(value_of(field)) for field in fields if data.draw(st.integers(0, 3))}
    more: dict[str, Any] = {"json": body} if fields else {}
    answer = service.session.request(method, service.url + path, params=parameters, timeout=30, **more)
    assert answer.status_code < 500, (method, path, parameters, body, answer.text)
    if answer.status_code == 200 and path != "/metrics":
        schema(service.url, method, operation).validate(answer.json())
    if answer.status_code >= 400:
        problem = answer.json()
        assert len(problem["detail"]) > 5 and problem["status"] == answer.status_code
        assert "Traceback" not in answer.text and "site-packages" not in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "GET"])
def test_another_method_is_refused(service: Client, method: str) -> None:
    answer = service.session.request(method, f"{service.url}/retrieve", timeout=30)
    assert answer.status_code == 405
