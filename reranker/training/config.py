"""Settings of the fine-tuning of a re-ranker, and of the pre-training of a cross-encoder.

In fine-tuning a step's batch is made of groups: a query, its relevant passage and others that a first stage
ranks high. Pre-training is a chain of stages, each on its own contrasts and from the model of the stage
before (PHP, section 3.2.2, has three stages). Defaults suit a base of BERT's size; the settings of the papers
are in `configs/{prop,harp,php}-{reranker,pretrain}.toml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from linkseek.indexer.program.paths import name_problem
from linkseek.indexer.program.settings import Seed, Settings
from linkseek.reranker.kinds import DEFAULT_KIND, kind_named
from linkseek.reranker.pair_texts import UrlPlace
from linkseek.retriever.training.config import (
    Count,
    OutputSettings,
    Positive,
    TeacherSettings,
    TrainingConfig,
    TrainingSettings,
    TransformerSettings,
)

LossKind = Literal["lce", "pointwise", "hinge"]
TaughtLossKind = Literal["kl", "margin"]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]

WARMUP = "head"
"""The name of the steps before the first stage of pre-training, in which a new head learns alone."""


class CrossEncoderSettings(TransformerSettings):
    """The model, and which of its weights are trained."""

    base: str = "google-bert/bert-base-uncased"
    """the model to start from: a folder, or a name of the Hugging Face Hub; a bi-encoder, a bare transformer
    or a cross-encoder"""
    train: Literal["all", "lora"] = "all"
    """all weights, or low-rank adapters and the head; if the base is such adapters, they are trained further
    """


def _is_known(kind: str) -> str:
    kind_named(kind)
    return kind


class RerankerSettings(CrossEncoderSettings):
    """The model, and which of its weights are trained."""

    kind: Annotated[str, AfterValidator(_is_known)] = DEFAULT_KIND
    """cross-encoder: a transformer that reads query and text together; or a kind that a plug-in adds"""
    embeddings: Path | None = None
    """for a plug-in's kind: a text file of word embeddings, WORD NUMBER NUMBER ..., instead of the base's"""


class GroupSettings(Settings):
    """Labelled pairs, or a run with judgements."""

    pairs: list[Path] = Field(default_factory=list)
    """labelled pairs, as `linkseek negatives` writes them, or DPR's"""
    index: Path | None = None
    """instead of pairs: the index of a run"""
    run: Path | None = None
    """a TREC run of any first stage; its passages that are not relevant are the negatives"""
    queries: Path | None = None
    """the run's queries: JSON lines, TSV or DPR's CSV"""
    qrels: Path | None = None
    """judgements of the run's passages"""
    depth: Positive = 100
    """the number of results to read for a query"""
    negatives: Positive = 7
    """maximum number of negatives in a group, drawn anew each epoch"""
    shots: Positive | None = None
    """use only N queries; a larger N keeps the queries of a smaller one"""
    seed: Seed = 1
    """seed for drawing these queries"""


class PairTextSettings(Settings):
    """How a query and a text become tokens."""

    title: bool = True
    """whether texts are read with their title"""
    tokens: Positive = 512
    """maximum number of tokens of query and passage together; the longer of the two is truncated first"""
    separator: str | None = None
    """the text between title and text, kept with the model; by default a space"""


class CandidateTextSettings(PairTextSettings):
    """How a query and a text become tokens."""

    url: UrlPlace = False
    """whether documents are read with their address; a run's index knows it, pairs do not. true: URL, title,
    body, as in PHP; "after title": title, URL, body, as in HARP"""


class RerankLossSettings(Settings):
    """How a group is scored."""

    kind: LossKind = "lce"
    """lce: the relevant passage against the others of its group; pointwise: each passage alone, relevant or
    not; hinge: the relevant passage higher than each other by 1
    """


class GroupTeacherSettings(TeacherSettings):
    """Distillation from a bi-encoder's scores of a group."""

    loss: TaughtLossKind = "kl"
    """kl: the teacher's distribution over the group of a query; margin: the lead of the relevant passage"""


class GroupTrainingSettings(TrainingSettings):
    """Batches, steps and the optimiser (AdamW)."""

    batch: Positive = 32
    """queries in a step, each with its group, over all processes"""
    mini_batch: Count = 0
    """pairs in memory at a time, with exact gradients; 0: all. A value below the size of a group costs a
    second pass
    """
    epochs: Positive = 2
    """passes over the queries"""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """the maximum learning rate"""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """the maximum norm of the gradient; 0: no limit"""


class RerankDevSettings(Settings):
    """The pairs by which the best checkpoint is chosen."""

    pairs: list[Path] = Field(default_factory=list)
    """labelled pairs by which the best checkpoint is chosen; without them, the last one is kept"""
    negatives: Positive = 30
    """maximum number of negatives to rank with the relevant passage"""
    most: Positive = 1_000
    """use only the first N queries of the files"""


