"""One function for each packing: from the originals to the rows of the files that it writes."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator

import orjson

from experiments.packing import multihop
from experiments.packing.held_out import archwiki_pages, held_out, libreoffice_pages, manuals
from experiments.packing.originals import Originals
from experiments.packing.rows import Files, Row, collection, document_row, question_row
from experiments.packing.two_steps import two_steps
from experiments.packing.wikispeedia import wikispeedia
from linkseek.retriever.answers import AnswerMatcher


def squad(originals: Originals) -> Files:
    """SQuAD 1.1: paragraphs by article in alphabetical order; judged is the paragraph of a question.

    Questions of the training set are numbered, as ARTICLE:PARAGRAPH:qNUMBER. Articles whose title is not
    ASCII are skipped: two of the training set, Beyoncé and Frédéric Chopin.
    """
    files: Files = {}
    documents: list[Row] = []
    for split in ("dev", "train"):
        questions: list[Row] = []
        judgements: list[str] = []
        articles = originals.json(f"{split}-v1.1.json")["data"]
        for article in sorted(articles, key=lambda article: str(article["title"])):
            title = article["title"]
            if not title.isascii():
                continue
            for number, paragraph in enumerate(article["paragraphs"]):
                id_ = f"{split}:{title}:{number}"
                documents.append(document_row(id_, title.replace("_", " "), paragraph["context"].strip()))
                for question in paragraph["qas"]:
                    query = question["id"] if split == "dev" else f"{id_}:q{len(questions)}"
                    answers = (answer["text"] for answer in question["answers"])
                    questions.append(question_row(query, question["question"].strip(), answers))
                    judgements.append(f"{query} 0 {id_} 1")
        files[f"squad/queries.{split}.jsonl.gz"] = questions
        files[f"squad/qrels.{split}.txt"] = judgements
    return {"squad/docs.jsonl.zst": documents, **files}


def nq_gold(originals: Originals) -> Files:
    """Natural Questions with the passages that people marked, from "Lost in the middle" (Liu et al. 2023)."""
    passages: dict[tuple[str, str], Row] = {}
    questions: list[Row] = []
    judgements: list[str] = []
    for number, row in enumerate(originals.json_lines("nq-open-oracle.jsonl.gz")):
        gold = next(context for context in row["ctxs"] if context["isgold"])
        key = gold["title"], gold["text"]
        document = passages.setdefault(key, document_row(f"nqg-{len(passages)}", *key))
        marked = row["nq_annotated_gold"]["title"]
        questions.append(
            question_row(f"nq-{number}", row["question"], row["answers"]) | {"gold_title": marked}
        )
        judgements.append(f"nq-{number} 0 {document['id']} 1")
    return collection("nq-gold", list(passages.values()), "test", questions, judgements)


def two_wiki(originals: Originals) -> Files:
    """The paragraphs of 2WikiMultihopQA that HippoRAG searches: distractors, without questions."""
    rows = originals.json("2wikimultihopqa_corpus.json")
    documents = [document_row(f"2w-{number}", row["title"], row["text"]) for number, row in enumerate(rows)]
    return {"2wiki-corpus/docs.jsonl.zst": documents}


def scifact(originals: Originals) -> Files:
    """SciFact from BEIR's archive."""
    files: Files = {}
    with zipfile.ZipFile(originals.path("scifact.zip")) as archive:

        def lines(name: str) -> list[bytes]:
            return archive.read(f"scifact/{name}").splitlines()

        documents = [orjson.loads(line) for line in lines("corpus.jsonl")]
        texts = {row["_id"]: row["text"] for row in map(orjson.loads, lines("queries.jsonl"))}
        for split in ("test", "train"):
            judged = [line.decode().split("\t") for line in lines(f"qrels/{split}.tsv")[1:]]
            queries = dict.fromkeys(query for query, _, _ in judged)
            files[f"scifact/queries.{split}.jsonl.gz"] = [
                question_row(query, texts[query]) for query in queries
            ]
            files[f"scifact/qrels.{split}.txt"] = [f"{query} 0 {id_} {grade}" for query, id_, grade in judged]
    rows = [document_row(row["_id"], row["title"], row["text"]) for row in documents]
    return {"scifact/docs.jsonl.zst": rows, **files}


