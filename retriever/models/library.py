"""Models of sentence-transformers in torch, and the facts that the engines need of them."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from linkseek.indexer.program.errors import InputError, LinkseekError, raise_of_machine
from linkseek.retriever.models.checks.only_data import check_only_data, read_settings
from linkseek.retriever.models.facts import POOLED, ModelFacts
from linkseek.retriever.models.locations import ModelKind, find_model

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

Opened = TypeVar("Opened")

ONLY_LOCAL: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""Options of the libraries' readers: no code, and no network, of the folder's choice."""

LIBRARIES = threading.RLock()
"""Hold it while torch, transformers, sentence-transformers or peft are imported, read a model or convert one.

None of that is safe in several threads: imports of parts of transformers that meet half-way fail, its readers
replace functions and the default type of torch for the whole process, tracers take the names of each other's
modules, and `quiet` restores what it has found. A model that was converted before needs no such library.
"""

SAVE_AGAIN = (
    "Save it again with sentence-transformers. If it has no padding token, name one: "
    '"pad_token" in tokenizer_config.json.'
)
_MOST_TOKENS = 1 << 17  # of models that name no length

TITLE_SEPARATOR = "title_separator"
"""The key among a model's prompts for the text between a title and the text, such as " [SEP] "; else a space.
"""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' loading bars, tracer warnings and deprecations, and keep them off the network.

    peft, for example, asks the Hub for the base of adapters when it saves them. All threads are silenced, so
    contain `LIBRARIES` where others may do the same.
    """
    from huggingface_hub import constants
    from transformers.utils import logging as transformers_logging

    constants.HF_HUB_OFFLINE = True  # until `find_model` downloads a model
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def from_folder(
    reader: Callable[..., Opened], folder: Path, name: str, hint: str, *, fault: str = "", **options: Any
) -> Opened:
    """Have a library read a model's folder, after checking that it is only data; all are read here.

    reader: such as `AutoTokenizer.from_pretrained`. name, hint, fault: for messages. One is read at a time.
    Raises `InputError` if the folder names code, is damaged, or contains weights that are not finite.
    """
    check_only_data(folder)
    with LIBRARIES, usable(f"{name}: {fault or f'{folder} cannot be loaded'}", hint):
        opened = reader(str(folder), **options)
    _check_finite(opened, name)
    return opened


@contextmanager
def usable(problem: str, hint: str) -> Iterator[None]:
    """Raise `InputError` for any error of a library: settings of a folder can make it raise anything."""
    with quiet():
        try:
            yield
        except LinkseekError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of Rust
                raise
            raise_of_machine(error)
            raise InputError(f"{problem} ({first_line(error)})", hint) from error


def _check_finite(model: Any, name: str) -> None:
    """Raises `InputError` if a weight of a model in torch, or of one in a tuple, is not a finite number."""
    from torch import aminmax, nn, stack

    for part in model if isinstance(model, tuple) else (model,):
        for key, weights in part.named_parameters() if isinstance(part, nn.Module) else ():
            # The extremes are NaN if a number is. A mask of all numbers takes ten times as long.
            if weights.numel() and not stack(aminmax(weights)).isfinite().all():
                raise InputError(
                    f"{name}: the weights {key} are not all finite", "Train or download it again."
                )


def load_library_model(kind: ModelKind, folder: Path, name: str) -> Any:
    """A SentenceTransformer or CrossEncoder, on the CPU, in float32. Raises `InputError`."""
    import sentence_transformers

    model = from_folder(
        getattr(sentence_transformers, kind.library),
        folder,
        f"{kind.word} {name}",
        f"It must be a folder that {kind.library}(path) opens.",
        device="cpu",
        model_kwargs={"use_safetensors": True, "dtype": "float32"},
        **ONLY_LOCAL,
    )
    return model.eval()


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model, or in a folder of its own. Raises `InputError`."""
    from transformers import AutoTokenizer

    folder = Path(name) if Path(name).is_dir() else find_model(name)
    hint = "Save it there with AutoTokenizer(...).save_pretrained(folder)."
    return from_folder(AutoTokenizer.from_pretrained, folder, f"tokenizer {name}", hint, **ONLY_LOCAL)


def forget_lengths(tokenizers: Iterable[Any]) -> None:
    """Reset the truncation and padding that tokenizers of transformers keep from their last call.

    They would save it, so that the files of a model depended on the texts that it read last.
    """
    for tokenizer in tokenizers:
        if backend := getattr(tokenizer, "backend_tokenizer", None):
            backend.no_truncation()
            backend.no_padding()


def model_facts(model: SentenceTransformer, name: str) -> ModelFacts:
    """The facts of a bi-encoder; its dimension is measured, since its settings may name another.

    Raises `InputError` if it encodes nothing, or its tokenizer has no fast version.
    """
    check_reading(model, f"encoder {name}")
    with usable(f"encoder {name}: it cannot encode", SAVE_AGAIN):
        dimension = len(model.encode("a", show_progress_bar=False))
        excludes_prompt = any(getattr(module, "include_prompt", True) is False for module in model)
        inputs = ("input_ids", "attention_mask", *((POOLED,) if excludes_prompt else ()))
        return ModelFacts(dimension=dimension, inputs=inputs, **reading_facts(model, f"encoder {name}"))


