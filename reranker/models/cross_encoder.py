"""The cross-encoder on our engine: scores of (query, text) pairs, as `CrossEncoder.predict` gives them.

The model's own activation is included, whether that is a sigmoid or nothing. Pairs that are too long are
truncated as there, from the end of the longer text, so that a query of less than half the model's length is
never truncated. Pairs come in as a stream and are scored a block at a time, sorted by length within it;
memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from linkseek.indexer.encoding.batches import TokenRows, encode_texts
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import counted
from linkseek.reranker.models.bases import open_cross_encoder
from linkseek.reranker.pair_texts import AFTER_TITLE, TITLE, URL_PLACE, URL_SEPARATOR, PairFormat, Readable
from linkseek.retriever.models.backends.conversions import Probe, probe_texts
from linkseek.retriever.models.checks.tokenizer_costs import tokenized
from linkseek.retriever.models.engine import Engine, Opened
from linkseek.retriever.models.facts import ModelFacts, open_tokenizer
from linkseek.retriever.models.folders import is_cross_encoder, makes_vectors
from linkseek.retriever.models.library import SAVE_AGAIN, check_reading, reading_facts, usable

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from linkseek.indexer.encoding.encode import OnRows
    from linkseek.retriever.models.backends.torch_engine import ModuleChain

BLOCK_PAIRS = 8_192
"""Pairs in memory at the same time."""


class Scorer(Engine):
    """A cross-encoder, or another kind of model. Make one with `reranker.models.scoring.open_scorer`."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        facts = opened.facts
        self.text_format = PairFormat(
            facts.title,
            title_separator=facts.title_separator,
            url_separator=facts.url_separator,
            url_after_title=facts.url_after_title,
        )
        self.identity = {"name": self.name, "sha256": opened.sha256, "max_tokens": self.max_tokens}
        self._readable = Readable(facts)

    def score(
        self, queries: Iterable[str], texts: Iterable[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """The score of each query with the text at the same place, float32 [n]; higher is better.

        Both are streams, read in turn, with only blocks in memory. Texts that are too long are truncated.
        on_rows: gets the number of pairs that were scored since its last call. Raises ValueError if there are
        more queries than texts, or fewer.
        """
        both = zip(queries, texts, strict=True)
        pairs = ((query, self._readable.start(text, query)) for query, text in both)
        blocks = iter(lambda: list(islice(pairs, BLOCK_PAIRS)), [])
        with closing(self._tokenized(blocks)) as tokenized:
            scores = [encode_texts(self, tokens, on_rows)[:, 0] for tokens in tokenized]  # [b]
        return np.concatenate([np.empty(0, np.float32), *scores])

    def windows(self, query: str, head: str, text: str) -> list[str]:
        """A text in windows that fit the model with the query, `head` before each; one if all fits."""
        return self._readable.windows(head, text, query)

    def _tokenized(self, blocks: Iterator[list[tuple[str, str]]]) -> Generator[TokenRows, None, None]:
        """The tokens of each block, the next one being made meanwhile."""
        with ThreadPoolExecutor(1, "tokenize") as ahead:
            waiting = [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
            while waiting:
                tokens = waiting.pop().result()
                waiting += [ahead.submit(self.tokenize_pairs, block) for block in islice(blocks, 1)]
                yield tokens

    def tokenize_pairs(self, pairs: list[tuple[str, str]]) -> TokenRows:
        """Token ids of pairs, see `token_rows`."""
        return token_rows(tokenized(self.tokenizer, pairs))


def token_rows(encodings: Iterable[Encoding]) -> TokenRows:
    """Token ids of encoded pairs, in the second text as ~id (see `retriever.models.facts.padded`)."""
    rows = []
    for encoding in encodings:
        ids = np.array(encoding.ids, np.int32)  # [L]
        rows.append(np.where(np.array(encoding.type_ids) == 1, ~ids, ids))
    return TokenRows.of(rows)


def load_cross_encoder(folder: Path, name: str) -> tuple[ModuleChain, ModelFacts]:
    """A cross-encoder from token ids to one score. Raises `InputError` for another kind of model."""
    from linkseek.retriever.models.backends.layers import read_first_token
    from linkseek.retriever.models.backends.torch_engine import ModuleChain

    if not is_cross_encoder(folder) and makes_vectors(folder):
        raise bi_encoder_error(name)
    model = open_cross_encoder(folder, name)
    if model.num_labels != 1 or len(model) != 1:
        steps = ", ".join(type(module).__name__ for module in model)
        raise InputError(
            f"cross-encoder {name}: {counted(model.num_labels, 'number')} of {steps}; expected one score",
            "A re-ranker is a sequence classification model (one Transformer) with num_labels = 1.",
        )
    if model.default_prompt_name is not None:
        raise InputError(
            f"cross-encoder {name}: it needs the prompt {model.default_prompt_name!r}",
            "Prompts of cross-encoders are not supported: use another model.",
        )
    facts = cross_encoder_facts(model, name)
    model.max_seq_length = facts.max_tokens
    with usable(f"cross-encoder {name}: the library cannot score with it", SAVE_AGAIN):
        probe = _library_probe(model, facts)
    transformer: Any = model[0]
    _set_padding(model, transformer.model)
    read_first_token(transformer.model)
    activation: Any = model.activation_fn
    return ModuleChain(list(model), "scores", activation, probe=probe), facts


def _library_probe(model: CrossEncoder, facts: ModelFacts) -> Probe:
    """The library's own scores of pairs of the probe texts, one pair at a time."""
    texts = probe_texts(facts)
    pairs = [(texts[n % 2], text) for n, text in enumerate(texts)]
    scores = [model.predict([pair], show_progress_bar=False) for pair in pairs]
    tokens = token_rows(tokenized(open_tokenizer(facts), pairs))
    return Probe(tokens[:], [np.asarray(score, np.float32).ravel() for score in scores])


def _set_padding(model: CrossEncoder, transformer: Any) -> None:
    """Name the padding of a decoder, which scores at the last token before it.

    If the padding token also ends texts, the two are indistinguishable: such a model reads one pair at a
    time.
    """
    tokenizer = model.tokenizer
    if transformer.config.pad_token_id is None and tokenizer.pad_token_id != tokenizer.eos_token_id:
        transformer.config.pad_token_id = tokenizer.pad_token_id


def cross_encoder_facts(model: CrossEncoder, name: str) -> ModelFacts:
    """Raises `InputError` if the model's tokenizer has no fast version, or texts get a chat template."""
    check_reading(model, f"cross-encoder {name}")
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    return ModelFacts(
        dimension=1,
        title=model.prompts.get(TITLE) != "no",
        url_separator=model.prompts.get(URL_SEPARATOR) or "",
        url_after_title=model.prompts.get(URL_PLACE) == AFTER_TITLE,
        inputs=[name for name in inputs if name in model.tokenizer.model_input_names],
        **reading_facts(model, f"cross-encoder {name}"),
    )


def bi_encoder_error(name: str) -> InputError:
    """The error for a bi-encoder in place of a cross-encoder."""
    return InputError(
        f"cross-encoder {name}: it is a bi-encoder, which makes vectors instead of scores of pairs",
        f"To re-rank by dot products of its vectors, name it bi-encoder:{name}.",
    )
