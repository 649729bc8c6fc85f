"""What a service refuses: other hosts and origins, wrong tokens, too much, too deep, too slow, cut."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest

from linkseek.app.answers import Answer
from linkseek.app.serving import server as serving
from linkseek.app.serving.options import ServeOptions, Tokens, check_options
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.indexer.program.options import parse_service_options
from tests.support.asynchronous import wait_until
from tests.support.served import Client, running

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded(planets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service with tokens and a file as its log."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(f"{TOKEN}\nanother-token-of-ours\n")
    options = {"token_file": folder / "tokens", "log_file": folder / "log.jsonl", "time_limit": 2.0}
    with running(index=[planets], pipeline="bm25", allow_host=["search.example.org"], **options) as client:
        client.log = folder / "log.jsonl"  # type: ignore[attr-defined]
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"X-API-Key": TOKEN[:-1]},
        {"Authorization": "Bearer \xe9\xe9"},
    ],
)
def test_without_its_token_a_request_learns_nothing(guarded: Client, headers: dict[str, str]) -> None:
    assert guarded.get("/", headers=headers).ok  # the page, which asks for a token
    for path in ("/search", "/metrics", "/openapi.json", "/none"):
        refused = guarded.get(path, headers=headers)
        assert refused.status_code == 401 and "token" in str(refused.json()["detail"])
    assert guarded.get("/health").ok and guarded.get("/ready").ok


def test_pages_of_allowed_hosts_may_ask(guarded: Client) -> None:
    page = {"Origin": "https://Search.example.org:8443"}
    wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    allowed = guarded.session.options(f"{guarded.url}/retrieve", headers=page | wish, timeout=30)
    assert allowed.ok and allowed.headers["access-control-allow-headers"] == "authorization"
    refused = guarded.post("/retrieve", {"queries": ["red"]}, headers=page)
    assert refused.status_code == 401  # and the page may read that
    for answer in (allowed, refused):
        assert answer.headers["access-control-allow-origin"] == page["Origin"]
    for other in ({"Origin": "https://evil.example"}, page | {"Access-Control-Request-Method": "PUT"}):
        answer = guarded.session.options(f"{guarded.url}/retrieve", headers=page | wish | other, timeout=30)
        assert answer.status_code == 403 and answer.json()["code"] == "wrong_origin"


def test_tokens_have_names_and_are_read_again(planets: Path, tmp_path: Path, capfd) -> None:
    file = tmp_path / "tokens"

    def asked(token: str) -> int:
        return client.get("/pipelines", headers={"X-API-Key": token}).status_code

    file.write_text(TOKEN)
    with running(index=[planets], pipeline="bm25", token_file=file, log_file=tmp_path / "log") as client:
        assert asked(TOKEN) == 200
        file.write_text(f"\ufeff# old {TOKEN}\n#{TOKEN}\nci another-token-of-ours\n\na-third-token-of-ours\n")
        tokens = (TOKEN, "another-token-of-ours", "a-third-token-of-ours", "ci")
        assert [asked(token) for token in tokens] == [401, 200, 200, 401]
        for bad in ("short", "a b another-token-of-ours"):
            file.write_text(bad)
            assert [asked("another-token-of-ours"), asked("short")] == [200, 401]
        file.unlink()
        assert asked("another-token-of-ours") == 200
    # A line is written after its answer is sent: all are there once the service has ended.
    names = [orjson.loads(line).get("client") for line in (tmp_path / "log").read_bytes().splitlines()]
    assert capfd.readouterr().err.count("the tokens read before remain valid") == 3
    assert names.count("ci") == 4 and set(names) == {None, "ci"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"},
        {"X-API-Key": "another-token-of-ours"},
    ],
)
def test_with_a_token_it_is_answered(guarded: Client, headers: dict[str, str]) -> None:
    assert guarded.post("/retrieve", {"queries": ["red"]}, headers=headers).ok


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "169.254.1.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "search.example.org"}, 200),
        ({"Origin": "https://search.example.org"}, 200),
    ],
)
def test_other_hosts_and_origins_are_refused(guarded: Client, headers: dict[str, str], status: int) -> None:
    answer = guarded.post("/retrieve", {"queries": ["red"]}, headers={"X-API-Key": TOKEN, **headers})
    assert answer.status_code == status
    assert status == 200 or "--allow-host" in answer.json()["detail"]
    assert "frame-ancestors" in answer.headers["content-security-policy"]


def test_each_request_has_a_line_of_json_without_its_question(guarded: Client) -> None:
    log: Path = guarded.log  # type: ignore[attr-defined]
    headers = {"X-API-Key": TOKEN, "X-Request-ID": "my-id.1"}
    answer = guarded.post("/retrieve", {"queries": ["secret wishes"]}, headers=headers)
    assert answer.headers["x-request-id"] == "my-id.1"
    forged = guarded.get("/health", headers={"X-Request-ID": 'a" b\u00ff'.encode("latin-1")})
    assert len(forged.headers["x-request-id"]) == 32
    wait_until(lambda: forged.headers["x-request-id"] in log.read_text())
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    [mine] = [line for line in lines if line["id"] == "my-id.1"]
    assert (mine["route"], mine["status"]) == ("/retrieve", 200)
    assert (mine["pipeline"], mine["questions"]) == ("bm25", 1)
    assert mine["ms"] > 0 and mine["stages"]["read passages"] >= 0
    assert "secret" not in log.read_text() and TOKEN not in log.read_text()


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"queries": "one"}',
        b'{"queries": [1]}',
        b"\xff\xfe",
        b'{"queries": ["\\ud800"]}',
        b"[" * 100_000,
        b'{"queries": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b'{"queries": ["a"], "topk": 0}',
        b'{"queries": ["a"], "topk": 1001}',
        b'{"queries": ["a"], "topk": 1e400}',
        b'{"queries": ["a"], "topk": ' + b"9" * 5000 + b"}",
        b'{"queries": ["a"], "topk": NaN}',
        b'{"queries": [' + b'"a",' * 4096 + b'"a"]}',
        b'{"queries": [' + b"1," * 49_990 + b"1]}",
        b'{"queries": [' + b"1," * 499_000 + b"1]}",
        b'{"queries": [' + b"{}," * 24_990 + b"{}]}",
        b'{"queries": ["a"], "topk": [' + b"1," * 49_990 + b"1]}",
        b"[" + b"1," * 49_990 + b"1]",
        b'{"queries": [' + b'"a",' * 500 + b'"a"], "topk": 1000}',
    ],
    ids=lambda body: str(body[:40]),
)
def test_a_bad_body_gets_a_sentence(service: Client, body: bytes) -> None:
    began = time.process_time()
    answer = service.session.post(f"{service.url}/retrieve", data=body, headers=JSON, timeout=30)
    assert time.process_time() - began < 5
    if body == b'{"queries": ["\\ud800"]}' and answer.ok:
        return  # it may be read as a replacement
    assert answer.status_code in (400, 413, 422)
    sentence = answer.json()["detail"]
    assert 10 < len(sentence) < 300 and "Traceback" not in sentence


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({str(n): n for n in range(600)}, 413),
        ({"a\\" * n: '"' for n in range(600)}, 413),
        ({"a": {f'"{n}": ': [{"b": n}] for n in range(300)}}, 413),
        ({"a": ['"a": 1, '] * 600, "b": '\\":' * 600}, 200),
        ({str(n): n for n in range(400)} | {"text": "a," * 60_000}, 200),
    ],
)
def test_a_body_has_few_keys(service: Client, keys: dict[str, object], status: int) -> None:
    for body in (orjson.dumps({"queries": ["a"]} | keys), orjson.dumps(keys | {"queries": ["a"]}, option=2)):
        answer = service.session.post(f"{service.url}/retrieve", data=body, headers=JSON, timeout=30)
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("path", "field", "more"),
    [
        ("/search", "questions", {}),
        ("/search", "only", {"questions": ["a"]}),
        ("/access", "urls", {}),
        ("/flashrag/batch_search", "query", {}),
        ("/retrieval-scaling/search", "query", {}),
        ("/r1-searcher/queries", "queries", {}),
    ],
)
@pytest.mark.parametrize("value", [1, {}, [], "a"])
def test_a_list_is_read_to_its_first_mistake(service, path, field, more, value):
    refused = service.post(path, {field: [value] * 24_000} | more)
    assert refused.status_code in (400, 422) and refused.json()["detail"].count(";") <= 1


def test_no_question_of_a_batch_fails_the_others(service: Client) -> None:
    queries = ["red planet", None, "", "blue " * 100_000, *["moon"] * 2560]
    lists = service.post("/retrieve", {"queries": queries, "topk": 1}).json()["result"]
    assert [one[0]["id"] for one in lists if one][:2] == ["Mars#0", "Earth#0"] and len(lists) == 2564
    assert lists[1] == lists[2] == []
    scaled = service.post("/retrieval-scaling/search", {"query": queries[:4], "n_docs": 1}).json()
    assert [len(ids) for ids in scaled["results"]["results"]["IDs"]] == [1, 0, 0, 1]
    assert service.post("/access", {"urls": ["Mars", None, "x" * 100_000]}).json()["result"][1:] == [None] * 2


def test_programs_that_monitor_it_need_no_host(service: Client) -> None:
    for path in (b"/health", b"/ready"):
        assert b" 200 " in raw(service, b"GET " + path + b" HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]
    assert b" 421 " in raw(service, b"GET /pipelines HTTP/1.0\r\n\r\n").partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://localhost/search?q=planet", b"200"),
        (b"http://localhost", b"200"),
        (b"http://[::1/search?q=planet", b"421"),
        (b"http://evil.example/search?q=planet", b"421"),
    ],
)
def test_an_absolute_address_has_the_host(service: Client, target: bytes, status: bytes) -> None:
    answer = raw(service, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.split()[1] == status


def raw(client: Client, *parts: bytes, wait: float = 0.0) -> bytes:
    """What comes back for bytes that are sent in parts."""
    with socket.create_connection(client.address, timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(wait)
        answer = b""
        while more := connection.recv(65536):
            answer += more
            head, ends, body = answer.lower().partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if ends and length and len(body) >= int(length[1]) and b"connection: close" not in head:
                break
        return answer


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_large_body_is_refused_before_it_is_read(service: Client) -> None:
    began = time.process_time()
    assert b"413" in raw(service, HEAD + b"Content-Length: 104857600\r\n\r\n").partition(b"\r\n")[0]
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    assert (
        b"413"
        in raw(service, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17).partition(b"\r\n")[0]
    )
    assert time.process_time() - began < 5
    answer = service.session.post(
        f"{service.url}/retrieve", data=b"a" * 100_000_000, headers=JSON, timeout=30
    )
    assert answer.status_code == 413 and "1,048,576 bytes" in answer.json()["detail"]


def test_a_body_with_two_lengths_ends_the_connection(service: Client) -> None:
    both = HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    answer = raw(service, both + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1") == 1


def test_cut_bodies_and_closed_connections_disturb_nobody(service: Client) -> None:
    for _ in range(50):
        with socket.create_connection(service.address) as connection:
            connection.sendall(HEAD + b'Content-Length: 1000\r\n\r\n{"queries": ["cut')
    for _ in range(50):  # gone before its answer
        with socket.create_connection(service.address) as connection:
            connection.sendall(HEAD + b'Content-Length: 20\r\n\r\n{"queries": ["red"]}')
    assert (
        service.post("/retrieve", {"queries": ["red planet"], "topk": 1}).json()["result"][0][0]["id"]
        == "Mars#0"
    )


def test_a_slow_body_is_given_up(guarded: Client) -> None:
    began = time.monotonic()
    key = f"X-API-Key: {TOKEN}\r\n".encode()
    answer = raw(guarded, HEAD + key + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 3, wait=0.2)
    assert (
        b" 408 " in answer.partition(b"\r\n")[0] and b"2 seconds" in answer and b"connection: close" in answer
    )
    assert time.monotonic() - began < 10


def test_slow_headers_are_given_up(planets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_HEADER_SECONDS", 0.3)
    with running(index=[planets], pipeline="bm25") as client:
        assert raw(client, b"") == b""
        slow = raw(client, b"GET /health HTTP/1.1\r\n")
        assert slow.startswith(b"HTTP/1.1 408 ") and b"connection: close" in slow
        assert orjson.loads(slow.partition(b"\r\n\r\n")[2])["code"] == "slow_request"
        with socket.create_connection(client.address, timeout=10) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while b'"ok"' not in answer:
                answer += connection.recv(65536)
            connection.sendall(b"GET /he")  # the next request does not end
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("head", [b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
def test_what_is_no_http_is_a_problem_like_others(service: Client, head: bytes) -> None:
    first, _, body = raw(service, head).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in first
    assert orjson.loads(body)["code"] == "malformed"


def test_half_a_character_as_a_field_is_unknown(service: Client) -> None:
    answer = service.session.post(f"{service.url}/search", data=b'{"\\ud800": 1}', headers=JSON, timeout=30)
    assert answer.status_code == 422


def test_a_thousand_idle_connections_leave_room(service: Client) -> None:
    connections = []
    try:
        for _ in range(1000):
            connections.append(socket.create_connection(service.address))
        assert service.post("/retrieve", {"queries": ["red"]}).ok
    finally:
        for connection in connections:
            connection.close()


def test_a_full_queue_is_refused_at_once(planets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkseek.app.serving import searching

    search = searching._search_version

    def slowly(*arguments):  # type: ignore[no-untyped-def]
        time.sleep(0.5)
        return search(*arguments)

    monkeypatch.setattr(searching, "_search_version", slowly)
    with running(index=[planets], pipeline="bm25", queue=5) as client, ThreadPoolExecutor(40) as threads:

        def ask(n: int) -> tuple[int, float, str]:
            began = time.monotonic()
            answer = Client(client.url).post("/retrieve", {"queries": [f"number{n}"] * 2, "topk": 1})
            text = answer.json()["result"][0][0]["contents"] if answer.ok else answer.headers["retry-after"]
            return answer.status_code, time.monotonic() - began, text

        answers = list(threads.map(ask, range(40)))
        refused = [answer for answer in answers if answer[0] == 503]
        assert refused and all(text == "1" for *_, text in refused)
        assert min(seconds for _, seconds, _ in refused) < min(s for status, s, _ in answers if status == 200)
        served = [(n, text) for n, (status, _, text) in enumerate(answers) if status == 200]
        assert served and all(f"number{n} " in text for n, text in served)
        assert len(refused) + len(served) == 40
        assert f"linkseek_refused_total {len(refused)}" in client.get("/metrics").text


def test_a_request_that_takes_too_long_is_given_up(planets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkseek.app.serving import searching

    monkeypatch.setattr(searching, "_search_version", lambda *arguments: time.sleep(1.5) or [])
    with running(index=[planets], pipeline="bm25", time_limit=0.5) as client:
        answer = client.post("/retrieve", {"queries": ["red"]})
        assert answer.status_code == 504 and "0.5 seconds" in answer.json()["detail"]
        assert client.get("/health").ok


def test_work_ends_with_its_request(planets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linkseek.app.serving import searching

    sizes: list[int] = []

    def slowly(*arguments):  # type: ignore[no-untyped-def]
        size = len(arguments[-1])
        sizes.append(size)
        time.sleep(0.3)
        return [Answer("", "", (), 0.0)] * size

    monkeypatch.setattr(searching, "_search_version", slowly)
    body = orjson.dumps({"queries": ["red"] * 1000})
    with running(index=[planets], pipeline="bm25", time_limit=1.5) as client:
        for status in (499, 504):  # gone before its answer, and after its time
            sizes.clear()
            with socket.create_connection(client.address) as connection:
                connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                if status == 499:
                    wait_until(lambda: sizes)
                else:
                    connection.recv(1)
            counted = f'route="/retrieve",status="{status}"}} 1'
            wait_until(lambda counted=counted: counted in client.get("/metrics").text)
            time.sleep(0.4)  # the batch that was at work
            begun = len(sizes)
            time.sleep(0.7)
            assert 0 < begun == len(sizes) and sum(sizes) < 1000


def test_a_mistake_of_ours_is_a_sentence_and_others_in_the_batch_are_answered(planets, monkeypatch):
    from linkseek.app.serving import searching

    search = searching._search_version

    def failing(*arguments):  # type: ignore[no-untyped-def]
        if "poison" in arguments[-1]:
            raise ValueError("secret detail")
        time.sleep(0.1)
        return search(*arguments)

    monkeypatch.setattr(searching, "_search_version", failing)
    with running(index=[planets], pipeline="bm25") as client, ThreadPoolExecutor(20) as threads:
        texts = ["poison" if n % 5 == 0 else f"number{n}" for n in range(20)]
        asked = threads.map(
            lambda text: Client(client.url).post("/retrieve", {"queries": [text], "topk": 1}), texts
        )
        for text, answer in zip(texts, asked, strict=True):
            if text == "poison":
                assert answer.status_code == 500 and "secret" not in answer.text
            else:
                assert text in answer.json()["result"][0][0]["contents"]


def test_a_log_that_cannot_be_written_disturbs_nobody(planets: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is full")
    with running(index=[planets], pipeline="bm25", log_file=Path("/dev/full")) as client:
        assert client.post("/retrieve", {"queries": ["red"]}).ok
        assert "linkseek_log_lines_lost_total" in client.get("/metrics").text


# --- options ---------------------------------------------------------------------------------------


def test_elsewhere_it_needs_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.2", "::", "example.org"):
        with pytest.raises(UsageError, match="no token"):
            Tokens.of(ServeOptions(host=host))
        assert not Tokens.of(ServeOptions(host=host, without_token=True))
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert not Tokens.of(ServeOptions(host=host))
    for bad in (b"", b"short", b"good-enough-token\nshort", "tökentökentöken!".encode()):
        (tmp_path / "tokens").write_bytes(bad)
        with pytest.raises(InputError):
            Tokens.of(ServeOptions(host="0.0.0.0", token_file=tmp_path / "tokens"))
    with pytest.raises(InputError, match="no such file"):
        Tokens.of(ServeOptions(token_file=tmp_path / "none"))


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def parse(*argv: str) -> ServeOptions:
        return parse_service_options(ServeOptions, argv, "linkseek serve")

    monkeypatch.setenv("LINKSEEK_INDEX", "index/a 'index/b c'")
    monkeypatch.setenv("LINKSEEK_TIME_LIMIT", "7.5")
    monkeypatch.setenv("LINKSEEK_LOG_QUESTIONS", "true")
    monkeypatch.setenv("LINKSEEK_PORT", "")
    options = parse("--queue", "3")
    assert options.index == [Path("index/a"), Path("index/b c")]
    assert (options.time_limit, options.log_questions, options.port, options.queue) == (7.5, True, 8000, 3)
    (tmp_path / "serve.toml").write_text('time_limit = 3.0\nmax_k = 7\npipeline = "bm25"\n')
    both = parse("--config", str(tmp_path / "serve.toml"), "--index", "x")
    assert (both.time_limit, both.max_k, both.index, both.pipeline) == (7.5, 7, [Path("x")], "bm25")
    monkeypatch.setenv("LINKSEEK_QUEUE", "none")
    with pytest.raises(UsageError, match=r"queue(.|\n)*LINKSEEK_QUEUE"):
        parse()
    monkeypatch.setenv("LINKSEEK_QUEUE", "1")
    monkeypatch.setenv("LINKSEEK_ALLOW_HOST", "'open")
    with pytest.raises(UsageError, match="LINKSEEK_ALLOW_HOST"):
        parse()


@pytest.mark.parametrize("options", [{"partial": True}, {"replicas": 2}])
def test_options_that_do_not_go_together(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        check_options(ServeOptions(**options))


def test_an_answer_is_sent_at_once(service: Client) -> None:
    """Not after the client has acknowledged its headers, which takes 40 ms."""
    taken = []
    for _ in range(40):
        began = time.perf_counter()
        service.get("/health")
        taken.append(time.perf_counter() - began)
    assert sorted(taken)[10] < 0.03


def test_a_port_that_is_taken(service: Client) -> None:
    with pytest.raises(MachineError, match="in use"):
        serving.listen(ServeOptions(port=service.address[1]))
