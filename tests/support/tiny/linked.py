"""Indexes of linked documents without Lucene and vectors, and the contrasts mined from them."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.reranker.contrasts import Contrast, number_contrasts
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.objective import Objective
from linkseek.retriever.mining.pairs import write_lines
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.index import built


def build_linked(index: Path, rows, words=20) -> OpenIndex:
    """An index of JSONL rows, in passages of so many words."""
    return built(index, rows, bm25=False, passage_words=words)


def topology_of(index: OpenIndex) -> Topology:
    """All links of an index, as the pages share them."""
    return Topology(index.links, np.asarray(index.passages.offsets))


def rows_of(objective: Objective[Any], source: Any) -> Any:
    """The candidates of an objective with one kind."""
    (rows,) = objective.candidates(source).values()
    return rows


def make_index(folder: Path, rows: list[dict[str, Any]], words: int = 100) -> OpenIndex:
    """The same as a new folder's "index"."""
    return build_linked(folder / "index", rows, words)


def sentences() -> list[dict[str, Any]]:
    """60 documents whose words repeat, with sentences of five words and links to neighbours."""
    rows, draw = linked_rows(60, seed=5), random.Random(5)
    for n, row in enumerate(rows):
        words = [word[:5] for word in row["text"].split(" ")]
        row["text"] = " ".join(word + "." * (place % 5 == 4) for place, word in enumerate(words))
        row["links"] = [
            {"start": start, "end": start + 4, "target": f"d{(n + draw.randint(-5, 5)) % 60}"}
            for start in range(0, max(len(row["text"]) - 10, 0), 20)
            if row["text"][start : start + 4].strip()
        ]
    return rows


def document(id_: str, marked: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    """A document from a text with links as [anchor|target] or [target]."""
    text, links, rest = "", [], marked
    while "[" in rest:
        before, _, rest = rest.partition("[")
        anchor, _, rest = rest.partition("]")
        anchor, _, target = anchor.partition("|")
        text += before
        links.append({"start": len(text), "end": len(text) + len(anchor), "target": target or anchor})
        text += anchor
    return {"id": id_, "title": id_ if title is None else title, "text": text + rest, "links": links, **more}


def page(id_, text, title=None, url=""):
    """A document from a text with links as in wikitext: [[target|anchor]] or [[target]]."""
    marked = re.sub(r"\[\[([^|\]]*)\|?(.*?)\]\]", lambda link: f"[{link[2] or link[1]}|{link[1]}]", text)
    return document(id_, marked, title, url=url)


def random_pages(count=16, seed=1):
    """Documents of a few passages whose links make many dual links and co-mentions, self-links too."""
    draw = random.Random(seed)
    pages = []
    for n in range(count):
        sentences = []
        for _ in range(draw.randint(0, 12)):
            words = [
                draw.choice(["river", "stone", "moon", "tea", "harp"]) for _ in range(draw.randint(3, 9))
            ]
            for place in range(0, len(words), 2):
                # a few documents are linked to far more often than the others
                target = draw.choice([draw.randrange(count), draw.randrange(5), n])
                words[place] = f"[[d{target}|{words[place]}]]"
            sentences.append(" ".join(words).capitalize() + ".")
        pages.append(page(f"d{n}", " ".join(sentences), f"Title {n}"))
    return pages


def mined(
    index: OpenIndex, objective: str, contrasts: int | None = None, seed: int = 1, **settings: Any
) -> list[Contrast]:
    """The contrasts of an index, by way of a file."""
    path = index.path.parent / "contrasts.jsonl"
    write_lines(path, Miner(index, CONTRASTS.mix(objective, settings), seed=seed).lines(contrasts))
    return [contrast for _, contrast in number_contrasts(path)]