def reading_facts(model: Any, name: str) -> dict[str, Any]:
    """How a model of a transformer reads texts, as fields of `ModelFacts`. Raises as `fast_tokenizer`."""
    return {
        "max_tokens": max_tokens(model),
        "pad_token": int(model.tokenizer.pad_token_id or 0),
        "tokenizer": fast_tokenizer(model, name),
        "words": word_vectors(model),
        "truncation_side": model.tokenizer.truncation_side,
        **text_prompts(model),
    }


def check_reading(model: SentenceTransformer | CrossEncoder, name: str) -> None:
    """Raises `InputError` for settings that add to the tokens of a text, or cut them differently."""
    reader: Any = model[0]
    if "message" in getattr(reader, "modality_config", ()):
        raise InputError(
            f"{name}: sentence-transformers puts texts into the chat template of its tokenizer",
            "That is not supported. If it was trained without, remove the template (chat_template.jinja, or "
            'chat_template in tokenizer_config.json), and "message" from sentence_bert_config.json.',
        )
    for key in "query_length", "document_length", "query_expansion":
        if getattr(reader, key, None):
            raise InputError(
                f"{name}: queries or passages have their own length ({key} in sentence_bert_config.json)",
                "That is not supported. If it was trained without, remove it; max_seq_length is for both.",
            )


def max_tokens(model: SentenceTransformer | CrossEncoder) -> int:
    """The number of tokens that a model reads: that of its settings, limited by its positions."""
    tokens = int(min(model.max_seq_length or 512, _MOST_TOKENS))
    transformer: Any = getattr(model[0], "model", None)
    if transformer is None:
        return tokens
    from linkseek.retriever.models.torch_modes import positions_of

    positions = positions_of(transformer, model.tokenizer("a b c")["input_ids"])
    return tokens if positions is None else min(tokens, positions)


def compares_by(folder: Path, name: str, *, is_unit: bool) -> str:
    """How the vectors of a folder's model are compared: "cosine", "dot", or empty if the folder does not say.

    is_unit: whether all have length 1, so that the nearest also has the largest inner product. Raises
    `InputError` for a comparison that no index here makes.
    """
    settings = folder / "config_sentence_transformers.json"
    stated = read_settings(settings).get("similarity_fn_name") if settings.is_file() else None
    if stated in (None, "cosine", "dot"):
        return stated or ""
    if stated == "euclidean" and is_unit:
        return "dot"
    raise InputError(
        f"encoder {name}: its vectors are compared by {stated!r} (similarity_fn_name in {settings})",
        "Vectors are compared by inner product or cosine here. If it was trained for one of them, name that "
        "one there: dot or cosine.",
    )


def last_is_norm(modules: Iterable[Any]) -> bool:
    """Whether vectors leave a chain of modules with length 1."""
    return type([*modules][-1]).__name__ == "Normalize"


def text_prompts(model: SentenceTransformer | CrossEncoder) -> dict[str, Any]:
    """A model's own texts for `retriever.models.biencoder.TextFormat`, from its settings."""
    prompts = model.prompts or {}
    return {
        "passage_prompt": prompts.get("document") or prompts.get("passage") or "",
        "query_prompt": prompts.get("query") or "",
        "title_separator": prompts.get(TITLE_SEPARATOR) or " ",
    }


def fast_tokenizer(model: Any, name: str) -> str:
    """The tokenizer of a model as a tokenizer.json.

    Raises `InputError` if it has no fast version, no words at all, or some that the model has no vectors for.
    """
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise InputError(f"{name}: its tokenizer has no fast version", "Save it with a tokenizer.json.")
    if fast.get_vocab(with_added_tokens=False).keys() <= {*model.tokenizer.all_special_tokens}:
        # transformers makes such a one where the files are missing
        raise InputError(f"{name}: its tokenizer has no vocabulary", "Save it with its tokenizer.json.")
    if vectors := word_vectors(model):
        check_words(fast, vectors, name)
    return str(fast.to_str())


def word_vectors(model: Any) -> int:
    """How many tokens a transformer has vectors for; 0 for a model of another kind."""
    transformer = getattr(model[0], "model", None)
    return len(transformer.get_input_embeddings().weight) if transformer else 0


def check_words(tokenizer: Any, vectors: int, name: str) -> None:
    """Raises `InputError` if a tokenizer has more words than the model has vectors."""
    # an added token without a vector is refused where a text holds it (`retriever.models.facts.padded`)
    words = max(tokenizer.get_vocab(with_added_tokens=False).values(), default=-1) + 1
    if words > vectors:
        raise InputError(
            f"{name}: its tokenizer has {words:,} words, the model has vectors for {vectors:,}",
            "Save both together: save_pretrained(folder).",
        )
