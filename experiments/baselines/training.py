"""A baseline as `linkseek finetune` starts to train it."""

from __future__ import annotations

from experiments.baselines.folders import (
    baseline_facts,
    new_baseline,
    read_base_embeddings,
    read_embeddings,
    save_baseline,
)
from linkseek.indexer.files.hashes import file_sha256
from linkseek.reranker.models.bases import find_start, open_start
from linkseek.reranker.training.config import FinetuneConfig
from linkseek.reranker.training.trainable_cross_encoder import Trainable
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.training.lifecycle import existing


def trainable_baseline(config: FinetuneConfig) -> Trainable:
    """The model that the settings name, with the word embeddings of its base or of `model.embeddings`.

    Raises `InputError` if these cannot be found or read.
    """
    given = config.model.embeddings
    if given is not None:
        base_sha256 = file_sha256(existing([given])[0])
        tokenizer, vectors = read_embeddings(given)
    else:
        base_sha256 = model_sha256(find_start(config.model.base))
        tokenizer, vectors = read_base_embeddings(open_start(config.model.base, config.texts.tokens))
    facts = baseline_facts(tokenizer, config.texts.tokens, config.texts.title)
    model = new_baseline(config.model.kind, vectors, config.texts.tokens)
    text_format = TextFormat(config.texts.title)
    return Trainable(model, facts, text_format, base_sha256, lambda path: save_baseline(model, facts, path))