def cranfield(originals: Originals) -> Files:
    """Cranfield: the title is removed from the start of the abstract; grade -1 is not relevant."""
    documents = []
    for record in _smart_records(originals.lines("cran.all.1400", "latin-1"), last="W"):
        title, text = record.get("T", ""), record.get("W", "")
        documents.append(document_row(record["I"], title, text.removeprefix(title).strip()))
    topics = _smart_records(originals.lines("cran.qry", "latin-1"), last="W")
    questions = [question_row(str(number), record["W"]) for number, record in enumerate(topics, start=1)]
    judged = [line.split() for line in originals.lines("cranqrel")]
    judgements = [f"{row[0]} 0 {row[1]} {int(int(row[2]) > 0)}" for row in judged]
    return collection("cranfield", documents, "test", questions, judgements)


def cacm(originals: Originals) -> Files:
    """CACM: the text is the abstract, or else the title."""
    documents = [
        document_row(
            f"CACM-{int(record['I']):04}", record.get("T", ""), record.get("W") or record.get("T", "")
        )
        for record in _smart_records(originals.lines("cacm.all", "latin-1"))
    ]
    topics = _smart_records(originals.lines("query.text", "latin-1"))
    questions = [question_row(record["I"], record["W"]) for record in topics]
    judged = [line.split() for line in originals.lines("qrels.text")]
    judgements = [f"{int(row[0])} 0 CACM-{int(row[1]):04} 1" for row in judged]
    return collection("cacm", documents, "test", questions, judgements)


def _smart_records(lines: Iterable[str], last: str = "") -> Iterator[dict[str, str]]:
    """Records in SMART's format: `.I NUMBER`, then fields under lines such as `.T`; white space is folded.

    last: the field that ends a record: later lines that look like a field belong to its text.
    """
    record: dict[str, list[str]] = {}
    field = ""
    for line in lines:
        if number := re.match(r"\.I (\d+)", line):
            if record:
                yield {name: " ".join(" ".join(texts).split()) for name, texts in record.items()}
            record, field = {"I": [str(int(number[1]))]}, ""
        elif (name := re.match(r"\.([A-Z])\s*$", line)) and (not last or field != last):
            field = name[1]
            record.setdefault(field, [])
        elif field:
            record[field].append(line)
    if record:
        yield {name: " ".join(" ".join(texts).split()) for name, texts in record.items()}


_SYSTEMS = {
    "ada2": "OPEN_AI_ADA2",
    "bm25": "BM25",
    "bm25_rm3": "BM25_RM3",
    "repllama": "REP_LLAMA",
    "splade": "SPLADE_P_P_ENSEMBLE_DISTIL",
    "tasb": "D_BERT_KD_TASB",
}


