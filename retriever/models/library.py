"""Models of sentence-transformers in torch, and the facts that the engines need of them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.base.errors import InputError
from retriever.models.facts import ModelFacts
from retriever.models.locations import Kind

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

TITLE_SEPARATOR = "title_separator"
"""Among a model's prompts: the text between a title and what follows it, such as " [SEP] "; else a space."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' loading bars, tracer warnings and deprecations."""
    from transformers.utils import logging as transformers_logging

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


def first_line(error: Exception) -> str:
    """The first line of an error's text; empty if it has none."""
    return str(error).splitlines()[0] if str(error) else ""


def load_library_model(kind: Kind, folder: Path, name: str) -> Any:
    """A SentenceTransformer or CrossEncoder, on the CPU, in float32. Raises `InputError`."""
    with quiet():
        import sentence_transformers

        try:
            model = getattr(sentence_transformers, kind.library)(
                str(folder),
                device="cpu",
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
            )
        except Exception as error:  # a broken folder makes transformers raise anything
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise InputError(
                f"{kind.word} {name}: {folder} cannot be loaded ({reason})",
                f"It must be a folder that {kind.library}(path) opens.",
            ) from error
    return model.eval()


def model_facts(model: SentenceTransformer, name: str) -> ModelFacts:
    """The facts of a bi-encoder. Raises `InputError` if its tokenizer has no fast version."""
    return ModelFacts(
        dimension=int(model.get_embedding_dimension() or 0),
        max_tokens=int(model.max_seq_length or 512),
        pad_token=int(model.tokenizer.pad_token_id or 0),
        tokenizer=fast_tokenizer(model, f"encoder {name}"),
        **text_prompts(model),
    )


def text_prompts(model: SentenceTransformer | CrossEncoder) -> dict[str, Any]:
    """A model's own texts for `retriever.models.biencoder.TextFormat`, from its settings."""
    prompts = model.prompts or {}
    return {
        "passage_prompt": prompts.get("document") or prompts.get("passage") or "",
        "query_prompt": prompts.get("query") or "",
        "title_separator": prompts.get(TITLE_SEPARATOR) or " ",
    }


def fast_tokenizer(model: Any, name: str) -> str:
    """The tokenizer of a model as a tokenizer.json. Raises `InputError` if it has no fast version."""
    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise InputError(f"{name}: its tokenizer has no fast version", "Save it with a tokenizer.json.")
    return str(fast.to_str())
