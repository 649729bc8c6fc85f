"""A build for tests that kill it: small segments and shards, an encoder that takes its time.

    python driver.py CORPUS INDEX SECONDS_A_BATCH [lucene] [faiss=TYPE]

The bits of the encoder depend on the batch. `lucene` builds the Lucene index, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from linkseek.indexer.building import corpus, stages
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.search.faiss_index import AUTO
from tests.support.tiny.encoder import FakeEncoder


def main(source: str, index: str, seconds: str, *more: str) -> None:
    write_documents = corpus.write_documents
    stages.write_documents = lambda *a, **k: write_documents(*a, **k, segment_records=30)
    [factory] = [o.removeprefix("faiss=") for o in more if o.startswith("faiss=")] or [AUTO]
    bm25 = "lucene" in more
    plan = BuildPlan(
        Path(source), passage_words=20, bm25=bm25, encoders=["encoder"], processes=1, faiss=factory
    )
    encoder = FakeEncoder(shard_rows=25, batch_noise=0.01, seconds_a_batch=float(seconds))
    build_index(Path(index), plan, lambda name, title: encoder)


if __name__ == "__main__":
    main(*sys.argv[1:])
