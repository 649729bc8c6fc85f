"""What of a page is in its address, so that it can be shared, and what may be read from it.

An address is anybody's text: what is not known is left out, what is out of range is brought back. A
link between pages is made here too, so that there is one place that knows the names of parameters. Each
link names the index it means: it leads to the same view when another index has become the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

MAX_PIPELINES = 4
COUNTS = (5, 10, 20)
DEFAULT_COUNT = 10

_PREFERRED = ("bm25", "hybrid")
_MAX_QUESTION_IN_ADDRESS = 2_000  # characters; servers refuse far longer addresses

Params = Mapping[str, Sequence[str]]

SEARCH, ARTICLE, EVALUATION, INDEX = "search", "article", "evaluation", "index"


def link_to(page: str, params: Params) -> str:
    """The address of a page, relative to any other page. The search page is the root."""
    place = "./" if page == SEARCH else page
    query = urlencode(params, doseq=True)
    return f"{place}?{query}" if query else place


def first(params: Params, name: str) -> str:
    """The first value of a parameter; empty where it is missing."""
    return [*params.get(name, ()), ""][0]


# --- search ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """A question, the pipelines that answer it side by side, and how their answers are shown.

    k: passages of each. grouped: by article. chart: of the ranks. why: the id of the passage whose
    evidence is open.
    """

    question: str = ""
    pipelines: tuple[str, ...] = ()
    k: int = DEFAULT_COUNT
    grouped: bool = False
    chart: bool = False
    why: str = ""

    def to_params(self) -> dict[str, list[str]]:
        """The address's parameters. A question that is too long for an address is left out."""
        params = {"pipelines": list(self.pipelines), "k": [str(self.k)]}
        if self.question and len(self.question) <= _MAX_QUESTION_IN_ADDRESS:
            params["q"] = [self.question]
        params |= {name: ["1"] for name in ("grouped", "chart") if getattr(self, name)}
        return params | ({"why": [self.why]} if self.why else {})


def read_view(params: Params, available: Sequence[str]) -> View:
    """The view that an address asks for, with the pipelines that the index can run."""
    asked = [name for name in dict.fromkeys(params.get("pipelines", ())) if name in available]
    return View(
        question=first(params, "q"),
        pipelines=tuple(asked[:MAX_PIPELINES]) or default_pipelines(available),
        k=_nearest_count(first(params, "k")),
        grouped=first(params, "grouped") == "1",
        chart=first(params, "chart") == "1",
        why=first(params, "why"),
    )


def default_pipelines(available: Sequence[str]) -> tuple[str, ...]:
    """What a visitor sees first: words alone beside words and vectors, or what there is."""
    preferred = tuple(name for name in _PREFERRED if name in available)
    return preferred if len(preferred) == len(_PREFERRED) else tuple(available[:2])


def search_address(view: View, index: str) -> str:
    """A link to a question's answers."""
    return link_to(SEARCH, view.to_params() | {"index": [index]})


def why_address(view: View, index: str, passage_id: str) -> str:
    """A link to the same answers, with the evidence of one passage open."""
    return search_address(replace(view, why=passage_id), index)


def _nearest_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return DEFAULT_COUNT
    return min(COUNTS, key=lambda count: (abs(count - int(text)), count))


# --- the other pages ------------------------------------------------------------------------------


def article_address(document_id: str, index: str) -> str:
    """A link to an article."""
    return link_to(ARTICLE, {"id": [document_id], "index": [index]})


READ, PAIRS = "text", "pairs"
MAX_OBJECTIVES = 4


@dataclass(frozen=True, slots=True)
class ArticleView:
    """An article, or what is looked for among titles.

    id: the document's. passage: the id of one to be pointed out. show: its text, or what is mined from it:
    the pairs of `objectives`, and the contrasts of those of cross-encoders. first: number of the first
    passage that is shown.
    """

    id: str = ""
    passage: str = ""
    find: str = ""
    show: str = READ
    first: int = 1
    objectives: tuple[str, ...] = ()
    contrasts: tuple[str, ...] = ()

    def to_params(self) -> dict[str, list[str]]:
        """The address's parameters."""
        texts = {"id": self.id, "passage": self.passage, "find": self.find}
        params = {name: [text] for name, text in texts.items() if text}
        if self.id and self.show == PAIRS:
            params |= {"show": [PAIRS]}
            chosen = {"objectives": list(self.objectives), "contrasts": list(self.contrasts)}
            params |= {name: names for name, names in chosen.items() if names}
        elif self.id and self.first > 1:
            params |= {"first": [str(self.first)]}
        return params


_USUAL = ("dual-link", "co-mention"), ("prop", "php-hp")


def read_article_view(
    params: Params, objectives: Sequence[str], contrasts: Sequence[str] = ()
) -> ArticleView:
    """The view that an address asks for; objectives, contrasts: the names of those that there are.

    Of what is mined, an address without a name of either asks for some of both.
    """
    known = {"objectives": objectives, "contrasts": contrasts}
    asked = [
        tuple(each for each in dict.fromkeys(params.get(name, ())) if each in known[name]) for name in known
    ]
    if not any(asked):
        asked = [
            tuple(each for each in usual if each in names)
            for usual, names in zip(_USUAL, known.values(), strict=True)
        ]
    pairs = asked[0][:MAX_OBJECTIVES]
    number = first(params, "first")
    return ArticleView(
        id=first(params, "id"),
        passage=first(params, "passage"),
        find=first(params, "find"),
        show=PAIRS if first(params, "show") == PAIRS else READ,
        first=int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 1,
        objectives=pairs,
        contrasts=asked[1][: MAX_OBJECTIVES - len(pairs)],
    )


def article_view_address(view: ArticleView, index: str) -> str:
    """A link to an article as it is to be shown."""
    return link_to(ARTICLE, view.to_params() | {"index": [index]})


def passage_address(document_id: str, passage_id: str, index: str) -> str:
    """A link to an article in which one passage is pointed out."""
    return article_view_address(ArticleView(id=document_id, passage=passage_id), index)


PARTS = ("scores", "charts", "questions", "provenance")


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """A report by its name; without one, all reports.

    part: which of `PARTS` is shown. pair: the pipelines whose differences are listed, of the questions.
    """

    report: str = ""
    part: str = PARTS[0]
    pair: tuple[str, str] | None = None

    def to_params(self) -> dict[str, list[str]]:
        """The address's parameters."""
        params = {"report": [self.report]} if self.report else {}
        if self.report and self.part != PARTS[0]:
            params["part"] = [self.part]
            if self.part == "questions" and self.pair:
                params["pair"] = list(self.pair)
        return params


def read_evaluation_view(params: Params) -> EvaluationView:
    """The view that an address asks for; whether there is such a report, the page says."""
    pair, part = [*params.get("pair", ())], first(params, "part")
    return EvaluationView(
        first(params, "report"),
        part if part in PARTS else PARTS[0],
        (pair[0], pair[1]) if len(pair) == 2 else None,
    )


def evaluation_address(view: EvaluationView, index: str) -> str:
    """A link to a report, or to the list of all."""
    return link_to(EVALUATION, view.to_params() | {"index": [index]})


def index_address(index: str) -> str:
    """A link to what is known of an index."""
    return link_to(INDEX, {"index": [index]})
