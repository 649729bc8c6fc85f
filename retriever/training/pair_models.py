"""The kinds of encoders that learn from pairs, and the model that is trained: from a base's name to towers.

A kind says how texts become inputs, inputs vectors, and two sets of vectors scores. Pairs, batches, masks,
teachers, exact gradients of large batches, the loop and its checkpoints are the same for all kinds
(`losses.in_batch_loss`, `pair_training`). Another kind is a subclass of `PairModel` and a
line of `pair_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from linkseek.indexer.encoding.batches import TokenRows, Tokens
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.store.ids import hash_id
from linkseek.retriever.models.backends.poolings import project_in_pooling
from linkseek.retriever.models.backends.static_engine import without_special_tokens
from linkseek.retriever.models.bases import (
    has_two_towers,
    is_normalized,
    is_static,
    one_tower,
    open_base,
    readers_of,
    save_trained,
    set_length,
    split_towers,
    tower,
)
from linkseek.retriever.models.facts import token_ids
from linkseek.retriever.models.late import LATE, late_library_model, save_head, with_layer
from linkseek.retriever.models.locations import PASSAGES, QUERIES, find_base
from linkseek.retriever.models.sparse import SPARSE_MODEL, sparse_library_model
from linkseek.retriever.models.words import WordTokenizer
from linkseek.retriever.training.config import LossSettings, ModelSettings, TransformerSettings
from linkseek.retriever.training.optimizers import TokenVectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PairModel:
    """An encoder whose texts become one vector each, in training; vectors are compared by inner product."""

    def __init__(self, model: SentenceTransformer, widths: Sequence[int] = ()) -> None:
        """widths: numbers of leading dimensions that are compared, too (Matryoshka, Kusupati et al. 2022).

        Raises `UsageError` for one above the vectors' own.
        """
        self.model, self.is_normalized = model, is_normalized(model)
        self._widths = widths
        dimension = model.get_embedding_dimension() or 0
        if any(width > dimension for width in widths):
            raise UsageError(f"loss.widths: vectors have {dimension} numbers", "Give smaller widths.")

    def features(self, texts: list[str], task: str, limit: int) -> dict[str, Any]:
        """What the model reads of texts. task: `QUERIES` or `PASSAGES`. limit: of tokens; 0: the model's."""
        return dict(self.model.preprocess(texts, prompt=None, task=task, max_length=limit or None))

    def together(self, pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The features of all pieces as one, padded to the longest."""
        joined, padding = dict(pieces[0]), {"input_ids": self.model.tokenizer.pad_token_id}
        for name in [name for name, value in joined.items() if isinstance(value, Tensor)]:
            rows = [row for piece in pieces for row in piece[name]]
            joined[name] = nn.utils.rnn.pad_sequence(rows, True, padding.get(name, 0))
        return joined

    def read(self, prepared: nn.Module, features: Mapping[str, Any]) -> Tensor:
        """The vectors of texts, [b, d]. prepared: the model as the loop runs it."""
        vectors: Tensor = prepared(dict(features))["sentence_embedding"].float()
        return vectors

    def joined(self, pieces: Sequence[Tensor]) -> Tensor:
        """The vectors of all pieces, [B, d]."""
        return torch.cat(list(pieces))

    def views(self, queries: Tensor, passages: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The vectors that are compared, [B, d] and [P, d]; the loss is the mean over all of them."""
        yield queries, passages
        for width in self._widths:
            yield self._cut(queries, width), self._cut(passages, width)

    def scores(self, queries: Tensor, passages: Tensor) -> Tensor:
        """The score of each query with each passage, [B, P]."""
        return queries @ passages.T

    def regularised(self, loss: Tensor, queries: Tensor, passages: Tensor) -> Tensor:
        """The loss of a batch, with the regularisation of its vectors, []."""
        return loss

    def encode(self, texts: list[str], task: str) -> Tensor:
        """The vectors of complete texts, as `joined` gives them, on the CPU."""
        return torch.from_numpy(self.model.encode(texts, task=task, **_ENCODING))

    def save(self, folder: Path, base_sha256: str) -> None:
        """Write the folder of the model, or of its adapters with the hash of their base."""
        save_trained(self.model, folder, base_sha256)

    def _cut(self, vectors: Tensor, width: int) -> Tensor:
        """The first numbers of vectors, [n, width]."""
        cut = vectors[:, :width]
        return nn.functional.normalize(cut) if self.is_normalized and width < vectors.shape[1] else cut


class TermPairModel(PairModel):
    """A learned sparse model in training, with FLOPS regularisation (Paria et al. 2020, section 3).

    For weights [n, V], it is the sum over terms of the square of their mean: an expected number of products.
    """

    def __init__(self, model: Any, query_flops: float, passage_flops: float) -> None:
        """query_flops, passage_flops: the weights of the sums in the loss."""
        super().__init__(model)
        project_in_pooling(model)
        self._flops = query_flops, passage_flops

    def regularised(self, loss: Tensor, queries: Tensor, passages: Tensor) -> Tensor:
        """The loss with both sums, []."""
        for weights, share in zip((queries, passages), self._flops, strict=True):
            loss = loss + share * weights.mean(dim=0).square().sum()
        return loss

    def encode(self, texts: list[str], task: str) -> Tensor:
        """Term weights, [n, V]."""
        encoded: Any = self.model.encode(texts, task=task, convert_to_sparse_tensor=False, **_ENCODING)
        return torch.as_tensor(encoded)


class LatePairModel(PairModel):
    """A late-interaction model in training.

    A text is [L, d + 1]: the vectors of its tokens, and in the last column whether each is scored.
    """

    def __init__(self, model: Any, head_of: str = "") -> None:
        """head_of: the base, if only the last layer is new, so that only this layer is saved."""
        super().__init__(model)
        self._is_mean = model.similarity_fn_name == "meanmaxsim"
        self._head_of = head_of

    def features(self, texts: list[str], task: str, limit: int) -> dict[str, Any]:
        """As in `PairModel`, with the task, which decides which tokens are scored."""
        return super().features(texts, task, limit) | {"task": task}

    def read(self, prepared: nn.Module, features: Mapping[str, Any]) -> Tensor:
        """[b, L, d + 1]."""
        read = prepared(dict(features), task=features["task"])
        scored: Tensor = read["attention_mask"]
        return torch.cat([read["token_embeddings"].float(), scored[..., None].float()], dim=-1)

    def joined(self, pieces: Sequence[Tensor]) -> Tensor:
        """[B, L, d + 1], with tokens that are not scored at the ends of shorter texts."""
        longest = max(piece.shape[1] for piece in pieces)
        return torch.cat([nn.functional.pad(p, (0, 0, 0, longest - p.shape[1])) for p in pieces])

    def scores(self, queries: Tensor, passages: Tensor) -> Tensor:
        """MaxSim (Khattab and Zaharia 2020, section 3.3), [B, P]; 0 for a passage without tokens.

        Where there are more products than `_PRODUCTS`, some queries at a time: gradients are the same.
        """
        products = queries.shape[1] * passages.shape[0] * passages.shape[1]
        blocks = torch.split(queries, max(_PRODUCTS // max(products, 1), 1))
        if len(blocks) == 1:
            return self._maxsim(queries, passages)
        return torch.cat([checkpoint(self._maxsim, b, passages, use_reentrant=False) for b in blocks])

    def _maxsim(self, queries: Tensor, passages: Tensor) -> Tensor:
        asked, scored = queries[..., -1], passages[..., -1] > 0  # [B, L], [P, M]
        products = torch.einsum("bld,pmd->bplm", queries[..., :-1], passages[..., :-1])
        best = products.masked_fill(~scored[:, None], -torch.inf).amax(dim=-1)  # [B, P, L]
        best = best.masked_fill(~scored.any(dim=1)[:, None], 0)
        sums = (best * asked[:, None]).sum(dim=-1)  # [B, P]
        return sums / asked.sum(dim=1, keepdim=True).clamp(min=1) if self._is_mean else sums

    def encode(self, texts: list[str], task: str) -> Tensor:
        """[n, L, d + 1]."""
        encoded = [torch.as_tensor(own) for own in self.model.encode(texts, task=task, **_ENCODING)]
        return self.joined([nn.functional.pad(own, (0, 1), value=1.0)[None] for own in encoded])

    def save(self, folder: Path, base_sha256: str) -> None:
        """As in `PairModel`, or only the new layer."""
        if self._head_of:
            save_head(self.model, self._head_of, folder)
        else:
            super().save(folder, base_sha256)


_PRODUCTS = 1 << 26
"""The maximum number of token products in memory at a time: 256 MB."""

_ENCODING: dict[str, Any] = {"prompt": "", "batch_size": 64, "show_progress_bar": False}


class StaticPairModel(PairModel):
    """A static encoder in training. The tokens of a text are kept: to make them is most of a step's work."""

    def __init__(self, model: SentenceTransformer, widths: Sequence[int] = ()) -> None:
        """As `PairModel`."""
        super().__init__(model, widths)
        self._tokenizer = cache(self._open_tokenizer)
        self._tokens: dict[tuple[int, int], Tokens] = {}  # of the texts that were read, by limit and hash

    def features(self, texts: list[str], task: str, limit: int) -> dict[str, Any]:
        """input_ids int64 [T], tokens back to back, and offsets int64 [B], which `StaticEmbedding` reads."""
        keys = [(limit, hash_id(text)) for text in texts]
        if new := {key: text for key, text in zip(keys, texts, strict=True) if key not in self._tokens}:
            tokens = self._tokenizer(limit)([*new.values()])
            self._tokens.update(zip(new, map(np.copy, tokens), strict=True))
        rows = TokenRows.of(self._tokens[key] for key in keys)
        return {
            "input_ids": torch.from_numpy(rows.ids.astype(np.int64)),
            "offsets": torch.from_numpy(rows.ends - rows.lengths),
            "task": task,
        }

    def _open_tokenizer(self, limit: int) -> Callable[[list[str]], Sequence[Tokens]]:
        """Texts to token ids, without special tokens, as sentence-transformers reads them."""
        tokenizer = Tokenizer.from_str(without_special_tokens(self.model.tokenizer))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if limit:
            tokenizer.enable_truncation(limit)
        return WordTokenizer(tokenizer) if WordTokenizer.fits(tokenizer) else partial(token_ids, tokenizer)


def pair_model(model: Any, loss: LossSettings, head_of: str = "") -> PairModel:
    """A model that is open, as the kind that it is of. head_of: as in `LatePairModel`."""
    library = type(model).__name__
    if library == LATE.library:
        return LatePairModel(model, head_of)
    if library == SPARSE_MODEL.library:
        return TermPairModel(model, loss.query_flops, loss.passage_flops)
    return (StaticPairModel if is_static(model) else PairModel)(model, loss.widths)


_LENGTHS = "texts.query_tokens and texts.passage_tokens"


def open_model(settings: ModelSettings, max_tokens: int) -> Any:
    """The model as training starts, on the CPU, in float32.

    max_tokens: the length to which longer texts are truncated, now and later; 0: as the base does. Raises
    `InputError` if the base cannot be had or read, `UsageError` if it does not fit the settings.
    """
    if settings.family != "dense":
        return _open_coded(settings, max_tokens)
    model = open_base(settings.base)
    if has_two_towers(model):
        _check_towers(model, settings.base)
    if settings.towers == "two" and not has_two_towers(model):
        model = split_towers(model)
    elif settings.towers == "shared" and has_two_towers(model):
        raise UsageError(
            f"{settings.base} has two towers, and model.towers is shared", 'Set model.towers = "two".'
        )
    set_dropout(model, settings)
    if not is_normalized(model):
        model.similarity_fn_name = "dot"  # which the losses compare by
    if is_static(model):
        _make_trainable(model, settings)
        return model
    for transformer in readers_of(model):
        set_length(transformer, max_tokens, settings.base, _LENGTHS)
        pooler = getattr(transformer.model, "pooler", None)
        if pooler is not None:  # BERT's follows the last hidden state, which is read: it gets no gradient
            pooler.requires_grad_(False)
    if settings.train == "lora":
        [transformer] = readers_of(model)
        options = {"task_type": "FEATURE_EXTRACTION", "exclude_modules": r"(.*\.)?pooler\..*"}
        add_adapters(transformer.model, settings, **options)
    elif settings.train == "query":
        tower(model, PASSAGES).requires_grad_(False)
    return model


def _open_coded(settings: ModelSettings, max_tokens: int) -> Any:
    """A late-interaction or learned sparse model as training starts, as `open_model`."""
    from sentence_transformers.base.modules import Transformer

    folder, is_late = find_base(settings.base), settings.family == "late"
    model: Any = (late_library_model if is_late else sparse_library_model)(folder, settings.base)
    if not isinstance(model[0], Transformer):
        hint = "Use a base with one transformer."
        raise UsageError(f"{settings.base}: two towers, or no transformer", hint)
    if settings.dimension:
        model = with_layer(model, settings.dimension)
    set_dropout(model, settings)
    set_length(model[0], max_tokens, settings.base, _LENGTHS)
    model[0].requires_grad_(settings.train == "all")
    return model


def _check_towers(model: SentenceTransformer, name: str) -> None:
    """Raises `UsageError` for two towers that read texts with the same module, or in different ways."""
    first = [one_tower(model, route, name)[0] for route in (QUERIES, PASSAGES)]
    if first[0] is first[1] or type(first[0]) is not type(first[1]):
        raise UsageError(
            f"{name}: its two towers begin with the same module, or with different kinds of modules",
            "Export one to train it: linkseek export --tower query, or document.",
        )


def _make_trainable(model: SentenceTransformer, settings: ModelSettings) -> None:
    if settings.train != "all":
        hint = 'Set model.train = "all".'
        raise UsageError(f"{settings.base} is a static encoder, and all of its vectors are trained", hint)
    for reader in readers_of(model):
        reader.embedding = TokenVectors(reader.embedding.weight)


def set_dropout(model: nn.Module, settings: TransformerSettings) -> None:
    """Set the dropout that the settings name, of hidden states or attention; adapters have their own.

    Raises `UsageError` if the model has none, as static encoders.
    """
    attention_dropouts: list[nn.Dropout] = []
    hidden_dropouts: list[nn.Dropout] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and "lora_dropout" not in name:
            parent = type(model.get_submodule(name.rpartition(".")[0])).__name__
            (attention_dropouts if parent.endswith("SelfAttention") else hidden_dropouts).append(module)
    for key, dropouts in (("hidden_dropout", hidden_dropouts), ("attention_dropout", attention_dropouts)):
        share = getattr(settings, key)
        if share is not None and not dropouts:
            raise UsageError(f"{settings.base}: there is no {key} to set", f"Omit model.{key}.")
        for dropout in dropouts if share is not None else ():
            dropout.p = share


def add_adapters(transformer: Any, settings: TransformerSettings, **options: Any) -> None:
    """Freeze all weights but low-rank adapters of every linear layer; options: others of peft."""
    from peft import LoraConfig

    public = f"sentence-transformers/{DEFAULT_ENCODER}"
    transformer.name_or_path = public if settings.base == DEFAULT_ENCODER else settings.base
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear",
        **options,
    )
    transformer.add_adapter(config)
