"""Checks that the folder of a model is only data, before a library reads it.

Some keys of its JSON files name what transformers, sentence-transformers and peft import or call, such as the
`type` of a module, `activation_fn` and `auto_map`. Others make them read pickled weights, other folders or
the Hub. Each has a rule here that allows only the values that text models need. The only caller of those
libraries' readers, `retriever.models.library.from_folder`, applies them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.retriever.models.checks.families import ALLOWED
from linkseek.retriever.models.checks.tokenizer_costs import check_tokenizer, tables

_HINT = "Code from a model's folder is never run. docs/reference/security.md lists the files it may have."
_LARGEST = 16 << 20  # bytes of settings
_LARGEST_TOKENIZER = 256 << 20  # the largest known has 33 MB
_LARGEST_WORDS = 64 << 20  # bytes; the largest known have 5 MB, of sentencepiece, and 33 MB, of JSON
_WORDS_SUFFIXES = ".model", ".txt", ".vocab", ".tiktoken"
"""Suffixes of files with the words of tokenizers."""
_WORDS_HINT = "No model has so many words: download it again, or from another source."
MAX_ENTRIES = 10_000
"""Files and folders of a model's folder at any depth."""
_UNCHECKED = {"tokenizer.json", "vocab.json", "added_tokens.json"}
"""Their keys are words, and the tokenizers library, which reads them, imports nothing. The cost of
the first is bounded by `retriever.models.checks.tokenizer_costs`."""
_PICKLED = {"pytorch_model.bin": "model.safetensors", "adapter_model.bin": "adapter_model.safetensors"}
"""A library reads the former where the latter is missing."""


@dataclass(frozen=True)
class _Rule:
    """expected: for the message. allows: a value that is neither null, false, zero nor empty."""

    expected: str
    allows: Callable[[Any], bool]


def _one_of(*values: Any) -> _Rule:
    return _Rule(f"one of {', '.join(map(str, values))}", lambda value: value in values)


def _number(low: float, high: float = float("inf")) -> _Rule:
    def allows(value: Any) -> bool:
        return isinstance(value, int | float) and low <= value <= high

    return _Rule(f"a number from {low:,} to {high:,}", allows)


def _texts(expected: str, pattern: str) -> _Rule:
    """A text, or several in a list or a dictionary."""

    def allows(value: Any) -> bool:
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        return all(isinstance(item, str) and re.fullmatch(pattern, item, re.DOTALL) for item in items)

    return _Rule(expected, allows)


_NOTHING = _Rule("nothing", lambda value: False)
_WORDS = _texts("a word without a dot", r"[\w-]+")
_NAME = _texts("a name", r"[^\0]+")
_ATTENTION = _one_of("eager", "sdpa")
_OPTIONS = _Rule("nothing", lambda value: isinstance(value, dict) and set(value) == {"add_pooling_layer"})
_PROMPTS = _Rule(
    "names with texts",
    lambda value: isinstance(value, dict) and all(isinstance(text, str | None) for text in value.values()),
)
_ACTIVATION = _texts(
    "an activation of torch.nn.modules",
    r"[a-z_0-9]+|torch\.nn\.(modules\.)?(linear\.|activation\.)?"
    r"(Identity|Sigmoid|Tanh|ReLU|GELU|SiLU|ELU|LeakyReLU|Softplus|LogSigmoid|Mish)",
)
_MODULE = _texts(
    "a text module of sentence-transformers",
    r"[\w-]+|pylate\.models\.Dense\.Dense|sentence_transformers\.(models|base\.modules"
    r"|(sentence_transformer|cross_encoder|multi_vector_encoder|sparse_encoder)\.modules|sparse_encoder\.models)"
    r"(\.[a-z_]+)?\.(Transformer|Pooling|Normalize|Dense|Router|Asym|LayerNorm|Dropout|StaticEmbedding"
    r"|WeightedLayerPooling|LogitScore|MultiVectorMask|HierarchicalTokenPooling"
    r"|MLMTransformer|SpladePooling|SparseStaticEmbedding|SparseAutoEncoder)",
)
_FOLDER = _texts("a folder in this one", r"[\w-]+|\.")
_ROUTES = _Rule(
    "modules of sentence-transformers by folder",
    lambda value: isinstance(value, dict) and _MODULE.allows(value) and _FOLDER.allows([*value]),
)
_CLASSES = "SentenceTransformer", "CrossEncoder", "MultiVectorEncoder", "SparseEncoder"
_PYLATE = "ColBERT"
_MODEL = _one_of(*sorted(ALLOWED), *_CLASSES, _PYLATE, "model2vec")


def _by_key(rules: dict[str, _Rule]) -> dict[str, _Rule]:
    return {key: rule for keys, rule in rules.items() for key in keys.split()}


