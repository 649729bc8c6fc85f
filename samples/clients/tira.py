"""A software for TIRA: python tira.py --input $inputDataset --output $outputDir

The input has documents.jsonl.gz (docno, text) and queries.jsonl (qid, query), as ir_datasets exports them;
TIRA reads run.txt in the output.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import linkseek


def main(arguments: list[str] | None = None) -> None:
    """Index the documents and write a run of the queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--pipeline", default="bm25")
    parser.add_argument("--encoder", nargs="*", default=[], help="models for pipelines that need vectors")
    parser.add_argument("-k", type=int, default=1000, help="documents of a query")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        documents = read_documents(options.input / "documents.jsonl.gz")
        index = linkseek.build(documents, Path(folder) / "index", options.encoder, passage_words=0)
        hits = index.search(options.input / "queries.jsonl", options.k, options.pipeline)
        hits.to_run(options.output / "run.txt")


def read_documents(path: Path) -> Iterator[dict[str, str]]:
    """The documents, as `linkseek.build` takes them."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            text = row.get("text") or row.get("default_text") or ""
            yield {"id": row["docno"], "title": row.get("title") or "", "text": text}


if __name__ == "__main__":
    main()
