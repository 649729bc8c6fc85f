"""A baseline on disk, and a new one from word embeddings.

    model.safetensors    all weights, the embeddings included
    config.json          {"linkseek_baseline": KIND, "max_tokens": ..., "title": ..., "options": {...}}
    tokenizer.json       words and their numbers

Words are the tokens of a base, or the words of a file of embeddings (GloVe's form). A pair is the query, then
the text, without special tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor

from experiments.baselines import KIND
from experiments.baselines.drmm import Drmm
from experiments.baselines.duet import Duet
from experiments.baselines.knrm import ConvKnrm, Knrm
from experiments.baselines.shared import Baseline
from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.indexer.program.paths import check_file
from linkseek.indexer.store.artifacts import read_json, write_json
from linkseek.retriever.models.backends.torch_engine import ModuleChain
from linkseek.retriever.models.engine import Opened, torch_forward
from linkseek.retriever.models.facts import ModelFacts
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.library import from_folder

BASELINES: dict[str, type[Baseline]] = {model.kind: model for model in (Knrm, ConvKnrm, Drmm, Duet)}

_CONFIG, _WEIGHTS, _TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
_UNKNOWN = "[UNK]"
_LARGEST = 16_384


def open_baseline(folder: str, device: str = "auto") -> Opened:
    """One of them on a device (see `indexer.machine.devices`), in float32.

    Raises `InputError` if it is damaged.
    """
    model, facts = load_baseline(Path(folder))
    device = next(iter(cuda_devices(device)), "cpu")
    forward = torch_forward(ModuleChain([model], "scores"), facts, device, "float32")
    return Opened(folder, model_sha256(Path(folder)), facts, forward, Parallel())


def load_baseline(folder: Path) -> tuple[Baseline, ModelFacts]:
    """The model, ready to score, and its facts. Raises `InputError` if the folder is damaged."""

    def read(path: str) -> tuple[Baseline, ModelFacts]:
        config = read_json(folder / _CONFIG)
        weights = load_file(folder / _WEIGHTS)
        kind, options = BASELINES[config[KIND]], config["options"]
        if max(options.values(), default=0) > _LARGEST:
            raise ValueError(f"its options are up to {_LARGEST:,}")
        with torch.device("meta"):  # sizes that are not the weights' could take all memory
            expected = kind(weights["embeddings.weight"].to("meta"), **options).state_dict()
        if {n: t.shape for n, t in expected.items()} != {n: t.shape for n, t in weights.items()}:
            raise ValueError("weights of other sizes than its options")
        model = kind(weights["embeddings.weight"], **options)
        model.load_state_dict(weights)
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER)).to_str()
        return model.eval(), baseline_facts(tokenizer, config["max_tokens"], config.get("title", True))

    return from_folder(read, folder, f"re-ranker {folder}", "Train it again.", fault="cannot be read")


def save_baseline(model: Baseline, facts: ModelFacts, folder: Path) -> None:
    """Write a folder that `load_baseline` reads."""
    folder.mkdir(parents=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    (folder / _TOKENIZER).write_text(facts.tokenizer, "utf-8", newline="\n")
    own = {"max_tokens": facts.max_tokens, "title": facts.title, "options": model.options}
    write_json(folder / _CONFIG, {KIND: model.kind} | own)


def baseline_facts(tokenizer: str, max_tokens: int, title: bool = True) -> ModelFacts:
    """The facts of a baseline for `retriever.models.engine`. title: whether it reads titles."""
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    return ModelFacts(1, max_tokens, pad_token=0, tokenizer=tokenizer, inputs=inputs, title=title)


def new_baseline(kind: str, vectors: Tensor, max_tokens: int) -> Baseline:
    """A model as training starts; vectors: of its words, float32 [V, d]."""
    options = {"text_words": max_tokens} if kind == Duet.kind else {}
    return BASELINES[kind](vectors, **options)


def read_base_embeddings(model: Any) -> tuple[str, Tensor]:
    """The tokenizer and the embeddings of a sentence-transformers model."""
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    vectors = model[0].model.get_input_embeddings().weight.detach().float().clone()  # [V, d]
    return _without_special_tokens(tokenizer), vectors


def read_embeddings(path: Path) -> tuple[str, Tensor]:
    """The tokenizer and the vectors of a text file: WORD NUMBER NUMBER ..., GloVe's form or word2vec's.

    Words are compared in lower case; unknown ones have the vector 0. Raises `InputError` naming a line whose
    vector is not as long as the first.
    """
    words: dict[str, int] = {_UNKNOWN: 0}
    rows: list[Any] = []
    width = 0
    check_file(path)
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                word, *values = line.rstrip().split(" ")
                if number == 1 and len(values) == 1:
                    continue  # word2vec's first line: the number of words and the length of vectors
                try:
                    row = np.array(values, np.float32)
                except ValueError:
                    row = np.empty(0, np.float32)
                width = width or len(row)
                if not len(row) or len(row) != width:
                    raise InputError(
                        f"{path}, line {number:,}: expected a word and {width or 'some'} numbers",
                        "Word embeddings are text: WORD NUMBER NUMBER ...",
                    )
                if words.setdefault(word.lower(), len(words)) > len(rows):
                    rows.append(row)
    except (OSError, UnicodeDecodeError) as error:
        raise_of_machine(error)
        raise InputError(f"{path}: cannot be read ({error})", "Check model.embeddings.") from None
    if not rows:
        raise InputError(f"{path}: the file has no words", "Check model.embeddings.")
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=_UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.stack([np.zeros(width, np.float32), *rows])  # [V, d]
    return _without_special_tokens(tokenizer), torch.from_numpy(vectors)


def _without_special_tokens(tokenizer: Tokenizer) -> str:
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A:0 $B:1", special_tokens=[])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str())
