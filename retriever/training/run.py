"""One training run from settings to a finished folder."""

from __future__ import annotations

import atexit
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import set_seed
from transformers.integrations import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations

from indexer.base.errors import InputError, UsageError
from indexer.base.progress import progress
from indexer.base.settings import Settings, nearest, settings_text
from indexer.store.artifacts import combined_sha256, file_sha256
from retriever.models.bases import bind_adapters
from retriever.models.biencoder import TextFormat
from retriever.models.folders import weights_sha256
from retriever.models.library import TITLE_SEPARATOR, quiet, text_prompts
from retriever.models.locations import ADAPTER, find_base
from retriever.models.towers import has_two_towers, is_normalized
from retriever.training.card import model_card
from retriever.training.config import TrainConfig
from retriever.training.data import Batches, PairRows, store_pairs
from retriever.training.dev import MEASURE, AverageRank, read_dev_pairs
from retriever.training.log import Log, read_log
from retriever.training.loss import InBatchLoss
from retriever.training.texts import Collator, PairTexts
from retriever.training.towers import open_model
from retriever.training.trainer import PairTrainer, library_arguments

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_WHOLE = 1 << 30  # a mini-batch that holds any batch


def train(config: TrainConfig) -> None:
    """Train, or go on training, and put the model into `output.folder`; that folder is there whole or not.

    Does nothing if it is there, from the same settings. Raises `UsageError` if it is there from others.
    """
    folder = config.output.folder
    if is_finished(folder, config):
        return
    work = folder.with_name(folder.name + ".training")
    with quiet_libraries():
        trainer, facts, base_sha256 = make_trainer(config, work)
        step = trainer.train_to_best()
        if trainer.args.should_save:
            facts |= _results(step, trainer.log_path)
            _publish(config, trainer.model, base_sha256, folder, work, facts, trainer.log_path)
            shutil.rmtree(work)
            print(f"{folder}: trained for {trainer.state.global_step:,} steps", file=sys.stderr)
        if trainer.args.world_size > 1:
            atexit.register(leave_group)


def leave_group() -> None:
    """Part from the other processes."""
    # Threads of the group that outlive the interpreter end a process with an error now and then.
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


SETTINGS = "training.toml"
"""Beside a finished model: the settings that it was made with, all of them."""


def is_finished(folder: Path, settings: Settings) -> bool:
    """Whether a model with these settings is in the folder; says so on stderr.

    Raises `UsageError` if there is something else.
    """
    if not folder.exists():
        return False
    made_with = folder / SETTINGS
    if not made_with.is_file() or made_with.read_text("utf-8") != settings_text(settings):
        raise UsageError(
            f"{folder} is there already, and not from these settings",
            "Remove it, or choose another output.folder (--set output.folder=DIR).",
        )
    print(f"{folder} is finished; remove it to train it again", file=sys.stderr)
    return True


def make_trainer(config: TrainConfig, work: Path) -> tuple[PairTrainer, dict[str, Any], str]:
    """The trainer, ready to start, what the card says of its data, and the hash of the base's weights.

    work: where its files go.
    """
    check_trackers(config.output.report_to)
    has_dev = bool(config.dev.pairs)
    args = library_arguments(
        SentenceTransformerTrainingArguments,
        work,
        config.training,
        config.output,
        has_dev=has_dev,
        metric_for_best_model=MEASURE if has_dev else None,
        greater_is_better=False if has_dev else None,
        router_mapping={"query": "query", "passage": "document"},
    )
    pairs_hash = combined_sha256([file_sha256(path) for path in _files(config.data.pairs)])
    work.mkdir(parents=True, exist_ok=True)
    stored = work / f"pairs-{pairs_hash[:16]}.arrow"
    with args.main_process_first(desc="reading pairs"):
        if not stored.is_file():
            with progress("reading pairs", unit="pairs") as advance:
                store_pairs(config.data.pairs, config.stage.kind, stored, lambda: advance(1))
    rows = PairRows(stored)
    _check_negatives(config, rows)
    sources = rows.sources(config.data.shots, config.data.seed)
    batches = Batches(
        sources, config.training.batch, config.training.seed,
        process=args.process_index, processes=args.world_size,
    )  # fmt: skip
    if len(batches) == 0:
        raise InputError("fewer pairs than processes", "Use fewer processes, or more pairs.")
    set_seed(config.training.seed)
    texts_tokens = max(config.texts.query_tokens, config.texts.passage_tokens)
    with progress("opening the base"):
        model = open_model(config.model, texts_tokens)
    if config.texts.separator is not None:
        model.prompts = {**(model.prompts or {}), TITLE_SEPARATOR: config.texts.separator}
    texts = _texts(config, model, config.texts.title)
    mini_batch = config.training.mini_batch
    if args.world_size > 1 and has_two_towers(model) and not mini_batch:
        mini_batch = _WHOLE  # DDP follows one forward pass at a time, and there is one for each tower
    scale = config.loss.scale or (20.0 if is_normalized(model) else 1.0)
    base_hash = weights_sha256(find_base(config.model.base))
    collator: Any = Collator(model, texts)
    trainer = PairTrainer(
        model=model,
        args=args,
        loss=InBatchLoss(model, scale, config.loss.mask_duplicates, mini_batch),
        data_collator=collator,
        evaluator=_evaluator(config, model),
    )
    trainer.query_only = config.model.train == "query"
    log = Log(work / "log.jsonl", "pairs", min(config.training.batch, batches.rows))
    trainer.prepare(rows, batches, _fingerprint(config, pairs_hash, base_hash, args.world_size), log)
    set_seed(config.training.seed)
    names = {name or "labelled": f"{len(found):,}" for name, found in sources.items()}
    facts = {
        "pairs": ", ".join(f"{count} {name}" for name, count in names.items()),
        "SHA-256 of the pairs": f"`{pairs_hash}`",
        "SHA-256 of the base's weights": f"`{base_hash}`",
        "scale of scores": scale,
        "processes": args.world_size,
        "precision": "bfloat16" if args.bf16 else "float32",
        "licence": config.output.licence,
    }
    return trainer, facts, base_hash