_RULES = _by_key(
    {
        # what is imported or called
        "auto_map init_inputs custom_": _NOTHING,
        "processor_class image_processor_type feature_extractor_type video_processor_type": _NOTHING,
        "kernel_config use_kernels fusion_config per_layer_config": _NOTHING,
        "attn_implementation _attn_implementation experts_implementation _experts_implementation": _ATTENTION,
        "activation_fn activation_function sbert_ce_default_activation_function": _ACTIVATION,
        "type": _MODULE,
        "types": _ROUTES,
        "tokenizer_class": _texts("a tokenizer of transformers", r"\w*Tokenizer(Fast)?|TokenizersBackend"),
        "model_type": _MODEL,
        "architectures method_output_name module_output_name": _WORDS,
        "method": _one_of("forward"),
        "transformer_task": _one_of(
            "feature-extraction", "sequence-classification", "fill-mask", "text-generation"
        ),
        "dtype torch_dtype": _texts("a type of numbers", r"(torch\.)?(float32|float16|bfloat16|auto)"),
        # what is read instead of the folder's own safetensors, or from elsewhere
        "quantization_config compression_config transformers_weights gguf_file": _NOTHING,
        "tokenizer_name_or_path fast_tokenizer_files cache_dir": _NOTHING,
        "backbone backbone_config use_timm_backbone": _NOTHING,
        "model_args tokenizer_args config_args": _OPTIONS,
        "model_kwargs processor_kwargs config_kwargs processing_kwargs": _OPTIONS,
        "weight_map": _texts("names of safetensors files", r"[\w.-]+\.safetensors"),
        # what makes no sense, and would end in a traceback or never
        "max_seq_length model_max_length max_tokens": _number(3),
        "truncate_dim": _number(1),
        "num_labels in_features out_features dimension": _number(1, 16_384),
        "num_hidden_layers n_layer n_layers num_layers encoder_layers": _number(1, 1_000),
        "prompts": _PROMPTS,
        "default_prompt_name base_model_name_or_path": _NAME,
    }
)

_ADAPTERS = _by_key(
    {
        "peft_type": _one_of("LORA"),
        "r": _number(1, 1_024),
        "lora_alpha lora_dropout qalora_group_size": _number(0, 1e6),
        "fan_in_fan_out inference_mode use_rslora use_dora lora_bias ensure_weight_tying": _one_of(True),
        "init_lora_weights": _one_of(True, "gaussian"),
        "megatron_core": _one_of("megatron.core"),  # peft's default, imported only with a megatron_config
        "bias task_type": _WORDS,
        "auto_mapping": _texts("a class of transformers", r"[A-Z]\w+|transformers(\.\w+)*"),
        "base_model_name_or_path peft_version revision": _NAME,
        # a text is a regular expression, which may take for ever
        "target_modules exclude_modules modules_to_save": _texts(
            "names of modules", r"[\w.-]+|(\(\.\*\\\.\)\?)?[\w|()]+(\(?\\\.\.\*\)?\??)?"
        ),
    }
)
"""All keys of adapter_config.json that may be set; the others name files, modules or patterns."""


def check_only_data(folder: Path) -> None:
    """Raises `InputError` if a library that reads the folder might do more than read its numbers."""
    for path in model_files(folder):
        if path.name in _PICKLED and not path.with_name(_PICKLED[path.name]).is_file():
            raise InputError(
                f"{path}: a pickled file, which can run code",
                f"Only safetensors are read: save the model again, with {_PICKLED[path.name]}.",
            )
        if path.name == "tokenizer.json":
            check_tokenizer(path, read_settings(path, _LARGEST_TOKENIZER))
        elif path.suffix in _WORDS_SUFFIXES and path.stat().st_size > _LARGEST_WORDS:
            raise InputError(
                f"{path}: {path.stat().st_size:,} bytes, expected at most {_LARGEST_WORDS:,}", _WORDS_HINT
            )
        if path.suffix == ".json" and path.name not in _UNCHECKED:
            settings = read_settings(path)
            rules = {"path": _FOLDER} if path.name == "modules.json" else {}
            if path.name == "adapter_config.json":
                rules = dict.fromkeys(settings, _NOTHING) | _ADAPTERS
            for key, value in (entry for table in tables(settings) for entry in table.items()):
                rule = rules.get(key) or _RULES.get("custom_" if key.startswith("custom_") else key)
                if rule and value and not rule.allows(value):
                    held = f'"{key[:80]}" is {str(value)[:80]}'
                    raise InputError(f"{path}: {held}; expected {rule.expected}", _HINT)


def read_settings(path: Path, largest: int = _LARGEST) -> dict[str, Any]:
    """One JSON file of a model's folder; of a list, its items by number. Raises `InputError`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise InputError(f"{path}: expected a file of at most {largest:,} bytes", "Save the model again.")
        settings = json.loads(path.read_text("utf-8"))  # as the libraries do
        json.dumps(settings, ensure_ascii=False).encode()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "Check the path, or save the model again.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise_of_machine(error)
        raise InputError(f"{path}: not JSON ({error})", "Save the model again.") from None
    if isinstance(settings, list):
        return {str(number): item for number, item in enumerate(settings)}
    if not isinstance(settings, dict):
        raise InputError(f"{path}: expected names with settings", "Save the model again.")
    return settings


def model_files(folder: Path) -> Iterator[Path]:
    """All files at any depth; links to nothing are skipped.

    Raises `InputError` for pipes and devices, for links to other folders, and for a folder with more files
    than a model has.
    """
    entries = 0
    for place, folders, files in os.walk(folder):
        entries += len(folders) + len(files)
        if entries > MAX_ENTRIES:
            raise InputError(
                f"{folder}: more than {MAX_ENTRIES:,} files, too many for a model", "Check the path."
            )
        for entry in (*folders, *files):
            path = Path(place, entry)
            try:
                mode = path.stat().st_mode
            except OSError as error:  # a link to nothing
                raise_of_machine(error)
                continue
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISDIR(mode) or path.is_symlink():
                raise InputError(f"{path}: neither a file nor a folder of this model", "Remove it.")