def msmarco_dl19(originals: Originals) -> Files:
    """The passages that six systems returned for TREC's deep learning tracks of 2019 and 2020.

    The best 100 of each, and RepLLaMA's best 200 of 2019. Questions, judgements and runs are from 2019.
    """
    pool: set[str] = set()
    files: Files = {}
    for name, folder in _SYSTEMS.items():
        for year in (2019, 2020):
            path = f"retrieve_results/{folder}/trec_results_dl{year % 100}_top100.txt"
            depth = 200 if (name, year) == ("repllama", 2019) else 100
            rows = [line.split() for line in originals.lines(path)]
            rows = [row for row in rows if int(row[3]) <= depth]
            pool.update(row[2] for row in rows)
            if year == 2019:
                run = [" ".join((*row[:5], name.upper())) for row in rows]
                files[f"msmarco-dl19/run.dl19.{name}.txt.gz"] = run
    judged = [line.split() for line in originals.lines("2019qrels-pass.txt")]
    with_judgements = {row[0] for row in judged}
    topics = [line.split("\t") for line in originals.lines("msmarco-test2019-queries.tsv.gz")]
    passages = (line.split("\t", 1) for line in originals.lines("collection.tsv"))
    documents = [document_row(id_, "", text) for id_, text in passages if id_ in pool]
    in_pool = [row for row in judged if row[2] in pool]
    return {
        "msmarco-dl19/docs.jsonl.zst": sorted(documents, key=lambda row: str(row["id"])),
        "msmarco-dl19/queries.dl19.jsonl.gz": [
            question_row(id_, text) for id_, text in topics if id_ in with_judgements
        ],
        "msmarco-dl19/qrels.dl19.full.txt": [f"{row[0]} 0 {row[2]} {row[3]}" for row in judged],
        "msmarco-dl19/qrels.dl19.pool.txt": [f"{row[0]} 0 {row[2]} {row[3]}" for row in in_pool],
        **files,
    }


def questions_on_wikispeedia(originals: Originals) -> Files:
    """Questions of SQuAD and NQ whose article is in Wikipedia for Schools and contains an answer.

    Titles are compared without regard to case.
    """
    articles = {row["id"].lower(): row for row in originals.json_lines("wikispeedia/docs.jsonl.zst")}
    files: Files = {}
    for split in ("dev", "train"):
        judged = (line.split() for line in originals.lines(f"squad/qrels.{split}.txt"))
        titles = {row[0]: row[2].split(":", 1)[1].rsplit(":", 1)[0] for row in judged}
        questions = originals.json_lines(f"squad/queries.{split}.jsonl.gz")
        pairs = ((question, titles[question["id"]]) for question in questions)
        files[f"qa/squad-{split}-on-wikispeedia.jsonl.gz"] = list(_answered(pairs, articles))
    gold = originals.json_lines("nq-gold/queries.test.jsonl.gz")
    pairs = ((question, question["gold_title"].replace(" ", "_")) for question in gold)
    files["qa/nq-gold-on-wikispeedia.jsonl.gz"] = list(_answered(pairs, articles))
    return files


def _answered(pairs: Iterable[tuple[Row, str]], articles: dict[str, Row]) -> Iterator[Row]:
    for question, title in pairs:
        article = articles.get(title.lower())
        if article is None:
            continue
        if AnswerMatcher(question["answers"]).matches(article["text"]):
            row = question_row(question["id"], question["text"], question["answers"])
            yield row | {"article": article["id"]}


MAKERS: dict[str, Callable[[Originals], Files]] = {
    "2wiki-corpus": two_wiki,
    "archwiki-held-out": lambda originals: held_out("archwiki-held-out", archwiki_pages(originals)),
    "archwiki-two-steps": lambda originals: two_steps("archwiki-two-steps", archwiki_pages(originals)),
    "cacm": cacm,
    "cranfield": cranfield,
    "2wiki": multihop.two_wiki,
    "hotpotqa-distractor": multihop.hotpotqa_distractor,
    "libreoffice-held-out": lambda originals: held_out("libreoffice-held-out", libreoffice_pages(originals)),
    "libreoffice-two-steps": lambda originals: two_steps(
        "libreoffice-two-steps", libreoffice_pages(originals)
    ),
    "manuals-two-steps": lambda originals: two_steps("manuals-two-steps", manuals(originals), 300),
    "msmarco-dl19": msmarco_dl19,
    "musique": multihop.musique,
    "nq-gold": nq_gold,
    "questions-on-wikispeedia": questions_on_wikispeedia,
    "scifact": scifact,
    "squad": squad,
    "wikispeedia": lambda originals: {"wikispeedia/docs.jsonl.zst": wikispeedia(originals)},
}
