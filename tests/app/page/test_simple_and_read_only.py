"""`linkseek app --simple` and `--read-only`."""

import pytest

from linkseek.app.background.jobs import Jobs, Order
from linkseek.app.page.context import AppOptions, Context
from linkseek.indexer.program.errors import UsageError
from tests.app.report.test_reports import write
from tests.support.pages import address, bodies, button, labels, notices, run
from tests.support.tiny.index import HOSTILE_TITLE


def test_one_box_and_one_list(open_page, own_index):
    test = open_page("search", own_index, "--simple")
    assert labels(test) == ["Search"] and not test.pills and not test.segmented_control
    assert "<nav" not in bodies(test)
    test.text_input(key="question").set_value("Did a volcano erupt?")
    button(test, "Search").click()
    run(test)
    assert address(test) == {"q": ["Did a volcano erupt?"], "index": ["own"]}
    assert bodies(test).count('aria-label="Results"') == 1
    assert 'href="https://a.example.org/?a=1&amp;b=2"' in bodies(test)  # a page's own address
    assert 'href="article?id=Hostile' in bodies(test)  # javascript: is none
    assert HOSTILE_TITLE not in bodies(test) and "<img" not in bodies(test)
    shared = open_page("search", own_index, "--simple", q="river", pipelines="ql", why="x")
    assert "<mark>river</mark>" in bodies(shared) and "ql" not in address(shared).get("pipelines", [])


def test_simple_has_no_other_pages(open_page, own_index, tmp_path):
    write(tmp_path / "results", "one")
    for name in ("evaluation", "index", "compare"):
        test = open_page(name, own_index, "--simple", report="one")
        assert labels(test) in ([], ["Search"]) and "All evaluations" not in bodies(test)
    assert "Paris is the capital" in bodies(open_page("article", own_index, "--simple", id="Paris"))


def test_simple_says_what_is_wrong(open_page, own_index, tmp_path):
    assert "10,001 characters" in "".join(notices(open_page("search", own_index, "--simple", q="x" * 10_001)))
    test = open_page("search", tmp_path / "index" / "none", "--simple")
    assert "There is no index yet" in bodies(test) and 'href="index' not in bodies(test)


def test_a_simple_search_that_fails_can_be_tried_again(open_page, own_index, monkeypatch):
    def broken(location):
        raise UsageError("the encoder is missing", "Get it.")

    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", broken)
    test = open_page("search", own_index, "--simple", q="river")
    assert "The encoder is missing" in notices(test)[0] and "Try again" in labels(test)


@pytest.fixture
def with_jobs(own_index, started):
    jobs = Jobs.next_to(own_index)
    for kind in ("build", "evaluate"):
        jobs.start(Order(kind, kind, f"A {kind}", "own", ["c"]))
    return jobs


def test_read_only_shows_and_offers_nothing(open_page, own_index, with_jobs, tmp_path):
    write(tmp_path / "results", "one")
    for name in ("evaluation", "index"):
        test = open_page(name, own_index, "--read-only")
        assert not labels(test) and not test.expander, name
        assert f"A {'build' if name == 'index' else 'evaluate'}" in bodies(test)
    report = open_page("evaluation", own_index, "--read-only", report="one")
    assert not labels(report) and "bm25" in bodies(report)
    test = open_page("index", tmp_path / "none" / "sample", "--read-only")
    assert not labels(test) and "There is no index yet" in bodies(test)


def test_read_only_refuses_all_the_same(own_index, with_jobs):
    context = Context(own_index, None, AppOptions(read_only=True))
    job = with_jobs.list()[0]
    for act in (
        lambda: context.to_change(own_index),
        lambda: context.jobs.start(Order("build", "k", "t", "s", ["c"])),
        lambda: context.jobs.cancel(job.id),
        lambda: context.jobs.remove(job.id),
        lambda: context.jobs.draft().__enter__(),
    ):
        with pytest.raises(UsageError, match="read-only"):
            act()
    assert [each.id for each in context.jobs.list()] == [each.id for each in with_jobs.list()]
    assert context.jobs.log(job.id) == ""
