"""Whose requests the guard of a server lets through, over a table and over generated hosts."""

import pytest

from linkseek.app.page.context import AppOptions
from linkseek.app.rendering.hosts import RESPONSE_HEADERS, HostGuard, Hosts, host_name, read_host
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import parse_options
from tests.support.asynchronous import finished

MACHINE = "Workstation"
LOCAL = Hosts.of_server("localhost", MACHINE)
PROXIED = Hosts.of_server("localhost", MACHINE, ["Search.example.org", "10.0.0.7"])
EVERYWHERE = Hosts.of_server("0.0.0.0", MACHINE)
CONFIGURED = Hosts.of_server("192.168.1.5", MACHINE)
NAMED = Hosts.of_server("wiki.lan", MACHINE)


def ask(hosts, *headers, kind="http"):
    """What the guard sends, and whether the application behind it was called."""
    sent, called = [], []

    async def application(scope, receive, send):
        called.append(scope)
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Of", b"application")]})
            await send({"type": "http.response.body", "body": b"page"})
        else:
            await send({"type": f"{kind}.accept"})

    async def send(message):
        sent.append(message)

    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    finished(HostGuard(application, hosts)({"type": kind, "headers": pairs}, None, send))
    return sent, bool(called)


def status(hosts, *headers):
    """The status of the response over HTTP; WebSockets are let through and refused alike."""
    sent, called = ask(hosts, *headers)
    websocket, accepted = ask(hosts, *headers, kind="websocket")
    assert accepted is called and called is (sent[0]["status"] == 200)
    assert websocket[0]["type"] == ("websocket.accept" if called else "websocket.close")
    return sent[0]["status"]


ANSWERED = {
    LOCAL: [
        "localhost", "localhost:8501", "LocalHost:1", "localhost.", "localhost.:8501", "127.0.0.1",
        "127.255.0.9:80", "[::1]", "[::1]:8501", "[0:0:0:0:0:0:0:1]:8501", "[::ffff:127.0.0.1]",
        "127.0.0.1.:8501",
    ],
    PROXIED: ["search.example.org", "SEARCH.example.org.:443", "10.0.0.7:8080", "localhost:8501"],
    EVERYWHERE: [
        "localhost", "workstation:8501", "10.1.2.3:8501", "0.0.0.0:8501", "[fe80::1]:8501",
        "[::ffff:10.1.2.3]",
    ],
    CONFIGURED: ["192.168.1.5:8501", "[::ffff:192.168.1.5]:8501", "localhost"],
    NAMED: ["WIKI.lan:8501"],
}  # fmt: skip
REFUSED = {
    LOCAL: [
        "", ".", ":8501", "localhost..", ".localhost", "a.localhost", "localhost.evil.example",
        "localhost.localdomain", "127.0.0.1.evil.example", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1",
        "127.0.0.01", "128.0.0.1", "0.0.0.0", "192.168.1.5", "::1", "[127.0.0.1]", "[localhost]", "[::1%lo]",
        "[::1", "[::2]", "[::ffff:8.8.8.8]", "localhost:", "localhost:http", "localhost:65536",
        "localhost:-1", "localhost:8501:8501", "localhost:\xb2", "localhost@evil.example",
        "evil.example@localhost", "evil.example:80@localhost", "localhost, evil.example",
        "localhost evil.example", " localhost", "localhost\t", "localhost\n", "localhost\0", "localhost/",
        "localhost#evil.example", "localhost\\evil.example", "http://localhost", "loc\xe4lhost",
        "localho\u017ft".encode().decode("latin-1"), "evil.example", "evil.example:8501", "workstation",
        "search.example.org",
    ],
    PROXIED: ["a.search.example.org", "example.org", "10.0.0.8"],
    EVERYWHERE: ["workstation.lan", "evil.example", "10.1.2.3.evil.example", "10.1.2"],
    CONFIGURED: ["192.168.1.6", "workstation"],
    NAMED: ["workstation"],
}  # fmt: skip
TABLE = [
    (hosts, name, answered)
    for table, answered in ((ANSWERED, True), (REFUSED, False))
    for hosts, names in table.items()
    for name in names
]


@pytest.mark.parametrize(("hosts", "host", "answered"), TABLE)
def test_a_request_is_answered_for_the_hosts_of_the_server_alone(hosts, host, answered):
    assert status(hosts, ("host", host)) == (200 if answered else 421)
    assert status(hosts, ("Host", host), ("origin", f"http://{host}")) == (200 if answered else 421)


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::"])
def test_a_server_that_listens_everywhere(address):
    hosts = Hosts.of_server(address, MACHINE)
    assert hosts == EVERYWHERE and "8.8.8.8" in hosts and "evil.example" not in hosts
    assert Hosts.of_server("::1", MACHINE).names == {"localhost", "::1"}
    assert Hosts.of_server("", "not a name").names == {"localhost"}  # a machine may be called anything


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("host", "localhost"), ("host", "localhost")),
        (("host", "localhost"), ("Host", "evil.example")),
        (("host", "evil.example"), ("host", "localhost")),
        (("x-forwarded-host", "localhost"),),
        (("host", "evil.example"), ("x-forwarded-host", "localhost")),
    ],
)
def test_exactly_one_host_is_needed(headers):
    assert status(LOCAL, *headers) == 421


