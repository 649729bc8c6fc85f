"""The facts of a model next to its forward pass, the arrays that it reads, and the languages it can read.

The latter are measured by its tokenizer on given texts, and named by the card of the model. A tokenizer
leaves most words whole, or cuts them into long pieces, in the languages that it was made from. In other
languages it cuts words almost into letters. In LibreOffice's help and MediaWiki's messages, in some forty
languages, the share of such words is below .19 where a model has seen the language, and above .22 where it
has not; in program text with English names it is .15 at most.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import regex
import yaml
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.indexer.encoding.batches import Tokens
from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.segments import Span, units
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import WORD
from linkseek.retriever.models.checks.tokenizer_costs import panics_refused, tokenized

if TYPE_CHECKING:
    from linkseek.indexer.store.manifests import Reading

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
    the text. two_towers: whether queries have a model of their own. truncation_side: where long texts lose
    tokens, "right" or "left". similarity: "cosine" or "dot", empty if the folder does not say. is_unit:
    whether the model itself gives vectors of length 1. family_prompts: whether prompts that its name suggests
    apply if it has none of its own. title, url_separator, url_after_title: of a cross-encoder, see
    `reranker.candidates`. unscored, scored: for a late-interaction model, the tokens that are not compared in
    passages, and, if there are any, the only tokens that are compared. expands_queries: whether its library
    has to encode queries. scale, query_weights: for a learned sparse model, the factor of its weights, and,
    if queries are not encoded, the weight of each token.
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
    unscored: Sequence[int] = ()
    scored: Sequence[int] = ()
    expands_queries: bool = False
    scale: float = 0.0
    query_weights: Sequence[float] = ()

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


_CHARACTERS = 1_000  # of a text
_SHORT = {True: 3, False: 2}
"""Letters; a piece of fewer is short in Latin script, and in others. Vowels may be marks, which count too."""
_CARD = 1 << 16  # characters that are read
_LETTER, _LATIN = regex.compile(r"\p{L}"), regex.compile(r"\p{Latin}")
_FRONT_MATTER = regex.compile(r"---\s*\n(.*?)\n---\s*(?:\n|\Z)", regex.DOTALL)


def reading(tokenizer: Tokenizer, folder: Path, texts: Sequence[str]) -> Reading:
    """How the model of a folder reads texts. tokenizer: the model's, whose limit of tokens is kept."""
    starts = [text[:_CHARACTERS] for text in texts]
    with panics_refused("the tokenizer of the model"):
        encodings = tokenizer.encode_batch(starts, add_special_tokens=False)
    special = special_ids(tokenizer)
    is_unread = [
        unread
        for text, encoding in zip(starts, encodings, strict=True)
        for unread in _unread(text, zip(encoding.offsets, encoding.ids, strict=True), special)
    ]
    share = sum(is_unread) / max(len(is_unread), 1)
    from linkseek.indexer.store.manifests import Reading  # needs pydantic, which encoding does not

    return Reading(unread=round(share, 3), languages=card_languages(folder))


def _unread(text: str, tokens: Iterator[tuple[Span, int]], special: set[int]) -> Iterator[bool]:
    """For each word with letters: whether it is unknown, or cut into short pieces."""
    pieces = [(start, end, number) for (start, end), number in tokens if text[start:end].strip()]
    first = 0
    for begin, stop in units(text):
        for word in WORD.finditer(text, begin, stop):
            while first < len(pieces) and pieces[first][1] <= word.start():
                first += 1
            count, unknown = 0, False
            while first + count < len(pieces) and pieces[first + count][0] < word.end():
                unknown |= pieces[first + count][2] in special
                count += 1
            if count and _LETTER.search(word[0]):  # the end may be beyond the model's tokens
                letters = len(unicodedata.normalize("NFD", word[0]))
                is_latin = _LATIN.search(word[0]) is not None
                yield unknown or (count > 1 and letters < count * _SHORT[is_latin])


def card_languages(folder: Path) -> tuple[str, ...]:
    """The codes of the languages that a model's card names in its front matter; () if it names none.

    A card that calls its model multilingual, and lists no or some languages, names none.
    """
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            card = _FRONT_MATTER.match(file.read(_CARD))
        named = yaml.safe_load(card[1])["language"] if card else ()
    except (OSError, yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError):
        return ()  # a card decides no number
    written = [str(name) for name in (named if isinstance(named, list) else [named])]
    codes = dict.fromkeys(filter(None, map(language_code, written)))
    return () if {"multilingual", "mul"} & {*map(str.lower, written)} else tuple(codes)
