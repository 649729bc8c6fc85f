"""Masked language modelling on the passages of an index: its data and its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import set_seed
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, DataCollatorForLanguageModeling

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.store.artifacts import value_sha256
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.library import forget_lengths, load_tokenizer
from linkseek.retriever.training.config import BertSettings, MlmConfig
from linkseek.retriever.training.lifecycle import fingerprint, is_finished, open_run
from linkseek.retriever.training.loop import Task, train_steps
from linkseek.retriever.training.samples.sample_table import Sample

_HEAD = 64  # numbers of a token's vector that one head of attention reads


class TrainingTexts:
    """The texts of passages by row, as samples."""

    def __init__(self, passages: PassageStore, title: bool) -> None:
        self._passages, self._format = passages, TextFormat(title)

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, row: int) -> Sample[str]:
        passage = self._passages[row]
        return Sample(row, passage.id, self._format.passage(passage.title, passage.text))


class Masker:
    """Texts to a batch: input_ids and labels, int64 [B, L]; labels are -100 where nothing is predicted.

    15 % of the tokens are predicted: 80 % of them are masked, 10 % replaced and 10 % kept (Devlin et al.
    2019, section 3.1). They depend on seed, epoch and the batch's first row, so a run that resumes from a
    checkpoint masks the same tokens.
    """

    def __init__(self, tokenizer: Any, max_tokens: int, seed: int) -> None:
        self._tokenizer, self._max_tokens, self._seed = tokenizer, max_tokens, seed
        self._mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)

    def __call__(self, samples: Sequence[Sample[str]], epoch: int) -> dict[str, Tensor]:
        """One batch."""
        texts = [sample.record for sample in samples]
        encoded = self._tokenizer(
            texts, truncation=True, max_length=self._max_tokens, return_special_tokens_mask=True
        )
        examples = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
        drawn = np.random.default_rng((self._seed, epoch, samples[0].row)).integers(1 << 62)
        self._mask.generator = torch.Generator().manual_seed(int(drawn))
        return dict(self._mask(examples))


def masked_loss(head: nn.Module, vectors: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of the losses of the m tokens whose label is not -100, and their logits [m, vocabulary].

    vectors: [B, L, H], of which the head reads these tokens alone: it multiplies each with the whole
    vocabulary, for a small BERT most of the work. labels: int64 [B, L].
    """
    predicted = labels != -100
    logits = head(vectors[predicted])  # [m, vocabulary]
    # The sum over no token is 0 with a gradient; their mean has none.
    return nn.functional.cross_entropy(logits.float(), labels[predicted], reduction="sum"), logits


class MaskedBert(nn.Module):
    """A BERT whose forward pass is its loss; `bert` is the transformers library's."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """int64 [B, L] each -> the mean loss of the tokens whose label is not -100, []."""
        labels = inputs["labels"]
        rest = {name: tensor for name, tensor in inputs.items() if name != "labels"}
        vectors = self.bert.bert(**rest).last_hidden_state  # [B, L, H]
        return masked_loss(self.bert.cls, vectors, labels)[0] / (labels != -100).sum().clamp(min=1)


def train_masked(config: MlmConfig) -> None:
    """Train, or resume training, and publish the model in `output.folder` atomically.

    Does nothing if it is finished. Raises `UsageError` if the folder contains something else, and for sizes
    that do not fit.
    """
    if is_finished(config, config.output.folder):
        return
    if config.model.width > _HEAD and config.model.width % _HEAD:
        raise UsageError(f"model.width is {config.model.width}", f"Choose a multiple of {_HEAD}.")
    training, data = config.training, config.data
    index = OpenIndex.open(data.index)
    with open_run(training, config.output) as run:
        tokenizer = load_tokenizer(config.model.tokenizer)
        if tokenizer.mask_token is None:
            raise UsageError(
                f"model.tokenizer: the tokenizer of {config.model.tokenizer} has no mask token",
                "Name a model with BERT's vocabulary, such as hlp.",
            )
        tokenizer.model_max_length = config.model.max_tokens
        passages = TrainingTexts(index.passages, data.title)
        chosen = np.arange(len(passages))
        if data.most:
            chosen = np.sort(np.random.default_rng(training.seed).permutation(len(passages))[: data.most])
        set_seed(training.seed)
        bert: Any = BertForMaskedLM(_bert_config(config.model, len(tokenizer)))
        batches = run.batches({"": chosen}, training.batch, training.seed)
        masker, model = Masker(tokenizer, config.model.max_tokens, training.seed), MaskedBert(bert)
        setting = "training.batch"
        task = Task(model, passages, batches, "passages", masker, _loss, mini_batch_setting=setting)
        corpus = value_sha256(index.parts.passages.fingerprint)
        marks = fingerprint(config, run, corpus=corpus)
        state = train_steps(task, run, training, config.output, marks)

        def save(folder: Path) -> None:
            forget_lengths([tokenizer])
            bert.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

        if run.accelerator.is_main_process:
            run.publish(config, save, state.step)


def _loss(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    return {"loss": model(inputs)}


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
        use_cache=False,
    )
