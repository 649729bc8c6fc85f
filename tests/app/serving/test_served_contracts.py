"""Clients as their projects have them: what each sends, and what each reads of the answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from linkseek.app.answers import AnswerHit
from linkseek.app.service import SearchService
from linkseek.app.serving.searching import SearchKind, _with_extras
from tests.support.asynchronous import wait_until
from tests.support.served import PLANETS, Client, build_planets, running


def search_r1(client: Client, queries: list[str], topk: int | None = 3) -> list[list[tuple[str, str, float]]]:
    """Title, text and score of each passage, as Search-R1's generation loop takes them apart."""
    body = {"queries": queries, "topk": topk, "return_scores": True}
    results = client.post("/retrieve", body).json()["result"]
    parts = []
    for one in results:
        listed = []
        for item in one:
            content = item["document"]["contents"]
            title, text = content.split("\n")[0], "\n".join(content.split("\n")[1:])
            listed.append((title, text, item["score"]))
        parts.append(listed)
    return parts


def test_search_r1_reads_titles_texts_and_scores(service: Client) -> None:
    [first, second] = search_r1(service, ["Which planet is the hottest?", "whales and violins"])
    assert first[0][:2] == (
        '"Venus in two lines"',
        "Venus is the hottest planet, and has no moon. Earth is next.",
    )
    assert second[0][0] == '"Earth"' and len(second) <= 3
    assert [score for *_, score in first] == sorted((score for *_, score in first), reverse=True)


def test_a_passage_without_a_title_has_its_id_there(service: Client) -> None:
    assert search_r1(service, ["violin maple"])[0][0][0] == '"a/b ?#c"'


@pytest.mark.parametrize("body", [{}, {"topk": None}, {"topk": 3}])
def test_search_r1_has_three_by_default(service: Client, body: dict[str, int | None]) -> None:
    answer = service.post(
        "/retrieve", {"queries": ["the word names it"], **body, "return_scores": True}
    ).json()
    assert [len(one) for one in answer["result"]] == [3]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_search_r1_without_scores_has_documents(service: Client, count: int) -> None:
    for scores in (False, None):
        body = {"queries": ["blue planet"] * count, "topk": 1, "return_scores": scores}
        result = service.post("/retrieve", body).json()["result"]
        assert [[one["id"] for one in passages] for passages in result] == [["Earth#0"]] * count
        assert all({"id", "contents"} <= set(one) for passages in result for one in passages)


def test_the_order_is_that_of_the_questions_and_an_empty_one_has_no_results(service: Client) -> None:
    lists = search_r1(service, ["number7", "", "number123", " \u200b ", "zzzz"], 1)
    assert [[text for _, text, _ in one] for one in lists] == [
        ["The word number7 names it."],
        [],
        ["The word number123 names it."],
        [],
        [],
    ]


def test_search_r1_with_a_re_ranker(service: Client) -> None:
    body = {"queries": ["red planet"], "topk_retrieval": 10, "topk_rerank": 2, "return_scores": True}
    refused = service.post("/retrieve", body)
    assert refused.status_code == 422 and "does not re-rank" in refused.json()["detail"]


