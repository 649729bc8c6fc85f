"""BERT's tokenizer by words: each different word is tokenised once, and texts are put together from them.

Most of the time of a static encoder goes into tokenising, and a passage's words are nearly all known. Texts
are cut at ASCII white space and around ASCII punctuation, where BERT's own pre-tokenizer always cuts; each
piece, with any other characters, is tokenised by the tokenizer itself, so the ids are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from linkseek.retriever.models.checks.tokenizer_costs import tokenized

_PUNCTUATION = r"([!-/:-@\[-`{-~])"
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # BERT removes these, which joins words
_MOST_WORDS = 1 << 20  # that are kept


class WordTokenizer:
    """The tokenizer of texts; picklable without the words that it has seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """tokenizer: one that `fits`."""
        self._tokenizer = tokenizer
        limit = tokenizer.truncation
        self._max_tokens = limit["max_length"] if limit else None
        added = [re.escape(token.content) for token in tokenizer.get_added_tokens_decoder().values()]
        self._whole = "|".join([f"[{_CONTROL}]", *added])
        """Texts that match are not taken apart: an added token is looked for before anything else."""
        self._ids: dict[str, NDArray[np.int32]] = {}

    @staticmethod
    def fits(tokenizer: Tokenizer) -> bool:
        """Whether a tokenizer cuts as BERT's does, adds no special tokens, and has none that we would cut.

        Those are added tokens of several words that are looked for in normalised texts, so in any case.
        """
        settings = json.loads(tokenizer.to_str())
        types = [(settings[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
        is_bert = types == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
        is_cut_right = (tokenizer.truncation or {}).get("direction") != "left"
        is_cut = any(
            token.normalized and re.search(rf"\s|{_PUNCTUATION}", token.content)
            for token in tokenizer.get_added_tokens_decoder().values()
        )
        return is_bert and is_cut_right and not is_cut and not tokenizer.encode("").ids

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ids": {}}

    def __call__(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The token ids of each text."""
        import pyarrow as pa  # here, because transformers do not need it
        import pyarrow.compute as pc

        if not texts:
            return []
        array = pa.array(texts, pa.large_string())
        cut = pc.ascii_split_whitespace(pc.replace_substring_regex(array, _PUNCTUATION, r" \1 "))
        words = pc.list_flatten(cut).dictionary_encode()
        pieces = self._pieces(words.dictionary.to_pylist())
        lengths = np.array([len(piece) for piece in pieces], np.int64)  # [W] of the different words
        flat = np.concatenate([*pieces, np.empty(0, np.int32)])
        order = words.indices.to_numpy()  # [N] words of all texts
        counts = lengths[order]
        ends = np.append(0, np.cumsum(counts))  # [N + 1]
        shifts = (np.cumsum(lengths) - lengths)[order] - ends[:-1]
        ids = flat[np.arange(ends[-1]) + np.repeat(shifts, counts)]
        stops = ends[np.cumsum(pc.list_value_length(cut).to_numpy())]  # [n]
        rows = [row[: self._max_tokens] for row in np.split(ids, stops[:-1])]
        whole = np.flatnonzero(pc.match_substring_regex(array, self._whole).to_numpy(zero_copy_only=False))
        for number in whole.tolist():
            rows[number] = np.array(tokenized(self._tokenizer, [texts[number]])[0].ids, np.int32)
        return rows

    def _pieces(self, words: Sequence[str]) -> list[NDArray[np.int32]]:
        if len(self._ids) > _MOST_WORDS:
            self._ids = {}  # other threads may be reading the old one
        ids = self._ids
        new = [word for word in words if word not in ids]
        for word, encoding in zip(new, tokenized(self._tokenizer, new), strict=True):
            ids[word] = np.array(encoding.ids, np.int32)
        return [ids[word] for word in words]