def check_trackers(names: list[str]) -> None:
    """Raises `UsageError` for a tracker that is unknown or not installed."""
    known, usable = set(INTEGRATION_TO_CALLBACK), get_available_reporting_integrations()
    for name in names:
        if name not in known:
            raise UsageError(f'output.report_to: no tracker "{name}"', nearest(name, known))
        if name not in usable:
            raise UsageError(f'output.report_to: "{name}" is not installed', "Install its package.")


def _texts(config: TrainConfig, model: SentenceTransformer, title: bool) -> PairTexts:
    return PairTexts(
        TextFormat(title, **text_prompts(model)),
        config.texts.query_tokens,
        config.texts.passage_tokens,
        config.data.negatives,
        config.data.hard_negatives,
        config.training.seed,
    )


def _evaluator(config: TrainConfig, model: SentenceTransformer) -> AverageRank | None:
    if not config.dev.pairs:
        return None
    pairs = read_dev_pairs(_files(config.dev.pairs), config.dev.most)
    return AverageRank(pairs, _texts(config, model, config.dev.title), config.dev)


def _files(paths: list[Path]) -> list[Path]:
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file", "Check the paths of data.pairs and dev.pairs.")
    return paths


def _check_negatives(config: TrainConfig, rows: PairRows) -> None:
    for name, wanted in (
        ("negatives", config.data.negatives), ("hard_negatives", config.data.hard_negatives)
    ):  # fmt: skip
        counts = rows.count(name)
        if wanted and set(counts) <= {0}:
            raise InputError(
                f"data.{name} is {wanted}, and no pair has any",
                f"Set data.{name} = 0, or give the pairs some: python -m "
                + ("retriever.mine --negatives random" if name == "negatives" else "retriever.negatives"),
            )
        lacking = sum(count for size, count in counts.items() if size < wanted)
        if lacking:
            print(f"{lacking:,} of {len(rows):,} pairs have fewer than {wanted} {name}", file=sys.stderr)


def _fingerprint(config: TrainConfig, pairs_hash: str, base_hash: str, processes: int) -> dict[str, Any]:
    values: dict[str, Any] = config.model_dump(mode="json", exclude={"output"})
    values["data"]["pairs"], values["model"]["base"] = pairs_hash, base_hash
    values["dev"]["pairs"] = [file_sha256(path) for path in config.dev.pairs]
    values["output"] = {"checkpoint_steps": config.output.checkpoint_steps}
    return values | {"processes": processes}


def _results(step: int, log: Path) -> dict[str, Any]:
    ranks = {line["step"]: line[MEASURE] for line in read_log(log) if MEASURE in line}
    return {"step": f"{step:,}"} | (
        {"average rank of the dev pairs": f"{ranks[step]:.2f}"} if step in ranks else {}
    )


def _publish(
    config: TrainConfig,
    model: SentenceTransformer,
    base_sha256: str,
    folder: Path,
    work: Path,
    facts: dict[str, Any],
    log: Path,
) -> None:
    finished = work / "model"
    shutil.rmtree(finished, ignore_errors=True)
    with quiet():
        model.save_pretrained(str(finished), create_model_card=False)
    if (finished / ADAPTER).is_file():
        bind_adapters(finished, base_sha256)
    (finished / "README.md").write_text(model_card(config, facts), "utf-8")
    (finished / SETTINGS).write_text(settings_text(config), "utf-8")
    shutil.copyfile(log, finished / "log.jsonl")
    finished.rename(folder)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Their notes on columns, devices and saved files are no news to our users."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for name in ("sentence_transformers", "accelerate", "peft"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
