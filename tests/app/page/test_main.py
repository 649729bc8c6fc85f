"""The shell and the search page, run without a browser."""

import re
import shutil

import pytest
from streamlit.util import calc_hash

from linkseek.app import service
from linkseek.app.context import known_questions
from linkseek.app.page import search_page as search
from linkseek.app.pipelines import catalogue
from linkseek.app.pipelines.catalogue import read_pipelines
from tests.support.pages import address, bodies, button, labels, notices, parts, run
from tests.support.reading import Reader
from tests.support.tiny.index import WordEncoder, build


@pytest.fixture
def page(open_page, built_index):
    """Open the search page with an index and an address."""

    def page(index=built_index, arguments=(), /, **address):
        return open_page("", index, *arguments, **address)

    return page


def ask(test, question):
    test.text_input(key="question").set_value(question)
    test.button[0].click()
    return run(test)


def chosen(test):
    """The pipelines that are chosen, in the order of their columns."""
    return test.session_state[search._CHOSEN]


def choose(test, *names):
    """Choose pipelines, each in the row of its group."""
    for pills in test.pills:
        if pills.key.startswith("pipelines: "):
            pills.set_value([name for name in names if name in groups_of(test)[pills.key]])
    return test


def groups_of(test):
    """The rows of pipelines by their keys."""
    rows = [pills for pills in test.pills if pills.key.startswith("pipelines: ")]
    return {pills.key: [plain(option.content) for option in pills.proto.options] for pills in rows}


def plain(label):
    return label.replace("\\", "").replace("\u2060", "")


def shown(test, beginning):
    """The parts of the page that begin with a tag, as a browser reads them."""
    return [Reader(part) for part in parts(test) if part.startswith(beginning)]


def columns(test):
    """Each pipeline's column."""
    return shown(test, '<section class="ls-answer"')


def said(test):
    """The notes above the results."""
    return " ".join(note.words for note in shown(test, '<details class="ls-line ls-named">'))


# --- asking ---------------------------------------------------------------------------------------


def test_an_empty_page_invites(page):
    test = page()
    assert "Ask a question in your own words" in bodies(test)
    [heading] = shown(test, '<header class="ls-page"')
    assert heading.all(".ls-index span")[:2] == ["tiny", "6 documents"]
    assert not columns(test) and not notices(test)
    assert address(test) == {}
    names = [*read_pipelines()]
    assert groups_of(test) == {
        "pipelines: BM25": ["bm25", "ql"],
        "pipelines: Zero-shot": ["dense"],
        "pipelines: Fused": ["hybrid", "hybrid-weighted"],
        "pipelines: Follows links": ["hops"],
        "pipelines: Re-ranked": ["best", *names[names.index("bm25-answers") :]],
    }
    assert len(test.pills) == 6 and "Paris" in test.pills[-1].options  # titles: it has no headings
    assert not test.selectbox


TWO = ["bm25", "hybrid-weighted"]


def test_a_question_in_two_columns(page):
    test = ask(page(pipelines=TWO), "Did a volcano erupt?")
    bm25, hybrid = columns(test)
    assert len(test.columns) == 2
    assert (bm25.all("h2"), hybrid.all("h2")) == (["bm25"], ["hybrid-weighted"])
    assert re.fullmatch(r"3 passages in [0-9.]+ ms", bm25.all(".ls-time")[0])
    assert {"volcano", "erupted"} <= {*bm25.marks} and "below a volcano, which erupted last" in bm25.words
    assert "https://a.example.org/?a=1&b=2" in bm25.hrefs
    assert bm25.all(".ls-other", "title")[0].startswith("Rank 1 in hybrid-weighted")
    assert bm25.all(".ls-stages dt") == ["search"]
    assert address(test) == {
        "q": ["Did a volcano erupt?"],
        "pipelines": ["bm25", "hybrid-weighted"],
        "k": ["10"],
        "index": ["tiny"],
    }


def test_one_list_of_all_pipelines_and_its_exports(page):
    test = ask(page(pipelines=TWO), "Did a volcano erupt?")
    test.toggle(key="merged").set_value(True)
    run(test)
    [merged] = shown(test, '<section class="ls-list"')
    rows = merged.all(".ls-merged h3")
    assert not columns(test) and len(rows) == len(set(rows)) == 6
    assert address(test)["merged"] == ["1"] and test.toggle(key="grouped").disabled
    assert "linkseek search --index" in test.code[0].value and "Did a volcano erupt?" in test.code[0].value


