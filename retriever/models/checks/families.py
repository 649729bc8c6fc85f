"""The types of transformers that are opened (`model_type` of config.json), and how each runs on a CPU.

A type that OpenVINO cannot convert, or converts into something else, is run by torch; one whose numbers
depend on the padding next to a text is run text by text. A test opens a model of every type, as a bi-encoder
and as a cross-encoder, and compares it with sentence-transformers. A model that OpenVINO unexpectedly cannot
convert is run in the first of the other ways that computes the library's numbers.
"""

from __future__ import annotations

from enum import StrEnum

CROSS = " (cross-encoder)"
"""After a type: as a cross-encoder it runs in another way than as a bi-encoder."""


class Way(StrEnum):
    """How a model runs on a CPU."""

    OPENVINO = "OpenVINO"
    TORCH = "torch, in float32"
    ALONE = "torch, one text at a time: padding would change its numbers"


_TYPES = {
    Way.OPENVINO: "albert bert camembert data2vec-text deberta deberta-v2 distilbert electra "
    "ernie eurobert gemma gemma2 gemma3_text gpt2 gpt_neo gpt_neox gte ibert "
    "jina_embeddings_v3 llama megatron-bert mistral mobilebert modernbert modernbert-decoder mpnet mra mt5 "
    "nomic_bert opt phi phi3 qwen2 qwen3 rembert roberta roberta-prelayernorm roformer splinter squeezebert "
    "t5 ultrabert umt5 xlm-roberta xlm-roberta-xl xlnet xmod",
    # Not even tried: after a failed inference of some, OpenVINO ends the process at a later model.
    Way.TORCH: "flaubert longformer longt5 xlm",
    Way.ALONE: "big_bird convbert funnel nystromformer yoso",
}
_OF_CROSS_ENCODERS = {**dict.fromkeys(("mt5", "t5", "umt5"), Way.TORCH), "xlnet": Way.ALONE}
_WAYS = {name: way for way, names in _TYPES.items() for name in names.split()}

ALLOWED = frozenset(_WAYS)
"""All others are refused before a library reads them (`retriever.models.checks.only_data`)."""


def way_of(model_type: str, *, scores: bool) -> Way:
    """How models of a type run; of an unknown one, such as a plug-in's: as most do.

    scores: whether it is a cross-encoder.
    """
    usual = _WAYS.get(model_type, Way.OPENVINO)
    return _OF_CROSS_ENCODERS.get(model_type, usual) if scores else usual


def table() -> str:
    """The types as a table of Markdown."""
    types: dict[Way, list[str]] = {way: [] for way in Way}
    for name, way in _WAYS.items():
        types[way].append(f"`{name}`")
        if name in _OF_CROSS_ENCODERS:
            types[_OF_CROSS_ENCODERS[name]].append(f"`{name}`{CROSS}")
    lines = ["| run by | `model_type` in config.json |", "|---|---|"]
    lines += [f"| {way} | {', '.join(sorted(names))} |" for way, names in types.items()]
    return "\n".join(lines)
