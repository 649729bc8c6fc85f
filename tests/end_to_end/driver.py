"""A build for tests that kill it: small segments and shards, an encoder that takes its time.

    python driver.py CORPUS INDEX SECONDS_A_BATCH [real] [lucene] [until=FILE] [faiss=TYPE]

`real` takes the default encoder, else it is a fake one whose bits depend on the batch, which waits for FILE.
`lucene` builds the Lucene index, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from linkseek.indexer.building import corpus, stages
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.search.faiss_index import AUTO
from tests.support.fake_encoder import FakeEncoder


def open_encoder(seconds: float, more: Sequence[str]) -> Encoder:
    if "real" not in more:
        files = [Path(option.removeprefix("until=")) for option in more if option.startswith("until=")]

        def wait() -> None:
            while not all(file.exists() for file in files):
                time.sleep(0.01)

        return FakeEncoder(shard_rows=25, batch_noise=0.01, seconds_a_batch=seconds, on_batch=wait)
    from linkseek.retriever.models.biencoder import open_biencoder

    encoder = open_biencoder("all-MiniLM-L6-v2")
    encoder.shard_rows = 32
    encode = encoder.encode_tokens

    def slowly(batch):
        time.sleep(seconds)
        return encode(batch)

    encoder.encode_tokens = slowly
    return encoder


def main(source: str, index: str, seconds: str, *more: str) -> None:
    write_documents = corpus.write_documents
    stages.write_documents = lambda *a, **k: write_documents(*a, **k, segment_records=30)
    [factory] = [o.removeprefix("faiss=") for o in more if o.startswith("faiss=")] or [AUTO]
    bm25 = "lucene" in more
    plan = BuildPlan(
        Path(source), passage_words=20, bm25=bm25, encoders=["encoder"], processes=1, faiss=factory
    )
    build_index(Path(index), plan, lambda name, title: open_encoder(float(seconds), more))


if __name__ == "__main__":
    main(*sys.argv[1:])