def test_a_pipeline_that_fails_leaves_the_list_of_the_others(page, monkeypatch):
    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", lambda location: 1 / 0)
    test = page(q="volcano", pipelines=["bm25", "dense", "ql"], merged="1", why="Naples#0")
    [merged] = shown(test, '<section class="ls-list"')
    assert merged.all(".ls-pipelines b bdi") == ["bm25", "ql"] and len(merged.all(".ls-why-score")) == 2
    assert not merged.all(".ls-waiting")
    assert labels(test).count("Try again") == 1


def test_weights_are_turned(page):
    asked = {"q": "a river in France", "pipelines": ["bm25", "hybrid-weighted"], "why": "Seine#0"}
    closed = bodies(page(**asked))
    assert closed.count("Change the weights") == 1 and 'class="ls-turn"' not in closed
    turned = bodies(page(**asked, turn="hybrid-weighted"))
    assert turned.count('<div class="ls-turn" data-row=') == 1 and turned.count('type="range"') == 2
    assert "Change the weights" not in turned


def test_other_pipelines_and_counts(page):
    test = ask(page(), "a river in France")
    run(choose(test, "bm25", "dense"))
    choose(test, "ql", "dense", "bm25").segmented_control(key="k").set_value(5)
    run(test)
    assert [column.all("h2") for column in columns(test)] == [["bm25"], ["dense"], ["ql"]]
    assert columns(test)[1].tags.count("li") == 5
    assert address(test)["pipelines"] == ["bm25", "dense", "ql"]
    assert address(test)["k"] == ["5"]


def test_at_most_four_pipelines(page):
    test = ask(page(pipelines=TWO), "river")
    run(choose(test, "bm25", "ql", "dense", "hybrid", "hybrid-weighted"))
    assert len(columns(test)) == 4
    assert chosen(test) == ["bm25", "hybrid-weighted", "ql", "dense"]
    assert "At most 4 pipelines fit side by side, so hybrid is not shown" in said(test)
    assert not said(run(choose(test, "bm25", "ql")))


def test_no_pipeline_is_chosen_and_none_comes_back(page):
    test = run(choose(ask(page(), "river")))
    assert "Choose a pipeline" in bodies(test) and address(test)["pipelines"] == [""]
    again = page(**address(test))
    assert "Choose a pipeline" in bodies(again) and not columns(again) and not said(again)


# --- the address ----------------------------------------------------------------------------------


def test_unknown_values_in_an_address(page):
    test = page(q="river", pipelines=["<script>", "dense", "../../x"], k="99999", other="x")
    assert chosen(test) == ["dense"]
    assert said(test) == "Not among the pipelines of this index: <script>, ../../x."
    assert test.segmented_control(key="k").value == 20
    assert address(test) == {"q": ["river"], "pipelines": ["dense"], "k": ["20"], "index": ["tiny"]}


def test_pipelines_that_are_dropped_from_an_address_are_named(page):
    test = page(q="river", pipelines=["hlp-finetuned", "bm25"])
    why = "hlp-finetuned: no vectors of the encoder hlp-finetuned."
    assert said(test) == f"Not among the pipelines of this index: hlp-finetuned. {why}"
    assert said(run(test)).endswith("hlp-finetuned.")  # it stays until others are chosen
    assert not said(run(choose(test, "ql")))
    test = page(q="river", pipelines=["bm25", "ql", "dense", "hybrid", "hybrid-weighted"])
    assert "so hybrid-weighted is not shown" in said(test)


def test_an_unknown_index_in_an_address_asks_for_another(page, own_index):
    build(own_index.with_name("another"), encoders=())
    test = page(own_index, q="river", index="../../etc")
    assert not columns(test) and address(test)["index"] == ["../../etc"]
    choices = Reader(next(part for part in parts(test) if "ls-choices" in part))
    assert 'Index "../../etc" was not found' in choices.text
    assert choices.hrefs == ["./?q=river&index=another", "./?q=river&index=own"]
    test.query_params = {"q": "river", "index": "another"}
    assert len(columns(run(test))) == 2 and test.selectbox(key="index").value == "another"


def test_a_question_too_long_for_an_address_is_answered(page):
    test = ask(page(), "river " * 500)
    assert len(columns(test)) == 4
    assert "q" not in address(test) and "more than 2,000 characters" in said(test)
    assert run(test).text_input(key="question").value == "river " * 500


# --- texts that would be markup -------------------------------------------------------------------


def test_hostile_texts_are_text(page):
    test = ask(page(), "volcano </section><i>$ :red[")
    texts = "".join(column.words for column in columns(test))
    assert "<script>alert(1)" in texts and '<img src=x onerror="alert(3)">' in texts
    assert "<mark>lava</mark>" in texts and "\u202e" not in texts
    tags = {tag for column in columns(test) for tag in column.tags}
    assert not tags & {"script", "img", "h1"}
    assert not [h for column in columns(test) for h in column.hrefs if h.startswith("javascript")]
    assert not [m.value for m in test.markdown]  # nothing of the page is read as Markdown


