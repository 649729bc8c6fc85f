"""The bundled sample keeps the properties that other tests and the tutorial rely on."""

import bz2
import html
import importlib.util
import json
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import mwparserfromhell
import mwxml

SAMPLES = Path(__file__).parents[3] / "samples"
WIKI = SAMPLES / "wiki"
PACKED = SAMPLES / "linkseek-sample.xml.bz2"
NON_PROSE_TAGS = {"ref", "table", "pre"}
NON_ARTICLE = re.compile(r"\s*:?(file|image|category):", re.IGNORECASE)
DISCRIMINATIVE = 2


@cache
def articles() -> dict[str, str]:
    """Title (with spaces) and wikitext of every article."""
    return {
        path.stem.replace("_", " "): path.read_text(encoding="utf-8") for path in sorted(WIKI.glob("*.wiki"))
    }


@cache
def redirects() -> dict[str, str]:
    """Source and target of every redirect."""
    lines = (WIKI / "redirects.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    assert len({source for source, _ in pairs}) == len(pairs)
    return dict(pairs)


@cache
def questions() -> list[dict[str, Any]]:
    """The bundled questions."""
    lines = (SAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def body(wikitext: str) -> mwparserfromhell.wikicode.Wikicode:
    """The running text as parsed wikitext, without boxes, tables, notes, pictures and categories.

    Answers and links must be found in what a reader would call the text of the article.
    """
    code = mwparserfromhell.parse(wikitext)
    for template in code.filter_templates(recursive=False):
        code.remove(template)
    for tag in code.filter_tags(recursive=False):
        if str(tag.tag).lower() in NON_PROSE_TAGS:
            code.remove(tag)
    for link in code.filter_wikilinks(recursive=False):
        if NON_ARTICLE.match(str(link.title)):
            code.remove(link)
    return code


@cache
def prose(title: str) -> str:
    """The running text of an article with single spaces."""
    return " ".join(body(articles()[title]).strip_code().split())


def title_of(target: str) -> str:
    """The page title that a link target names, by the rules of MediaWiki."""
    title = html.unescape(unquote(target)).split("#")[0]
    title = " ".join(re.split(r"[ _\u00a0]+", title)).strip()
    return title[:1].upper() + title[1:]


def resolve(title: str) -> str:
    """Follow redirects to their end."""
    for _ in range(5):
        if title not in redirects():
            return title
        title = redirects()[title]
    raise AssertionError(f"redirect loop at {title}")


@cache
def links() -> dict[str, list[tuple[str, str]]]:
    """For every article its links in running text as (anchor text, named title)."""
    return {
        title: [
            (str(link.text or link.title), title_of(str(link.title)))
            for link in body(wikitext).filter_wikilinks()
        ]
        for title, wikitext in articles().items()
    }


@cache
def targets() -> dict[str, frozenset[str]]:
    """For every article the other articles that it links to."""
    return {
        title: frozenset(resolve(named) for _, named in found) & articles().keys() - {title}
        for title, found in links().items()
    }


def load_pack() -> ModuleType:
    """Import ``samples/pack.py``, which is a script and belongs to no package."""
    spec = importlib.util.spec_from_file_location("sample_pack", SAMPLES / "pack.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_questions_of_two_steps() -> None:
    """The first article links to the second, which has the answer and is not named."""
    rows = [json.loads(line) for line in (SAMPLES / "two-steps.jsonl").read_text("utf-8").splitlines()]
    judged = (SAMPLES / "two-steps.qrels.txt").read_text("utf-8").splitlines()
    assert len(rows) == len({row["id"] for row in rows}) == 20
    assert judged == [f"{row['id']} 0 {article} 1" for row in rows for article in row["path"]]
    for row in rows:
        first, second = (article.replace("_", " ") for article in row["path"])
        assert second in targets()[first], row
        [answer] = row["answers"]
        having = {title for title in articles() if answer.lower() in prose(title).lower()}
        assert second in having and len(having) <= 2 and first not in having, (row, having)
        assert not {*second.split()} & {*re.findall(r"\w+", row["text"])} - {"of", "von"}, row


def test_counts() -> None:
    assert len(articles()) == 150
    assert len(redirects()) == 82
    assert Counter(q["kind"] for q in questions()) == {"reworded": 67, "rare": 66, "plain": 67}


def test_articles_are_long_linked_and_categorised() -> None:
    other = {
        title
        for title, wikitext in articles().items()
        if not 250 <= len(prose(title).split()) <= 450
        or len(targets()[title]) < 8
        or not re.search(r"\[\[Category:[^\]]+\]\]\s*\Z", wikitext)
        or not title.isascii()
    }
    assert not other and not articles().keys() & redirects().keys()


def test_many_pairs_link_both_ways() -> None:
    found = targets()
    pairs = {frozenset((a, b)) for a, others in found.items() for b in others if a in found[b]}
    assert len(pairs) >= 600


def test_anchors_are_ambiguous() -> None:
    leads_to: defaultdict[str, set[str]] = defaultdict(set)
    for found in links().values():
        for anchor, named in found:
            leads_to[anchor.lower()].add(resolve(named))
    several = ("mercury", "java", "venus", "saturn", "turkey", "atlas", "crane", "mars", "orion", "phoenix")
    for anchor in several:
        assert len(leads_to[anchor]) == 2 + (anchor == "mercury")
        assert all(title.lower().startswith(anchor) for title in leads_to[anchor])
    assert leads_to["titan"] == {"Titan (moon)", "Titans"}


def test_redirects_lead_to_articles_and_are_used() -> None:
    assert all(resolve(source) in articles() for source in redirects())
    assert sum(target in redirects() for target in redirects().values()) == 1
    used = [named for found in links().values() for _, named in found if named in redirects()]
    assert len(used) >= 100


def test_some_links_are_red() -> None:
    named = {resolve(named) for found in links().values() for _, named in found}
    assert 1 <= len(named - articles().keys()) <= 20


def test_questions_are_well_formed() -> None:
    assert [q["id"] for q in questions()] == [f"sample-{n:03d}" for n in range(1, 201)]
    assert len({q["text"].lower() for q in questions()}) == 200
    assert len({q["article"] for q in questions()}) == 150
    for question in questions():
        assert set(question) == {"id", "text", "answers", "article", "kind"}
        assert question["text"].endswith("?")
        assert question["answers"]


def test_answers_are_in_the_gold_article_and_nearly_nowhere_else() -> None:
    texts = {title: prose(title).lower() for title in articles()}
    wrong = []
    for question in questions():
        for answer in map(str.lower, question["answers"]):
            holders = {title for title, text in texts.items() if answer in text}
            is_there = question["article"].replace("_", " ") in holders
            if not is_there or len(holders) > DISCRIMINATIVE or answer in question["text"].lower():
                wrong.append((question["id"], answer, holders))
    assert not wrong


def test_qrels_agree_with_the_questions() -> None:
    expected = [f"{q['id']} 0 {q['article']} 1" for q in questions()]
    assert (SAMPLES / "qrels.txt").read_text(encoding="utf-8").splitlines() == expected


def test_packed_file_is_a_fresh_pack_of_the_sources() -> None:
    assert load_pack().pack() == PACKED.read_bytes()


def test_packed_file_is_a_readable_export() -> None:
    with bz2.open(PACKED) as stream:
        dump = mwxml.Dump.from_file(stream)
        pages = [(page, [revision.text for revision in page]) for page in dump]
        assert dump.site_info.dbname == "linkseeksample"
        assert dump.site_info.case == "first-letter"
    assert [page.title for page, _ in pages] == sorted(page.title for page, _ in pages)
    assert len({page.id for page, _ in pages}) == len(pages)
    assert Counter(page.namespace for page, _ in pages) == {0: 232, 1: 1, 10: 1, 14: 1}
    found = {page.title: texts for page, texts in pages if page.namespace == 0}
    assert {title: [text.rstrip("\n")] for title, text in articles().items()} == {
        title: found[title] for title in articles()
    }
    assert {page.title: page.redirect for page, _ in pages if page.redirect} == redirects()
