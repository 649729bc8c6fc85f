"""Masked language modelling on the passages of an index: data and the run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers import (
    AutoTokenizer,
    BertConfig,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.modeling_outputs import MaskedLMOutput

from indexer.base.errors import UsageError
from indexer.base.settings import settings_text
from indexer.index import Index
from indexer.passages import PassageStore
from indexer.store.artifacts import value_sha256
from retriever.models.biencoder import TextFormat
from retriever.models.library import quiet
from retriever.models.locations import find_model
from retriever.training.data import Batches
from retriever.training.log import Log
from retriever.training.masked_config import BertSettings, MlmConfig
from retriever.training.run import SETTINGS, is_finished, quiet_libraries
from retriever.training.trainer import Resumable, library_arguments

_HEAD = 64


class PassageTexts:
    """The texts of passages by row, with their ids."""

    def __init__(self, passages: PassageStore, title: bool) -> None:
        self._passages, self._format = passages, TextFormat(title)

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, row: int) -> dict[str, Any]:
        passage = self._passages[row]
        return {"row": row, "place": passage.id, "text": self._format.passage(passage.title, passage.text)}


class Masker:
    """Texts to a batch: input_ids and labels, int64 [B, L]; labels are -100 where nothing is predicted.

    What is masked depends on seed, epoch and the batch's first row, so a run that goes on from a
    checkpoint masks the same tokens.
    """

    def __init__(self, tokenizer: Any, max_tokens: int, seed: int) -> None:
        self._tokenizer, self._max_tokens, self._seed = tokenizer, max_tokens, seed
        self._mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
        self.epoch = 0

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One batch."""
        texts = [row["text"] for row in rows]
        encoded = self._tokenizer(
            texts, truncation=True, max_length=self._max_tokens, return_special_tokens_mask=True
        )
        examples = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
        drawn = np.random.default_rng((self._seed, self.epoch, rows[0]["row"])).integers(1 << 62)
        self._mask.generator = torch.Generator().manual_seed(int(drawn))
        return dict(self._mask(examples)) | {"places": [row["place"] for row in rows]}


def masked_cost(head: nn.Module, hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """What the m tokens whose label is not -100 cost together, and their logits [m, vocabulary].

    hidden: [B, L, d], of which the head reads these tokens alone. labels: int64 [B, L].
    """
    chosen = labels != -100
    logits = head(hidden[chosen])  # [m, vocabulary]
    # The sum over none is 0 with a gradient, the mean none.
    return nn.functional.cross_entropy(logits.float(), labels[chosen], reduction="sum"), logits


class BertForMaskedLM(transformers.BertForMaskedLM):  # type: ignore[misc]
    """The library's, whose head reads the masked tokens alone.

    The head multiplies each token with the whole vocabulary: for a small BERT that is most of the work.
    """

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> MaskedLMOutput:
        """int64 [B, L] each -> the mean loss of the m tokens whose label is not -100, and their logits."""
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state  # [B, L, d]
        cost, logits = masked_cost(self.cls, hidden, labels)
        return MaskedLMOutput(loss=cost / (labels != -100).sum().clamp(min=1), logits=logits)


class MlmTrainer(Resumable, Trainer):  # type: ignore[misc]
    """Trains a BERT with its head."""

    mini_batch_setting = "training.batch"


def train_masked(config: MlmConfig) -> None:
    """Train, or go on training, and put the model into `output.folder`; it is there whole or not.

    Does nothing if it is there, from the same settings. Raises `UsageError` if it is there from others,
    and for sizes that do not fit.
    """
    folder = config.output.folder
    if is_finished(folder, config):
        return
    if config.model.width > _HEAD and config.model.width % _HEAD:
        raise UsageError(f"model.width is {config.model.width}", f"Choose a multiple of {_HEAD}.")
    work = folder.with_name(folder.name + ".training")
    index = Index.open(config.data.index)
    with quiet_libraries():
        tokenizer = _tokenizer(config.model.tokenizer)
        tokenizer.model_max_length = config.model.max_tokens
        args = library_arguments(TrainingArguments, work, config.training, config.output)
        rows = PassageTexts(index.passages, config.data.title)
        chosen = np.arange(len(rows))
        if config.data.most:
            drawn = np.random.default_rng(config.training.seed).permutation(len(rows))
            chosen = np.sort(drawn[: config.data.most])
        batches = Batches(
            {"": chosen}, config.training.batch, config.training.seed,
            process=args.process_index, processes=args.world_size,
        )  # fmt: skip
        set_seed(config.training.seed)
        model = BertForMaskedLM(_bert_config(config.model, len(tokenizer)))
        masker = Masker(tokenizer, config.model.max_tokens, config.training.seed)
        trainer = MlmTrainer(model=model, args=args, data_collator=masker)
        log = Log(work / "log.jsonl", "passages", min(config.training.batch, batches.rows))
        corpus = index.parts["passages"]["fingerprint"]
        values = config.model_dump(mode="json", exclude={"output": True, "data": {"index": True}})
        trainer.prepare(
            rows, batches, values | {"corpus": value_sha256(corpus), "processes": args.world_size}, log
        )
        try:
            trainer.resume_or_start()
        finally:
            log.close()
        if args.should_save:
            _publish(config, model, tokenizer, work, log.path)
            print(f"{folder}: trained for {trainer.state.global_step:,} steps", file=sys.stderr)


def _tokenizer(name: str) -> Any:
    with quiet():
        return AutoTokenizer.from_pretrained(name if Path(name).is_dir() else str(find_model(name)))


def _bert_config(settings: BertSettings, vocabulary: int) -> Any:
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=max(settings.width // _HEAD, 1),
        intermediate_size=4 * settings.width,
        max_position_embeddings=settings.max_tokens,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
    )


def _publish(config: MlmConfig, model: Any, tokenizer: Any, work: Path, log: Path) -> None:
    finished = work / "model"
    shutil.rmtree(finished, ignore_errors=True)
    with quiet():
        model.save_pretrained(finished)
        tokenizer.save_pretrained(finished)
    shutil.copyfile(log, finished / "log.jsonl")
    (finished / SETTINGS).write_text(settings_text(config), "utf-8")
    finished.rename(config.output.folder)
    shutil.rmtree(work)