def test_a_service_that_re_ranks_takes_both_depths(planets, tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_is_here", lambda name: True)
    (tmp_path / "pipelines.toml").write_text('[again]\nrerank = "words"\nof = "bm25"\ndepth = 20\n')
    with running(index=[planets], pipelines_file=tmp_path / "pipelines.toml", pipeline="again") as client:
        body = {"queries": ["has a moon", "planet"], "topk_retrieval": 4, "topk_rerank": 2}
        scored = client.post("/retrieve", body | {"return_scores": True}).json()["result"]
        assert [len(one) for one in scored] == [2, 2]
        assert scored[0][0] == {"document": '"Venus in two lines"\n' + PLANETS["Venus"][1], "score": 1.0}
        plain = client.post("/retrieve", body | {"return_scores": False}).json()["result"]
        assert plain == [[hit["document"] for hit in one] for one in scored]
        one = client.post("/retrieve", body | {"topk_retrieval": 1}).json()["result"]
        assert [len(texts) for texts in one] == [2, 2]  # never fewer than are asked for


def test_many_clients_at_once_get_their_own_answers(service: Client) -> None:
    def ask(n: int) -> bool:
        numbers = [(n * 7 + more) % 300 for more in range(1 + n % 5)]
        lists = search_r1(Client(service.url), [f"number{number}" for number in numbers], 1)
        return [one[0][1] for one in lists] == [f"The word number{number} names it." for number in numbers]

    with ThreadPoolExecutor(32) as threads:
        assert all(threads.map(ask, range(300)))
    counts = service.get("/metrics").text
    assert 'linkseek_requests_total{route="/retrieve",status="200"}' in counts
    assert "# TYPE linkseek_batch_size histogram" in counts and "linkseek_waiting 0.0" in counts
    batches = float(counts.split("linkseek_batch_size_count")[1].split()[0])
    assert batches < float(counts.split("linkseek_batch_size_sum")[1].split()[0])  # some were gathered


def test_asearcher_reads_the_page_behind_a_link(service: Client) -> None:
    urls = [
        "https://planets.example/wiki/Mars",
        "Phobos",
        "https://elsewhere.example/w/index.php?title=Earth",
        "https://planets.example/wiki/a%2Fb%20%3F%23c",
        "https://planets.example/",
        "../../etc/passwd",
        "",
        "[",
        "\0",
    ]
    pages = service.post("/access", {"urls": urls}).json()["result"]
    assert [page and page["id"] for page in pages[:4]] == ["Mars", "Phobos", "Earth", "a/b ?#c"]
    assert pages[4:] == [None] * 5
    assert pages[0]["contents"].startswith("Mars is the red planet.")
    [found] = service.post("/retrieve", {"queries": ["red planet"], "topk": 1}).json()["result"]
    assert found[0]["url"] == "https://planets.example/wiki/Mars"  # what ASearcher asks for next


def test_the_other_agents(service: Client) -> None:
    text = "Earth is the blue planet, the home of whales and violins."
    zero = service.post("/zerosearch/retrieve", {"query": "blue whales", "top_k": 1}).json()
    assert zero == [{"text": f'"Earth"\n{text}'}]
    rllm = service.post("/rllm/retrieve", {"query": "blue whales", "top_k": 5, "k": 1}).json()
    assert (rllm["query"], rllm["num_results"], rllm["method"]) == ("blue whales", 1, "bm25")
    assert rllm["results"][0]["id"] == "Earth#0" and rllm["results"][0]["score"] > 0
    for prefix in ("rllm", "flashrag"):
        assert service.get(f"/{prefix}/health").json() == {"status": "healthy"}
    one = service.post("/flashrag/search", {"query": "blue whales", "top_n": 1}).json()
    assert one == [{"id": "Earth#0", "contents": f'"Earth"\n{text}'}]
    [documents], [score] = service.post(
        "/flashrag/search", {"query": "blue whales", "top_n": 1, "return_score": True}
    ).json()
    assert documents["id"] == "Earth#0" and score > 0
    many = service.post("/flashrag/batch_search", {"query": ["blue whales", "red"], "top_n": 1}).json()
    assert [[hit["id"] for hit in hits] for hits in many] == [["Earth#0"], ["Mars#0"]]
    lists, scores = service.post(
        "/flashrag/batch_search", {"query": ["blue whales", "red"], "top_n": 1, "return_score": True}
    ).json()
    assert [hits[0]["id"] for hits in lists] == ["Earth#0", "Mars#0"] and len(scores) == 2
    searcher = service.post("/r1-searcher/queries", {"queries": ["blue whales", "red"], "k": 1}).json()
    assert [len(texts) for texts in searcher["answers"]] == [1, 1] and text in searcher["answers"][0][0]
    scaling = service.post("/retrieval-scaling/search", {"query": "red", "n_docs": 1, "domains": "x"}).json()
    assert scaling["results"]["results"]["IDs"] == [["Mars#0"]] and scaling["n_docs"] == 1


def test_anserini(service: Client) -> None:
    answer = service.get("/v1/planets/search", params={"query": "blue whales", "hits": 1}).json()
    assert (answer["api"], answer["index"], answer["query"]) == ("v1", "planets", {"text": "blue whales"})
    [candidate] = answer["candidates"]
    assert (candidate["docid"], candidate["rank"], candidate["doc"]["title"]) == ("Earth#0", 1, "Earth")
    plain = service.get(
        "/v1/planets/search", params={"query": "blue", "hits": 1, "parse": "false", "max_doc_length": 5}
    )
    assert plain.json()["candidates"][0]["doc"] == "Earth"
    assert service.get("/v1/planets/doc/Earth%230").json()["doc"]["contents"].startswith("Earth is")
    assert service.get("/v1/planets/doc/Earth").json()["docid"] == "Earth"
    for path, status in (
        ("/v1/stars/search?query=x", 400),
        ("/v1/planets/doc/none", 404),
        ("/v1/planets/search", 400),
        ("/v1/planets/search?query=x&hits=0", 400),
        ("/v1/planets/search?query=x&k1=2", 400),
        ("/v1/planets/search?query=x&b=high", 400),
    ):
        refused = service.get(path)
        problem = refused.json()
        assert refused.status_code == problem["status"] == status and problem["error"] == problem["detail"]
    assert service.get("/v1/planets/search?query=red&k1=0.9&b=0.4").json()["candidates"]


def test_our_own_search(service: Client) -> None:
    body = {
        "questions": ["Does Mars have a moon?"],
        "k": 2,
        "pipeline": "bm25",
        "highlights": True,
        "evidence": True,
        "explain": True,
    }
    answer = service.post("/search", body).json()
    assert (answer["index"], answer["pipeline"]) == ("planets", "bm25")
    [one] = answer["answers"]
    assert one["partial"] == [] and "read passages" in one["milliseconds"]
    hit = one["hits"][0]
    assert {hit["text"][start:end].lower() for start, end in hit["highlights"]} >= {"mars", "moon"}
    for one_hit in one["hits"]:
        parts = one_hit["explanation"]["parts"]
        assert {part["name"] for part in parts} <= {"does", "Mars", "have", "moon", "moons", "doe", "mar"}
        assert sum(part["added"] for part in parts) == pytest.approx(one_hit["score"], rel=1e-5)
    duals = {
        hit["document_id"]: [dual["article"]["id"] for dual in hit["evidence"]["dual_links"]]
        for hit in one["hits"]
    }
    assert duals["Mars"] == ["Phobos"]
    for option in ("evidence", "explain"):
        body = {"questions": ["x"] * 60, "k": 2, option: True}
        assert service.post("/search", body).status_code == 422
    unknown = service.post("/search", {"questions": ["x"], "pipeline": "bm52"})
    assert unknown.status_code == 404 and "bm25" in unknown.json()["detail"]


@pytest.mark.parametrize("pipeline", ["bm25", "dense", "hybrid", "again"])
def test_a_batch_answers_as_each_question_alone(service: Client, pipeline: str) -> None:
    questions = ["red planet", "number9 names", "whales", "moon of Mars"]
    for k in (1, 5):
        ask = {"k": k, "pipeline": pipeline}
        together = service.post("/search", {"questions": questions, **ask}).json()["answers"]
        alone = [service.post("/search", {"questions": [q], **ask}).json()["answers"][0] for q in questions]
        assert [one["hits"] for one in together] == [one["hits"] for one in alone]
        assert all(one["hits"] for one in alone)


@pytest.mark.parametrize(
    ("field", "hint"), [("pipline", "pipeline"), ("filter", ""), ("top_k", ""), ("highlight", "highlights")]
)
def test_a_field_that_is_not_known_is_refused(service: Client, field: str, hint: str) -> None:
    answer = service.post("/search", {"questions": ["planet"], field: 1})
    assert answer.status_code == 422 and answer.json()["code"] == "unknown_field"
    assert f'there is no "{field}"' in answer.json()["detail"] and hint in answer.json()["detail"]


def test_further_pages_and_the_address_bar(service: Client) -> None:
    [whole] = service.post("/search", {"questions": ["planet"], "k": 9}).json()["answers"]
    assert whole["total"] == len(whole["hits"]) == 3
    pages = [service.get(f"/search?q=planet&k=1&offset={n}").json()["answers"][0] for n in range(4)]
    assert [hit for page in pages for hit in page["hits"]] == whole["hits"]
    assert [page["total"] for page in pages] == [None, None, None, 3]
    assert service.get("/search?q=planet&ofset=1").json()["code"] == "unknown_field"


@pytest.mark.parametrize("root", ["/search", "/wiki/search"])
def test_below_a_path_of_a_proxy(planets: Path, root: str) -> None:
    """Proxies that strip the path, and others that leave it; a header of a proxy goes first."""
    with running(index=[planets], pipeline="bm25", root_path=root) as service:
        for path in ("", root):
            assert service.get(f"{path}/health").status_code == 200
            assert service.post(f"{path}/search", {"questions": ["planet"]}).status_code == 200
            assert service.get(f"{path}/openapi.json").json()["servers"] == [{"url": root}]
            assert 'fetch("openapi.json"' in service.get(f"{path}/").text
        for given, url in (("/other/", "/other"), ("//evil.example", root), ("/../x", root), ("x", root)):
            described = service.get("/openapi.json", headers={"X-Forwarded-Prefix": given}).json()
            assert described["servers"] == [{"url": url}]


def test_passages_are_explained_by_the_version_that_answered(tmp_path: Path, monkeypatch) -> None:
    """Not by one that has replaced it since, and lacks the passage."""
    index = build_planets(tmp_path / "own", more=3)
    hit = SearchService.hit
    body = {"questions": ["number2"], "k": 1, "highlights": True, "evidence": True, "explain": True}
    with running(index=[index], pipeline="bm25") as client:
        before = client.post("/search", body).json()["answers"][0]["hits"]
        other = Client(client.url)

        def hit_and_replace(service: SearchService, *found: Any) -> AnswerHit:
            monkeypatch.setattr(SearchService, "hit", hit)
            build_planets(index)
            wait_until(lambda: not other.get("/documents/n2").ok)
            return hit(service, *found)

        monkeypatch.setattr(SearchService, "hit", hit_and_replace)
        answer = client.post("/search", body)
        assert answer.status_code == 200, answer.text
        assert before and answer.json()["answers"][0]["hits"] == before


def test_a_re_ranking_that_is_not_possible_names_a_pipeline_of_the_index(planets, tmp_path, monkeypatch):
    file = tmp_path / "pipelines.toml"
    file.write_text('[again]\nrerank = "words"\nof = "bm25"\n')
    for here, told in ((False, "that re-ranks."), (True, 'that re-ranks, such as "again".')):
        monkeypatch.setattr(
            "linkseek.app.pipelines.pipeline_kinds.scorer_is_here",
            lambda name, here=here: here and name == "words",
        )
        with running(index=[planets], pipelines_file=file, pipeline="bm25") as client:
            refused = client.post("/retrieve", {"queries": ["a"], "topk_rerank": 2})
            assert refused.status_code == 422 and refused.json()["detail"].endswith(told)


def test_words_are_marked_in_the_language_of_the_index() -> None:
    hit = AnswerHit(1, 1.0, "a#0", "a", "", "Die Städte sind alt.", "")
    service: Any = SimpleNamespace(index=SimpleNamespace(language="de"))
    extras = frozenset({"highlights"})
    shown = _with_extras(service, hit, "Wie alt ist die Stadt?", SearchKind("bm25", 1, extras=extras))
    assert shown.extras["highlights"] == [(4, 10), (16, 19)]  # and not "Die"


def test_passages_documents_and_links(service: Client) -> None:
    mars = service.get("/documents/Mars").json()
    assert [link["id"] for link in mars["links"]] == ["Phobos", "Earth"]
    assert [(link["id"], link["anchor"]) for link in mars["backlinks"]] == [("Phobos", "Mars")]
    assert mars["passages"] == ["Mars#0"] and not mars["is_cut"]
    passage = service.get("/passages/Mars%230").json()
    assert (passage["document_id"], passage["number"], passage["of"]) == ("Mars", 1, 1)
    assert [passage["text"][link["start"] : link["end"]] for link in passage["links"]] == ["Phobos", "Earth"]
    assert service.get("/documents/a%2Fb%20%3F%23c").json()["id"] == "a/b ?#c"
    assert next(iter(service.get("/pipelines").json()["indexes"]["planets"])) == "bm25"
    assert service.get("/filters").json()["filters"]["folder"] == ["planets.example", "planets.example/wiki"]
    missing = service.get("/documents/article 1").json()["detail"]
    assert missing.startswith('there is no document "article 1" in this index.')


def test_a_search_with_a_filter(service: Client) -> None:
    """The results of all passages, filtered; the answer counts the documents that were excluded."""
    body = {"questions": ["planet", "number7"], "k": 10, "pipeline": "bm25"}
    everything = service.post("/search", {**body, "k": 100}).json()["answers"]
    filtered = service.post("/search", {**body, "only": ["folder:planets.example/wiki"]}).json()["answers"]
    for all_, some in zip(everything, filtered, strict=True):
        kept = [hit for hit in all_["hits"] if hit["url"].startswith("https://planets.example/wiki/")]
        assert some["hits"] == [hit | {"rank": rank} for rank, hit in enumerate(kept, start=1)]
        assert some["excluded_documents"] == 301 and "excluded_documents" not in all_
    assert len(filtered[0]["hits"]) == 3 and not filtered[1]["hits"] and everything[1]["hits"]
    refused = service.post("/search", {**body, "only": ["folder"]})
    assert refused.status_code == 422 and "NAME:VALUE" in refused.json()["detail"]


@pytest.mark.parametrize(
    "id_", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "Mars%2300", "Mars%23-1", "%00", "%ff"]
)
def test_an_id_is_looked_up_and_never_a_path(service: Client, id_: str) -> None:
    for kind in ("passages", "documents", "v1/planets/doc"):
        refused = service.get(f"/{kind}/{id_}")
        assert refused.status_code == 404 and "there is no" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/retrieve", {"queries": ["red"], "topk": None, "return_scores": None, "topk_rerank": None}),
        ("/zerosearch/retrieve", {"query": "red", "top_k": None}),
        ("/rllm/retrieve", {"query": "red", "top_k": None, "k": None}),
        ("/flashrag/search", {"query": "red", "top_n": None, "return_score": None}),
        ("/r1-searcher/queries", {"queries": ["red"], "k": None}),
        ("/retrieval-scaling/search", {"query": "red", "n_docs": None}),
        ("/search", {"questions": ["red"], "k": None, "index": None, "explain": None}),
    ],
)
def test_null_is_a_field_that_is_absent(service: Client, path: str, body: dict[str, object]) -> None:
    volatile = {"id": None, "answers": None}  # an id of the request; milliseconds
    bare = {name: value for name, value in body.items() if value is not None}
    answers = [service.post(path, one) for one in (body, bare)]
    assert all(answer.ok for answer in answers), answers[0].text
    with_nulls, without = (answer.json() for answer in answers)
    if isinstance(with_nulls, dict):
        with_nulls, without = with_nulls | volatile, without | volatile
    assert with_nulls == without
    refused = service.post(path, dict.fromkeys(body))  # what is required stays so
    assert refused.status_code == 422
    assert ": missing" in refused.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": None}, 200),
        ({"Content-Type": None, "Origin": "http://evil.example"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip", "Content-Type": "application/json"}, 415),
    ],
)
def test_a_body_is_json_by_its_type_or_has_none(service, headers, status):
    body = b'{"queries": ["red planet"], "topk": 1}'
    answer = service.session.post(f"{service.url}/retrieve", data=body, headers=headers, timeout=30)
    assert answer.status_code == status
    assert status != 415 or answer.json()["code"] == "wrong_type"