def test_hostile_names(page, tmp_path):
    path = tmp_path / "pipelines.toml"
    path.write_text('[":red[<b>x]"]\nsearcher = "bm25"\n', "utf-8")
    index = build(tmp_path / "<i>index", encoders=())
    test = page(index, ["--pipelines-file", str(path)], q="river", pipelines=[":red[<b>x]"])
    assert columns(test)[0].all("h2") == [":red[<b>x]"]
    assert "&lt;i&gt;index" in bodies(test)
    options = test.pills(key="pipelines: BM25").proto.options
    assert "\\:\u2060red\\[" in [option.content for option in options][-1]


# --- what can go wrong ----------------------------------------------------------------------------


def test_no_index(page, tmp_path):
    test = page(tmp_path / "none", q="river")
    assert "There is no index yet" in bodies(test)
    assert "linkseek build" in bodies(test)
    build(tmp_path / "none")
    test.button[0].click()
    assert len(columns(run(test))) == 4  # the question came back from the address


@pytest.mark.parametrize("file", ["manifest.json", "passages/offsets.npy", "documents/00000.arrow", "bm25"])
def test_a_damaged_index(page, own_index, file):
    path = own_index / file
    shutil.rmtree(path) if path.is_dir() else path.write_bytes(b"{")
    test = page(own_index, q="river")
    assert str(own_index) in notices(test)[0]
    assert "uild" in notices(test)[0]
    assert "Traceback" not in bodies(test)


def test_an_index_that_is_damaged_while_it_is_open(page, own_index):
    test = ask(page(own_index), "river")
    (own_index / "manifest.json").write_text("{")
    assert notices(run(test)) and not columns(test)


def test_an_index_without_anything_to_search_with(page, tmp_path):
    test = page(build(tmp_path / "index", bm25=False, encoders=()), q="river")
    assert "neither BM25 nor vectors" in notices(test)[0]


def test_a_fault_in_one_column_is_shown_there_and_is_tried_again(page, monkeypatch, caplog):
    """Any error: no traceback is shown, the other columns are compared, and a button opens it again."""
    attempts = []

    def open_encoder(location):
        attempts.append(location)
        if len(attempts) == 1:
            raise ZeroDivisionError("half-way")
        return WordEncoder()

    monkeypatch.setattr("linkseek.app.pipelines.open_models._open_encoder", open_encoder)
    monkeypatch.setattr(catalogue.Pipelines, "warm", lambda self, pipelines: None)
    test = ask(page(pipelines=["bm25", "dense", "ql"]), "river")
    bm25, dense, ql = columns(test)
    assert dense.all(".ls-notice p") == [
        "Dense: it failed",
        "This is an internal error; the terminal has the details.",
    ]
    assert len(bm25.all(".ls-other")) == len(bm25.all("h3")) == len(ql.all("h3")) > 0
    assert "half-way" not in bodies(test) and "half-way" in caplog.text
    button(test, "Try again").click()
    bm25, dense, ql = columns(run(test))
    assert dense.all("h3") and not dense.all(".ls-notice") and len(attempts) == 2
    assert "Try again" not in labels(test)
    assert len(bm25.all(".ls-other")) == 2 * len(bm25.all("h3"))


def test_a_fault_in_the_evidence_is_shown_in_its_place(page, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("half-way")

    monkeypatch.setattr(service.SearchService, "why", broken)
    test = page(q="volcano", pipelines=["bm25"], why="Naples#0")
    assert "The evidence could not be shown" in notices(test)[0] and "half-way" in caplog.text
    assert len(columns(test)) == 1 and "half-way" not in bodies(test)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--indx", "x"], "Unknown option --indx. Did you mean --index?"),
        (["--pipelines-file", "none.toml"], "none.toml"),
        (["--help"], "The terminal explains"),
    ],
)
def test_bad_options(page, built_index, arguments, message):
    assert message in notices(page(built_index, arguments))[0]


# --- several indexes, and new ones ----------------------------------------------------------------


def test_indexes_beside_each_other(page, own_index):
    build(own_index.with_name("another"), [("1", "River", "Another river.", "")], encoders=())
    test = page(own_index, q="river")
    assert test.selectbox(key="index").options == ["another", "own"]
    assert test.selectbox(key="index").value == "own"
    test.selectbox(key="index").set_value("another")
    run(test)
    assert "Another river" in columns(test)[0].words
    assert address(test)["index"] == ["another"]
    assert chosen(test) == ["bm25"]  # it has no vectors