STRANGERS = [
    "http://localhost:3000",  # another application of this machine
    "http://127.0.0.1:8501", "http://evil.example", "http://evil.example:8501",
    "http://localhost.evil.example:8501", "http://localhost:8501@evil.example",
    "http://evil.example@localhost:8501", "http://localhost:8501/",
    "http://localhost:8501 http://evil.example", "localhost:8501", "ftp://localhost:8501", "file://",
    "chrome-extension://localhost:8501", "null", "", "*",
]  # fmt: skip


@pytest.mark.parametrize(
    ("hosts", "host", "origin", "answered"),
    [
        (LOCAL, "localhost:8501", "http://localhost:8501", True),
        (LOCAL, "localhost:8501", "https://localhost:8501", True),  # a proxy that does TLS
        (LOCAL, "LOCALHOST.:8501", "HTTP://localhost:8501", True),
        (LOCAL, "localhost", "http://localhost", True),
        (LOCAL, "localhost:80", "http://localhost", True),
        (LOCAL, "localhost", "https://localhost:443", True),
        (LOCAL, "[::1]:8501", "http://[::1]:8501", True),
        (LOCAL, "localhost:8501", "http://localhost", False),
        (LOCAL, "localhost", "https://localhost:80", False),
        *((LOCAL, "localhost:8501", origin, False) for origin in STRANGERS),
        (EVERYWHERE, "10.1.2.3:8501", "http://10.1.2.3:8501", True),
        (EVERYWHERE, "10.1.2.3:8501", "http://10.1.2.4:8501", False),
        (EVERYWHERE, "10.1.2.3:8501", "http://workstation:8501", False),
        (PROXIED, "search.example.org", "https://search.example.org", True),
        (PROXIED, "localhost:8501", "https://search.example.org", True),  # the proxy replaced the host
        (PROXIED, "localhost:8501", "https://search.example.org:8443", True),
        (PROXIED, "localhost:8501", "https://a.search.example.org", False),
        (PROXIED, "search.example.org", "https://evil.example", False),
    ],
)
def test_a_page_may_ask_its_own_host_alone(hosts, host, origin, answered):
    assert status(hosts, ("host", host), ("Origin", origin)) == (200 if answered else 403)


def test_two_origins_are_none():
    same = ("origin", "http://localhost")
    assert status(LOCAL, ("host", "localhost"), same, same) == 403


def test_a_refusal_says_what_to_do_and_repeats_nothing(caplog):
    caplog.set_level("WARNING", logger="linkseek")  # whatever a library has made of the root's
    sent, _ = ask(LOCAL, ("host", "<script>\r\n" + "x" * 10_000))
    body = sent[1]["body"].decode()
    assert "--allow-host NAME" in body and "script" not in body
    assert (b"content-type", b"text/plain; charset=utf-8") in sent[0]["headers"]
    (record,) = caplog.messages
    assert "421" in record and r"<script>\r\n" in record and "\n" not in record and len(record) < 300


def test_every_response_has_the_headers():
    ours = {(name.encode(), value.encode()) for name, value in RESPONSE_HEADERS.items()}
    for host in ("localhost", "evil.example"):
        sent, answered = ask(LOCAL, ("host", host))
        assert ours <= set(sent[0]["headers"])
        assert ((b"X-Of", b"application") in sent[0]["headers"]) is answered
    assert "frame-ancestors 'self'" in RESPONSE_HEADERS["content-security-policy"]


def test_headers_of_the_application_are_kept_and_its_policy_is_in_force_too():
    given = [(b"Referrer-Policy", b"no-referrer"), (b"content-security-policy", b"sandbox")]

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": given})

    sent = []

    async def send(message):
        sent.extend(message["headers"])

    finished(
        HostGuard(application, LOCAL)({"type": "http", "headers": [(b"host", b"localhost")]}, None, send)
    )
    names = [name.lower() for name, _ in sent]
    assert sent[:2] == given and names.count(b"referrer-policy") == 1
    assert names.count(b"content-security-policy") == 2


def test_starting_and_stopping_pass_the_guard():
    assert ask(LOCAL, kind="lifespan")[1]


@pytest.mark.parametrize(
    "name", ["search.example.org", "LAN", "10.0.0.7", "::1", "fe80::1", "a_b.example", "a."]
)
def test_names_that_can_be_allowed(name):
    assert parse_options(AppOptions, ["--allow-host", name], "app").allow_host == [name]
    allowed = Hosts.of_server("localhost", MACHINE, [name]).allowed
    assert allowed == {name.lower().removesuffix(".")}


@pytest.mark.parametrize(
    "name", ["", "*", "*.example.org", "http://a", "a:80", "a/b", "a b", "[::1]", "x@a", ".", "ä.example"]
)
def test_other_names_are_refused_at_the_start(name):
    assert host_name(name) == ""
    with pytest.raises(UsageError, match="--allow-host: expected a host name alone"):
        parse_options(AppOptions, ["--allow-host", "b.example", "--allow-host", name], "app")


def test_hosts_are_read_in_one_form():
    assert read_host("A.example.:80") == ("a.example", 80)
    assert read_host("[0::0001]") == ("::1", None)