def test_the_head_alone_and_long_answers_compressed(service: Client) -> None:
    for path in ("/health", "/ready", "/documents/Mars", "/search?q=planet", "/pipelines"):
        answer = service.session.head(service.url + path, timeout=30)
        assert answer.status_code == 200 and not answer.content
    for k, coding in ((1, None), (300, "gzip")):
        body = {"questions": ["the word names it"], "k": k, "pipeline": "bm25"}
        answer = service.post("/search", body, headers={"Accept-Encoding": "gzip"})
        assert answer.headers.get("content-encoding") == coding
        assert len(answer.json()["answers"][0]["hits"]) == k
        assert (
            "content-encoding"
            not in service.post("/search", body, headers={"Accept-Encoding": "identity"}).headers
        )


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl(service: Client) -> None:
    body = json.dumps({"queries": ["hottest planet"], "topk": 1, "return_scores": True})
    command = ["curl", "-s", f"{service.url}/retrieve", "-H", "Content-Type: application/json", "-d", body]
    done = subprocess.run(command, capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["result"][0][0]["document"]["id"] == "Venus#0"


def test_the_page_and_the_description(service: Client) -> None:
    page = service.get("/")
    assert "openapi.json" in page.text and "http://" not in page.text and "https://" not in page.text
    schema = service.get("/openapi.json").json()
    assert {"/retrieve", "/search", "/v1/{index}/search"} <= set(schema["paths"])
    for methods in schema["paths"].values():
        for route in methods.values():
            assert (
                route["description"]
                and "application/problem+json" in route["responses"]["default"]["content"]
            )
            assert route["operationId"].isidentifier()
    assert set(schema["components"]["securitySchemes"]) == {"bearer", "key"}
    assert schema["components"]["schemas"]["Search"]["properties"]["k"]["maximum"] == 1000
    assert threading.active_count() < 200
