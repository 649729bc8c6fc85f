"""The facts of a model next to its forward pass, and the arrays that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import Tokens
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.checks.tokenizer_costs import panics_refused, tokenized

POOLED = "pooled"
"""The array that masks the tokens which are pooled, of models that do not pool their prompts."""

Features = dict[str, NDArray[np.int64]]
"""The arrays [B, L] that a model reads, by name."""

# Lengths are rounded up: a backend plans each new shape once, and 8 numbers fill a vector register.
_LENGTH_STEP = 8


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Everything that an engine knows of a model except how to compute it.

    dimension: numbers in a row of its output. inputs: the arrays that it reads. tokenizer: a tokenizer.json.
    words: how many tokens it has vectors for; 0 where unknown. title_separator: the text between a title and
    what follows it. two_towers: whether queries have a model of their own. truncation_side: where long texts
    lose tokens, "right" or "left". similarity: "cosine" or "dot", empty if the folder does not say. is_unit:
    whether the model itself gives vectors of length 1. family_prompts: whether prompts that its name suggests
    apply if it has none of its own. title, url_separator, url_after_title: of a
    cross-encoder, see `reranker.candidates`.
    """

    dimension: int
    max_tokens: int
    pad_token: int
    tokenizer: str
    inputs: Sequence[str] = ("input_ids", "attention_mask")
    passage_prompt: str = ""
    query_prompt: str = ""
    title_separator: str = " "
    two_towers: bool = False
    truncation_side: str = "right"
    similarity: str = ""
    is_unit: bool = False
    family_prompts: bool = True
    title: bool = True
    url_separator: str = ""
    url_after_title: bool = False
    words: int = 0

    @property
    def excludes_prompt(self) -> bool:
        """Whether a prompt is read, but not pooled; its tokens are then given as ~id."""
        return POOLED in self.inputs


def open_tokenizer(facts: ModelFacts) -> Tokenizer:
    """The model's tokenizer, which truncates texts to its length and pads nothing."""
    with panics_refused("the tokenizer of the model"):
        tokenizer = Tokenizer.from_str(facts.tokenizer)
    special = tokenizer.num_special_tokens_to_add(False)
    if special > facts.max_tokens:
        raise InputError(
            f"the model reads {facts.max_tokens:,} tokens, and its tokenizer adds {special:,}",
            "Save it with a larger max_seq_length.",
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(facts.max_tokens, direction=facts.truncation_side)
    return tokenizer


def special_ids(tokenizer: Tokenizer) -> set[int]:
    """The numbers of tokens that stand for no text, such as [CLS]."""
    added = tokenizer.get_added_tokens_decoder()
    return {number for number, token in added.items() if token.special}


def decoded(tokenizer: Tokenizer, tokens: Tokens) -> str:
    """The words of token ids without special tokens; tokens of a second text or a prompt may be ~id."""
    ids = np.asarray(tokens, np.int64)  # [L]
    return tokenizer.decode(np.where(ids < 0, ~ids, ids).tolist())


def token_ids(tokenizer: Tokenizer, texts: Sequence[str], unpooled: int = 0) -> list[Tokens]:
    """Token ids of complete texts; the first ones as ~id (see `padded`)."""
    encodings: list[Tokens] = [encoding.ids for encoding in tokenized(tokenizer, texts)]
    if not unpooled:
        return encodings
    return [[*(~id_ for id_ in ids[:unpooled]), *ids[unpooled:]] for ids in encodings]


def unpooled_tokens(tokenizer: Tokenizer, facts: ModelFacts, prompt: str) -> int:
    """The number of tokens at the beginning of a text that its model does not pool, as the library counts."""
    if not facts.excludes_prompt or not prompt:
        return 0
    ids = tokenizer.encode(prompt).ids
    ends = bool(ids) and ids[-1] in special_ids(tokenizer)
    return len(ids) - ends


def padded(batch: Sequence[Tokens], facts: ModelFacts) -> Features:
    """The arrays that a model reads, int64 [B, L] each.

    Tokens of a second text, and of a prompt that is not pooled, are given as ~id.
    """
    lengths = np.array([len(tokens) for tokens in batch])  # [B]
    longest = int(lengths.max())
    length = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, max(facts.max_tokens, longest))
    is_token = np.arange(length) < lengths[:, None]  # [B, L]
    signed = np.zeros(is_token.shape, np.int64)  # [B, L]
    signed[is_token] = np.concatenate([np.asarray(tokens, np.int64) for tokens in batch])
    is_second = signed < 0
    ids = np.where(is_token, np.where(is_second, ~signed, signed), facts.pad_token)
    if facts.words and (largest := int(ids.max(initial=0))) >= facts.words:
        raise InputError(
            f"the tokenizer has a token of number {largest:,}, the model has vectors of {facts.words:,}",
            "Save both together: save_pretrained(folder).",
        )
    arrays = {"input_ids": ids, "attention_mask": is_token}
    if facts.excludes_prompt:
        arrays |= {POOLED: is_token & ~is_second, "token_type_ids": np.zeros_like(is_token)}
    else:
        arrays["token_type_ids"] = is_second
    return {name: arrays[name].astype(np.int64) for name in facts.inputs}