def test_an_index_that_is_built_again_is_opened_again(page, own_index):
    test = ask(page(own_index), "river")
    build(own_index, [("1", "New", "A river that was not there before.", "")])
    assert "not there before" in columns(run(test))[0].words


# --- suggestions ----------------------------------------------------------------------------------


@pytest.fixture
def sample_page(page, monkeypatch):
    """The page, which takes the small index for the sample's."""
    monkeypatch.setattr(known_questions, "SAMPLE_CORPUS", "tiny.jsonl")
    return page


def test_a_suggestion_is_asked(sample_page):
    test = sample_page()
    suggestions = [option.content for option in test.pills(key="try").proto.options]
    assert len(suggestions) == 6
    question = "Which sickness killed the lady who foresaw software?"
    assert question in [text.replace("\\", "") for text in suggestions]
    test.pills(key="try").set_value(question)
    run(test)
    assert test.text_input(key="question").value == question
    assert len(columns(test)) == 4
    assert "none of" in columns(test)[1].words  # the sample's answers are known, and are not in this index
    assert not [pills for pills in test.pills if pills.key == "try"]  # results take their place


# --- groups, why ---------------------------------------------------------------------------


def test_grouped_by_article(page):
    test = ask(page(), "river")
    assert "Article" not in columns(test)[0].words
    test.toggle(key="grouped").set_value(True)
    run(test)
    assert "Article 1" in columns(test)[0].all(".ls-rank")
    assert address(test)["grouped"] == ["1"]


def test_why_is_in_the_address(page):
    test = page(q="volcano", pipelines=["bm25"], why="Naples#0")
    [column] = columns(test)
    assert [*column.all(".ls-why", "aria-expanded")].count("true") == 1
    [opened] = column.all(".ls-opened")  # the last item of the first part
    assert opened.startswith("bm25 rank 2, score ") and "volcano" in opened and "idf" in opened
    assert "No related links" in bodies(test)
    assert column.all(".ls-links summary")[0].endswith("bm25 ranked without them.")
    assert address(test)["why"] == ["Naples#0"]


def test_why_of_a_passage_that_is_not_there(page):
    test = page(q="volcano", pipelines=["bm25"], why="../../etc/passwd")
    assert "There is no passage ../../etc/passwd in this index" in notices(test)[0]
    assert len(columns(test)) == 1


def test_another_question_closes_the_evidence(page):
    test = ask(page(q="volcano", pipelines=["bm25"], why="Naples#0"), "river")
    assert "why" not in address(test)
    assert 'class="ls-opened' not in bodies(test)


def test_opening_the_evidence_does_not_search_again(page, monkeypatch):
    test = ask(page(), "volcano")
    monkeypatch.setattr(service.SearchService, "search", None)
    test.query_params = {**test.query_params, "why": "Naples#0"}
    run(test)
    assert len(columns(test)) == 4 and not notices(test)
    assert [len(column.all(".ls-opened")) for column in columns(test)] == [1] * 4
    assert sum(len(column.all(".ls-links")) for column in columns(test)) == 1


def test_why_of_a_passage_that_no_column_shows(page):
    test = page(q="volcano", pipelines=["bm25", "ql"], k="5", why="Lyon#0")
    [reason] = [Reader(part) for part in parts(test) if 'class="ls-reason' in part]
    assert "Lyon" in reason.all("h3") and len(reason.all(".ls-why-score")) == 2
    assert "bm25 not among the first 3" in reason.words and "ql not among" in reason.words
    assert reason.hrefs[1] == "./?pipelines=bm25&pipelines=ql&k=5&q=volcano&index=tiny"


# --- the shell ------------------------------------------------------------------------------------


def test_a_fault_of_ours_is_a_notice_and_its_details_go_to_the_log(page, monkeypatch, caplog):
    test = page()
    monkeypatch.setattr("linkseek.app.page.search_page.choose_view", None)  # is called
    run(test)
    assert "This page could not be shown" in notices(test)[0]
    assert "Traceback" not in bodies(test) and "NoneType" not in bodies(test)
    assert "NoneType" in caplog.text


def test_the_way_back_from_another_page(page):
    test = ask(page(), "river")
    asked = dict(test.query_params)
    test._page_hash = calc_hash("index")
    test.query_params = {"index": "tiny"}
    run(test)
    assert not columns(test)
    test._page_hash = calc_hash("")
    test.query_params = {"index": "tiny"}
    run(test)
    assert len(columns(test)) == 4
    assert address(test) == {name: [v] if isinstance(v, str) else v for name, v in asked.items()}