class FinetuneConfig(TrainingConfig):
    """Fine-tune a re-ranker on labelled pairs or a judged run.

    CONFIG is a TOML file with the tables below; configs/*reranker.toml are examples. Started again after an
    interruption, the same command resumes from the last checkpoint. On several GPUs:
    accelerate launch -m linkseek finetune CONFIG
    """

    model: RerankerSettings
    data: GroupSettings
    texts: CandidateTextSettings
    loss: RerankLossSettings
    teacher: GroupTeacherSettings
    training: GroupTrainingSettings
    dev: RerankDevSettings
    output: OutputSettings

    @model_validator(mode="after")
    def _check(self) -> Self:
        data = self.data
        from_run = [data.index, data.run, data.queries, data.qrels]
        if bool(data.pairs) == any(from_run):
            raise ValueError("data.pairs, or data.index, run, queries and qrels: one of the two")
        if any(from_run) and not all(from_run):
            raise ValueError("data.index, run, queries and qrels belong together")
        if self.texts.url and not self.data.run:
            raise ValueError("texts.url needs documents with addresses: data.run and data.index")
        if self.model.kind == DEFAULT_KIND and self.model.embeddings:
            raise ValueError("model.embeddings are for kinds of plug-ins; a cross-encoder has its base's")
        if self.model.kind != DEFAULT_KIND and self.model.train == "lora":
            raise ValueError('model.train = "lora" is for cross-encoders')
        dropout = (self.model.hidden_dropout, self.model.attention_dropout)
        if self.model.kind != DEFAULT_KIND and dropout != (None, None):
            raise ValueError("model.hidden_dropout and attention_dropout are for cross-encoders")
        return self


class MaskSettings(Settings):
    """The prediction of masked tokens, in addition to the ranking."""

    weight: Annotated[float, Field(ge=0)] = 1.0
    """weight of this loss (the mean over a step's masked tokens) in the sum with the ranking loss; 0: off"""
    passes: Literal["two", "one"] = "two"
    """two: pairs are scored unmasked and read again masked, as in the papers; one: masked pairs are scored,
    with the same mask of the query in the whole group
    """
    share: Share = 0.15
    """share of the tokens to predict: 80 % of them are masked, 10 % replaced and 10 % kept"""
    anchors: Share = 0.5
    """share of the tokens in an anchor of the query to predict (PHP, section 3.2.3)"""
    warmup_steps: Count = 500
    """steps in which only a new head learns, above the unchanged encoder; not needed if the base has a head
    """
    warmup_learning_rate: Rate = 1e-3
    """the learning rate of these steps"""


def _can_name_a_folder(name: str) -> str:
    if problem := name_problem(name):
        raise ValueError(f"the name {problem}")
    return name


class RerankerStageSettings(Settings):
    """A stage of training; stages are trained one after another, each with the model of the one before."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$"), AfterValidator(_can_name_a_folder)]
    """name of the stage, in the log and in messages"""
    contrasts: Annotated[list[Path], Field(min_length=1)]
    """files of `linkseek mine-contrasts`; files without contrasts, and stages without files, are skipped"""
    weights: list[Rate] = Field(default_factory=list)
    """weights of these files in an epoch, whose length the scarcest file limits; by default all contrasts are
    used
    """
    loss: LossKind | None = None
    """by default the loss of the objective's paper: hinge for PROP and HARP, else lce"""
    negatives: Positive | None = None
    """maximum number of worse pairs in a contrast, drawn anew each epoch; by default all"""
    batch: Positive | None = None
    """instead of [training] batch"""
    epochs: Positive | None = None
    """instead of [training] epochs"""
    steps: Positive | None = None
    """instead of [training] steps"""
    learning_rate: Rate | None = None
    """instead of [training] learning_rate"""


class ContrastTrainingSettings(GroupTrainingSettings):
    """Batches, steps and the optimiser (AdamW), for all stages."""

    batch: Positive = 32
    """contrasts in a step, over all processes"""
    epochs: Positive = 1
    """passes over the contrasts of each stage"""


class PretrainConfig(TrainingConfig):
    """Pre-train a cross-encoder on contrasts, stage by stage.

    CONFIG is a TOML file with the tables below; configs/{prop,harp,php}-pretrain.toml are examples. Started
    again after an interruption, the same command resumes from the last checkpoint. On several GPUs:
    accelerate launch -m linkseek pretrain CONFIG
    """

    model: CrossEncoderSettings
    texts: PairTextSettings
    mlm: MaskSettings
    training: ContrastTrainingSettings
    stages: Annotated[list[RerankerStageSettings], Field(min_length=1)]
    output: OutputSettings

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [stage.name for stage in self.stages]
        for stage in self.stages:
            if stage.weights and len(stage.weights) != len(stage.contrasts):
                raise ValueError(f"stage {stage.name}: give one weight for each file of contrasts")
            if names.count(stage.name) > 1 or stage.name == WARMUP:
                raise ValueError(f"stage {stage.name}: the name is used twice")
        return self

    def training_of(self, stage: RerankerStageSettings) -> ContrastTrainingSettings:
        """[training] with the stage's own settings."""
        own = {name: getattr(stage, name) for name in ("batch", "epochs", "steps", "learning_rate")}
        return self.training.model_copy(update={k: value for k, value in own.items() if value is not None})
