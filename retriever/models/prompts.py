"""The prompts that encoders expect before queries and passages.

A model's own settings come first (`config_sentence_transformers.json`), then those known for its family, by
its name. Most families name their prompts on their cards alone, and without them their vectors are worse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import MAX_QUESTION_CHARACTERS

_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "


class Prompts(NamedTuple):
    """The texts before a query and before a passage, and where they are from, in words for people."""

    query: str
    passage: str
    note: str = ""


_FAMILIES = [
    # (name of the family, pattern of the names of its models, prompts of queries and passages)
    ("E5, with instructions", r"e5-.*instruct|e5-mistral", _INSTRUCT, ""),
    ("E5", r"(?:^|-)e5-(?:small|base|large)", "query: ", "passage: "),
    ("BGE, Chinese", r"^bge-.*-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    ("BGE", r"^bge-(?:small|base|large)-en", _REPRESENT, ""),
    ("GTE, with instructions", r"^gte-qwen", _INSTRUCT, ""),
    ("Nomic", r"^nomic-embed-text", "search_query: ", "search_document: "),
    ("Arctic 2", r"^snowflake-arctic-embed-.*v2", "query: ", ""),
    ("Arctic", r"^snowflake-arctic-embed", _REPRESENT, ""),
    ("mxbai", r"^mxbai-embed", _REPRESENT, ""),
]
_WITHOUT = re.compile(r"^bge-m3|^gte-")
"""Models that look like others but read texts as they are."""
_SUSPECT = re.compile(
    r"instruct|\be5\b|bge|nomic|arctic|mxbai|instructor|embeddinggemma|qwen3-embedding|stella"
)


def check_prompts(*prompts: str) -> None:
    """Raises `InputError` for a prompt that no model could need, from a stranger's model or index."""
    longest = max(map(len, prompts))
    if longest > MAX_QUESTION_CHARACTERS:
        hint = f"Use one of at most {MAX_QUESTION_CHARACTERS:,}: --query-prompt, --passage-prompt."
        raise InputError(f"a prompt or title separator of {longest:,} characters", hint)


def prompts_for(
    name: str, own_query: str, own_passage: str, query: str | None = None, passage: str | None = None
) -> Prompts:
    """The prompts of an encoder by its name or path.

    own_query, own_passage: the prompts in its settings. query, passage: the caller's prompts instead.
    """
    if query is not None or passage is not None:
        return Prompts(own_query if query is None else query, own_passage if passage is None else passage)
    if own_query or own_passage:
        return Prompts(own_query, own_passage)
    model = name.rstrip("/").rpartition("/")[2].lower()
    for family, pattern, query_text, passage_text in _FAMILIES:
        if re.search(pattern, model):
            note = f"the prompts of {family}: {query_text!r} and {passage_text!r}"
            return Prompts(query_text, passage_text, f"{note} (--query-prompt, --passage-prompt name others)")
    if _SUSPECT.search(model) and not _WITHOUT.search(model):
        return Prompts(
            "",
            "",
            "no prompts, though its name suggests some: see its card, --query-prompt, --passage-prompt",
        )
    return Prompts("", "")


def text_form(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The title and the prompts that an encoder of an index read texts with, as options of `open_encoder`."""
    return {key: recorded[key] for key in ("title", "query_prompt", "passage_prompt") if key in recorded}


def recorded_prompt(recorded: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, str]:
    """`prompt=` for `BiEncoder.encode_queries`, if an index names another for queries than the encoder's.

    recorded, own: the identity of the encoder in the index, and as it was opened.
    """
    prompt = recorded.get("query_prompt")
    if prompt in (None, own.get("query_prompt")):
        return {}
    check_prompts(prompt)
    return {"prompt": prompt}
