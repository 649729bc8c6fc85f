"""Scores of (query, text) pairs: what every re-ranker gives, and the cross-encoder's on our engine.

A score is that of `CrossEncoder.predict`: the model's own activation included, whether that is a sigmoid or
nothing. Pairs that are too long are cut as there, from the end of the longer text, so that a query of less
than half the model's length is never cut. Pairs come in as a stream and are scored a block at a time, sorted
by length within it; memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from indexer.base.errors import InputError
from indexer.encoding.batches import TokenRows, encode_texts
from reranker.baselines import is_baseline, open_baseline
from reranker.candidates import URL_SEPARATOR, PairFormat, Readable
from retriever.models.engine import Engine, Opened, open_engine
from retriever.models.locations import (
    BI_ENCODER,
    DEFAULT_ENCODER,
    Kind,
    ModelFacts,
    Precision,
    fast_tokenizer,
    find_model,
    is_cross_encoder,
    is_here,
    makes_vectors,
    model_sha256,
    shipped_models,
    text_prompts,
)

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from retriever.models.torch_engine import Whole

OnRows = Callable[[float], None]
"""Gets the number of pairs that were done since its last call."""

_BLOCK_PAIRS = 8_192


class PairScorer(Protocol):
    """What scores pairs: a cross-encoder, a bi-encoder, a neural baseline. Make one with `open_scorer`."""

    @property
    def identity(self) -> dict[str, Any]:
        """Its name, and as "sha256" the hash of all that decides its scores."""

    @property
    def text_format(self) -> PairFormat:
        """How its texts are made."""

    def score(
        self, queries: Iterable[str], texts: Iterable[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """The score of each query with the text beside it, float32 [n]; higher is better.

        Both are streams of which only blocks are held, read in turn. Texts that are too long are cut.
        """

    def windows(self, query: str, head: str, text: str) -> list[str]:
        """A text in windows that are read whole beside a query, `head` before each; one, if it fits."""


class Scorer(Engine):
    """A cross-encoder."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        facts = opened.facts
        self.text_format = PairFormat(
            title_separator=facts.title_separator, url_separator=facts.url_separator
        )
        self.identity = {"name": self.name, "sha256": opened.sha256, "max_tokens": self.max_tokens}
        self._readable = Readable(facts)

    def score(
        self, queries: Iterable[str], texts: Iterable[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """See `PairScorer`. Raises ValueError if there are more of one than of the other."""
        both = zip(queries, texts, strict=True)
        pairs = ((query, self._readable.start(text, query)) for query, text in both)
        blocks = iter(lambda: list(islice(pairs, _BLOCK_PAIRS)), [])
        scores = [encode_texts(self, tokens, on_rows)[:, 0] for tokens in self._tokenized(blocks)]  # [b]
        return np.concatenate([np.empty(0, np.float32), *scores])

    def windows(self, query: str, head: str, text: str) -> list[str]:
        """See `PairScorer`."""
        return self._readable.windows(head, text, query)

    def _tokenized(self, blocks: Iterator[list[tuple[str, str]]]) -> Iterator[TokenRows]:
        """The tokens of each block, the next one being made meanwhile."""
        with ThreadPoolExecutor(1, "tokenize") as ahead:
            waiting = [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
            while waiting:
                tokens = waiting.pop().result()
                waiting += [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
                yield tokens

    def tokenize_pairs(self, pairs: list[tuple[str, str]]) -> TokenRows:
        """See `pair_tokens`."""
        return pair_tokens(self.tokenizer, pairs)


def pair_tokens(tokenizer: Tokenizer, pairs: list[tuple[str, str]]) -> TokenRows:
    """Token ids of pairs, those of the second text as ~id (see `retriever.models.engine.padded`)."""
    return token_rows(tokenizer.encode_batch_fast(pairs))


def token_rows(encodings: Iterable[Encoding]) -> TokenRows:
    """The same of pairs that are encoded already."""
    rows = []
    for encoding in encodings:
        ids = np.array(encoding.ids, np.int32)  # [L]
        rows.append(np.where(np.array(encoding.type_ids) == 1, ~ids, ids))
    return TokenRows.of(rows)


# --- from a name to a scorer -----------------------------------------------------------------------

BI_ENCODER_PREFIX = "bi-encoder:"
"""Before the name of a model whose dot products are the scores."""


def open_scorer(
    name: str, *, device: str = "auto", precision: Precision = "auto", threads: int | None = None
) -> PairScorer:
    """Load a cross-encoder by path or name, or a bi-encoder by "bi-encoder:" and its path or name.

    device: see `indexer.base.devices`. precision: of a cross-encoder, "auto" is float32 on a CPU and
    bfloat16 on a
    GPU that has it. threads: of the CPU, default all cores. Raises `InputError` if the model cannot be had or
    read or gives no single score, `UsageError` for a device that is not there.
    """
    kind, model = _kind(name)
    if kind is BI_ENCODER:
        from reranker.models.bi_encoder import BiEncoderScorer
        from retriever.models.biencoder import open_biencoder

        return BiEncoderScorer(open_biencoder(model, device=device, precision=precision, threads=threads))
    if not is_here(model, CROSS_ENCODER) and model in (DEFAULT_ENCODER, *shipped_models(BI_ENCODER)):
        raise InputError(*_is_bi_encoder(model))
    if is_baseline(Path(model)):
        return Scorer(open_baseline(model, device))
    return Scorer(open_engine(CROSS_ENCODER, model, device, precision, threads))


def scorer_is_here(name: str) -> bool:
    """Whether `open_scorer` finds a model without a network."""
    kind, model = _kind(name)
    return is_here(model, kind)


def scorer_sha256(name: str) -> str:
    """What `identity` says of a scorer, without opening it. Raises `InputError` if it cannot be had."""
    kind, model = _kind(name)
    return model_sha256(find_model(model, kind))


def _kind(name: str) -> tuple[Kind, str]:
    is_bi_encoder = name.startswith(BI_ENCODER_PREFIX)
    return BI_ENCODER if is_bi_encoder else CROSS_ENCODER, name.removeprefix(BI_ENCODER_PREFIX)


# --- the model in torch ----------------------------------------------------------------------------


def load_cross_encoder(folder: Path, name: str) -> tuple[Whole, ModelFacts]:
    """A cross-encoder from token ids to one score. Raises `InputError` if it is none."""
    from reranker.models.bases import open_cross_encoder
    from reranker.models.first_token import read_first_token
    from retriever.models.torch_engine import Whole

    if not is_cross_encoder(folder) and makes_vectors(folder):
        raise InputError(*_is_bi_encoder(name))
    model = open_cross_encoder(CROSS_ENCODER, folder, name)
    if model.num_labels != 1 or len(model) != 1:
        raise InputError(
            f"{CROSS_ENCODER.word} {name}: {model.num_labels} numbers in {len(model)} steps, not one score",
            "A re-ranker is a sequence classification model with num_labels = 1.",
        )
    if model.default_prompt_name is not None:
        raise InputError(
            f"{CROSS_ENCODER.word} {name}: it needs the prompt {model.default_prompt_name!r}",
            "Prompts of cross-encoders are not supported: use another model.",
        )
    facts = cross_encoder_facts(model, name)
    transformer: Any = model[0]
    read_first_token(transformer.model)
    activation: Any = model.activation_fn
    return Whole(list(model), "scores", activation), facts


def cross_encoder_facts(model: CrossEncoder, name: str) -> ModelFacts:
    """Raises `InputError` if the model's tokenizer has no fast version."""
    return ModelFacts(
        dimension=1,
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        passage_prompt="",
        query_prompt="",
        tokenizer=fast_tokenizer(model, f"{CROSS_ENCODER.word} {name}"),
        title_separator=text_prompts(model)["title_separator"],
        url_separator=model.prompts.get(URL_SEPARATOR) or "",
        inputs=[
            name
            for name in ("input_ids", "attention_mask", "token_type_ids")
            if name in model.tokenizer.model_input_names
        ],
    )


def _is_bi_encoder(name: str) -> tuple[str, str]:
    return (
        f"{CROSS_ENCODER.word} {name}: it is a bi-encoder, which makes vectors and no scores of pairs",
        f"To re-rank by dot products of its vectors, name it {BI_ENCODER_PREFIX}{name}.",
    )


CROSS_ENCODER = Kind(
    "cross-encoder",
    "CrossEncoder",
    "cross-encoder",
    "config.json",
    load_cross_encoder,
    shipped=Path(__file__).parents[1] / "adapters",
    # In bfloat16 scores are off by up to a twentieth of their spread: orders of close candidates change.
    cpu_precision="float32",
)
