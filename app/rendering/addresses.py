"""The addresses of the pages: what each page shows, written to its query parameters and read from them.

A view is all of a page that can be shared by its address. An address is foreign text: unknown values are
ignored, numbers out of range are limited. Every link names its index, so that it leads to the same view
when another index has become the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlencode

MAX_PIPELINES = 4
COUNTS = (5, 10, 20)
DEFAULT_COUNT = 10

MAX_QUESTION_IN_ADDRESS = 2_000
"""The maximum in characters; servers refuse far longer addresses."""

Params = Mapping[str, Sequence[str]]

SEARCH, ARTICLE, EVALUATION, INDEX = "search", "article", "evaluation", "index"
COMPARE = "compare"
REPORT_PARTS = ("scores", "charts", "questions", "provenance", "changes")


def link_to(page: str, params: Params) -> str:
    """The address of a page, relative to any other page. The search page is the root."""
    path = "./" if page == SEARCH else page
    query = urlencode(params, doseq=True)
    return f"{path}?{query}" if query else path


def first(params: Params, name: str) -> str:
    """The first value of a parameter; empty where it is missing."""
    return [*params.get(name, ()), ""][0]


@dataclass(frozen=True)
class PageView:
    """What a page shows, as far as its address says it: each field is a parameter."""

    page: ClassVar[str]

    def to_params(self) -> dict[str, list[str]]:
        """The parameters of the address, without the index and without defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            each.name: _texts(values[each.name]) for each in fields(self) if values[each.name] != each.default
        }

    @classmethod
    def read(cls, params: Params) -> Self:
        """The view that an address asks for, with defaults for missing and invalid values."""
        return cls(**{field.name: _value(params.get(field.name, ()), field.default) for field in fields(cls)})

    def address(self, index: str) -> str:
        """A link to this view of an index."""
        return link_to(self.page, self.to_params() | {"index": [index]})


def _texts(value: Any) -> list[str]:
    if isinstance(value, tuple):
        return list(value)
    return [str(int(value) if isinstance(value, bool) else value)]


def _value(given: Sequence[str], default: Any) -> Any:
    """A parameter of the type of its default, which is also the least number."""
    text = [*given, ""][0]
    if isinstance(default, tuple):
        return tuple(given)
    if isinstance(default, bool):
        return text == "1"
    return max(_number(text, default), default) if isinstance(default, int) else text or default


@dataclass(frozen=True)
class SearchView(PageView):
    """A question, the pipelines that answer it side by side, and how their answers are shown.

    k: results of each. merged: in one list. grouped: by article. why: the id of the passage whose evidence is
    open. turn: the pipeline whose weights are turned there. only: conditions of a filter (`filters`). table:
    the parameters of the table of questions that led here, see `EvaluationView`.
    """

    page = SEARCH
    question: str = ""
    pipelines: tuple[str, ...] = ()
    k: int = DEFAULT_COUNT
    merged: bool = False
    grouped: bool = False
    why: str = ""
    turn: str = ""
    only: tuple[str, ...] = ()
    table: str = ""

    def to_params(self) -> dict[str, list[str]]:
        """The parameters of the address. A question that is too long for an address is omitted."""
        params = {"pipelines": list(self.pipelines) or [""], "k": [str(self.k)]}
        if 0 < len(self.question) <= MAX_QUESTION_IN_ADDRESS:
            params["q"] = [self.question]
        others = super().to_params()
        return params | {name: others[name] for name in others if name not in ("question", *params)}


def read_search_view(params: Params, available: Sequence[str], default: tuple[str, ...]) -> SearchView:
    """The view that an address asks for, with pipelines that the index can run, or the default ones."""
    pipelines = _known(params, "pipelines", available)[:MAX_PIPELINES]
    if not pipelines and params.get("pipelines") != [""]:  # which means that none is chosen
        pipelines = default
    k = _number(first(params, "k"), DEFAULT_COUNT)
    return replace(
        SearchView.read(params),
        question=" ".join(first(params, "q").splitlines()),
        pipelines=pipelines,
        k=min(COUNTS, key=lambda count: (abs(count - k), count)),
        only=tuple(dict.fromkeys(text for text in params.get("only", ()) if ":" in text)),
        table=first(params, "table")[:MAX_QUESTION_IN_ADDRESS],
    )


def why_address(view: SearchView, index: str, passage_id: str, turn: str = "") -> str:
    """A link to the same answers, with the evidence of one passage open. turn: as in `SearchView`."""
    return replace(view, why=passage_id, turn=turn).address(index)


@dataclass(frozen=True)
class ArticleView(PageView):
    """An article, or a search among titles.

    id: the document's. passage: the id of one to highlight. first: number of the first passage that is shown.
    """

    page = ARTICLE
    id: str = ""
    passage: str = ""
    find: str = ""
    first: int = 1


def article_address(document_id: str, index: str, passage_id: str = "") -> str:
    """A link to an article, in which one passage can be highlighted."""
    return ArticleView(id=document_id, passage=passage_id).address(index)


@dataclass(frozen=True)
class EvaluationView(PageView):
    """A report by its name; without one, the list of reports.

    part: which of `REPORT_PARTS` is shown. other: the report that this one is compared with. pair, measure,
    shown, words, sort, first: of the table of questions, see `app.evaluation.by_question`; kind: a name of
    `question_kinds`; sort begins with "-" where it is descending, first is the first row, from 1.
    """

    page = EVALUATION
    report: str = ""
    part: str = REPORT_PARTS[0]
    pair: tuple[str, str] = ("", "")
    measure: str = ""
    shown: str = ""
    sort: str = ""
    first: int = 1
    other: str = ""
    kind: str = ""
    words: str = ""

    def to_params(self) -> dict[str, list[str]]:
        """The parameters of the address, as far as the part shows them."""
        shown = ("report", "part", *_OF_PART.get(self.part, ()))
        params = super().to_params() if self.report else {}
        return {name: params[name] for name in params if name in shown}

    @classmethod
    def read(cls, params: Params) -> Self:
        """The view that an address asks for; the page checks whether there is such a report."""
        view = super().read(params)
        pair = view.pair if len(view.pair) == 2 else ("", "")
        return replace(view, pair=pair, part=view.part if view.part in REPORT_PARTS else REPORT_PARTS[0])


_OF_PART = {
    "questions": ("pair", "measure", "shown", "sort", "first", "kind", "words"),
    "changes": ("measure", "other"),
}


def table_of(view: EvaluationView) -> str:
    """A table of questions as `SearchView.table`."""
    return urlencode(replace(view, part="questions", first=1).to_params(), doseq=True)


def read_table(text: str) -> EvaluationView:
    """The table of questions that `table_of` has written."""
    return EvaluationView.read(parse_qs(text, max_num_fields=20) if text.count("&") < 20 else {})


@dataclass(frozen=True)
class CompareView(PageView):
    """A comparison by its name; without one, the list of comparisons.

    at: the number of the question to judge, from 1; 0: the first that is not judged yet.
    """

    page = COMPARE
    comparison: str = ""
    at: int = 0


def index_address(index: str) -> str:
    """A link to the description of an index."""
    return link_to(INDEX, {"index": [index]})


def _known(params: Params, name: str, known: Sequence[str]) -> tuple[str, ...]:
    return tuple(value for value in dict.fromkeys(params.get(name, ())) if value in known)


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default
