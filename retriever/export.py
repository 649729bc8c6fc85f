"""python -m retriever.export MODEL --output FOLDER: adapters merged into a full folder, or one tower of two.

What comes out is a sentence-transformers folder that needs nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.artifacts import read_json
from indexer.errors import DamagedIndexError, InputError, UsageError, exit_on_error

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PROGRAM = "python -m retriever.export"
ADAPTER = "adapter_config.json"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="a folder that retriever.train wrote")
    parser.add_argument("--output", type=Path, required=True, help="where the full folder goes")
    parser.add_argument("--tower", choices=["query", "document"], help="this tower of two, alone")
    options = parser.parse_args(argv)
    if not (options.model / "modules.json").is_file():
        raise InputError(
            f"{options.model}: no sentence-transformers model", "Name a folder with modules.json."
        )
    model = open_whole(options.model)
    if options.tower:
        model = one_tower(model, options.tower, options.model)
    save_model(model, options.output, card=options.model / "README.md")
    print(f"{options.output}: SentenceTransformer(path) opens it", file=sys.stderr)


def open_whole(folder: Path) -> SentenceTransformer:
    """A model with its adapters, if it has any, merged into its weights."""
    from retriever.models import load_sentence_transformer, quiet
    from retriever.training.towers import open_base

    if not (folder / ADAPTER).is_file():
        return load_sentence_transformer(folder, str(folder))
    from peft import PeftModel

    name = _base_name(folder)
    base: Any = open_base(name)[0]
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "model"  # the modules around the transformer, and its tokenizer
        shutil.copytree(folder, plain, ignore=shutil.ignore_patterns("adapter_*"))
        with quiet():
            base.model.save_pretrained(plain)
        model = load_sentence_transformer(plain, str(folder))
    try:
        with quiet():
            merged: Any = PeftModel.from_pretrained(base.model, str(folder)).merge_and_unload()
    except (ValueError, RuntimeError, OSError) as error:
        raise InputError(
            f"{folder}: its adapters do not fit {name} ({str(error).splitlines()[0]})",
            "They must be those of this base.",
        ) from None
    transformer: Any = model[0]
    transformer.model.load_state_dict(merged.state_dict())
    return model


def _base_name(folder: Path) -> str:
    try:
        name = read_json(folder / ADAPTER)["base_model_name_or_path"]
    except (DamagedIndexError, KeyError, TypeError):
        name = None
    if not isinstance(name, str):
        raise InputError(f'{folder / ADAPTER}: "base_model_name_or_path" is missing', "Train it again.")
    return name


def one_tower(model: SentenceTransformer, route: str, folder: Path) -> SentenceTransformer:
    """The encoder of queries, or that of passages. Raises `UsageError` if they are one."""
    from sentence_transformers import SentenceTransformer

    from retriever.training.towers import has_two_towers, tower

    if not has_two_towers(model):
        raise UsageError(f"{folder} has one tower", "Leave --tower out.")
    modules: Any = list(tower(model, route).children())
    prompts: Any = model.prompts
    return SentenceTransformer(
        modules=modules, device="cpu", prompts=prompts, similarity_fn_name=model.similarity_fn_name
    )


def save_model(model: SentenceTransformer, output: Path, *, card: Path | None = None, text: str = "") -> None:
    """Write a sentence-transformers folder; it is there whole or not at all.

    card: a README.md to copy; text: one to write. Raises `UsageError` if the folder is there already.
    """
    from retriever.models import quiet

    if output.exists():
        raise UsageError(f"{output} is there already", "Remove it, or choose another --output.")
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(output.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with quiet():
            model.save_pretrained(str(temporary), create_model_card=False)
        if card is not None and card.is_file():
            shutil.copyfile(card, temporary / "README.md")
        elif text:
            (temporary / "README.md").write_text(text, "utf-8")
        temporary.rename(output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    with exit_on_error("export"):
        main(sys.argv[1:])
