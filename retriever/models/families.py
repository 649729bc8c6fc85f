"""The types of transformers that are opened (`model_type` of config.json), and how each runs on a CPU.

A type that OpenVINO cannot convert, or converts into something else, is run by torch; one whose numbers
depend on the padding next to a text is run text by text. A test opens a model of every type, as a bi-encoder
and as a cross-encoder, and compares it with sentence-transformers.
"""

from __future__ import annotations

CONVERTED = frozenset(
    "albert bert camembert data2vec-text deberta deberta-v2 distilbert electra embedding_gemma2_text ernie "
    "eurobert gemma gemma2 gemma3_text gpt2 gpt_neo gpt_neox gte ibert jina_embeddings_v3 llama "
    "megatron-bert mistral mobilebert modernbert modernbert-decoder mpnet mra mt5 nomic_bert nystromformer "
    "opt phi phi3 qwen2 qwen3 rembert roberta roberta-prelayernorm roformer splinter squeezebert t5 "
    "ultrabert umt5 xlm-roberta xlm-roberta-xl xlnet xmod".split()
)
IN_TORCH = frozenset("flaubert funnel longformer longt5 xlm".split())
"""Not even tried: after a failed inference of some of them, OpenVINO ends the process at a later model."""
ONE_BY_ONE = frozenset("big_bird convbert yoso".split())

ALLOWED = CONVERTED | IN_TORCH | ONE_BY_ONE
"""All others are refused before a library reads them (`retriever.models.only_data`)."""


def table() -> str:
    """The types as a table of Markdown."""
    rows = {
        "OpenVINO": CONVERTED,
        "torch, in float32": IN_TORCH,
        "torch, one text at a time, since padding changes their numbers": ONE_BY_ONE,
    }
    lines = ["| run by | `model_type` |", "|---|---|"]
    lines += [f"| {way} | {', '.join(sorted(types))} |" for way, types in rows.items()]
    return "\n".join(lines)
