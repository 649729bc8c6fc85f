"""Settings of the training of a bi-encoder, with its two stages, and of a masked language model.

    pretrain   HLP section 4.3 and appendix A: mined pairs, one shared encoder, no titles,
               5 epochs of global batches of 400, queries of 150 and passages of 256 tokens,
               one random negative a pair
    finetune   the same paper's fine-tuning: labelled pairs, two towers, titles, 40 epochs of
               batches of 256, 256 tokens both, one hard negative a pair

The stage gives the defaults and decides which pairs are accepted: pre-training needs pairs with an
`objective`, fine-tuning pairs without one. The two are easily mixed up, and a model that is fine-tuned
with the settings of pre-training loses accuracy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.settings import Seed, Settings

Kind = Literal["pretrain", "finetune"]
Masking = Literal["documents", "passages", "off"]
Scores = Literal["", "kl", "margin"]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Temperature = Annotated[float, Field(gt=0)]


class TrainingConfig(Settings):
    """All settings of a training."""

    hint = "See docs/reference/training.md for all settings."


class StageSettings(Settings):
    """The kind of training."""

    kind: Kind
    """pretrain: on mined pairs; finetune: on labelled pairs"""


class TransformerSettings(Settings):
    """The base of a training, its adapters and its dropout."""

    base: str = "google-bert/bert-base-uncased"
    """the model to start from: a folder, or a name of the Hugging Face Hub"""
    lora_rank: Positive = 16
    """rank of the adapters that `train` may ask for"""
    lora_alpha: Positive = 32
    """the adapters' change is scaled by lora_alpha / lora_rank"""
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """dropout before the adapters"""
    hidden_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """dropout of hidden states; by default the base's"""
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """dropout of attention weights; by default the base's. 0 for both is faster on a CPU"""


class ModelSettings(TransformerSettings):
    """The model, and which of its weights are trained."""

    family: Literal["dense", "late", "sparse"] = "dense"
    """the representation of a text: dense, one vector; late, a vector for each token; sparse, term weights"""
    dimension: Positive | None = None
    """for late interaction: the dimension of token vectors, made by a new layer; by default the base's"""
    towers: Literal["shared", "two"] = "shared"
    """one encoder for queries and passages, or one for each; two by default in fine-tuning"""
    train: Literal["all", "lora", "query", "head"] = "all"
    """all weights; lora: low-rank adapters; query: only the query tower, so that an index of passages stays
    valid; head: for late interaction, only the layers above the transformer, where a new one is saved without
    its base
    """


class DataSettings(Settings):
    """The pairs to train on."""

    pairs: Annotated[list[Path], Field(min_length=1)]
    """files of pairs, as `linkseek mine` and `linkseek negatives` write them, or DPR's"""
    negatives: Count = 0
    """the number of a pair's negatives that join its batch; 1 by default in pre-training"""
    hard_negatives: Count = 0
    """the number of its hard negatives; 1 by default in fine-tuning"""
    shots: Positive | None = None
    """use only N pairs; a larger N keeps the pairs of a smaller one"""
    seed: Seed = 1
    """seed for drawing these pairs"""


class TextSettings(Settings):
    """How queries and passages become tokens."""

    title: bool = True
    """whether passages are read with their title, as `linkseek build` does; false by default in pre-training
    """
    query_tokens: Count = 256
    """longer queries are truncated; 150 by default in pre-training; 0: the base's limit (static encoders:
    none)
    """
    passage_tokens: Count = 256
    """longer passages are truncated; 0: as for queries"""
    separator: str | None = None
    """the text between title and passage, such as " [SEP] "; by default the base's, else a space"""


class LossSettings(Settings):
    """How a batch is scored."""

    scale: Annotated[float, Field(gt=0)] | None = None
    """a factor for all scores; by default 1, or 20 for vectors of length 1"""
    mask_duplicates: Masking = "documents"
    """passages of the batch that are not used as negatives; passages: those relevant to the query; documents:
    also other passages of the relevant one's document; off: none, as in DPR and HLP
    """
    query_flops: Annotated[float, Field(ge=0)] = 5e-5
    """for sparse models: weight of the queries' terms in the loss, which makes most of them 0 (FLOPS)"""
    passage_flops: Annotated[float, Field(ge=0)] = 3e-5
    """the same for passages"""
    widths: list[Positive] = Field(default_factory=list)
    """further dimensions, such as 64: the first 64 numbers of a vector are also trained as a vector
    (Matryoshka)
    """


class TeacherSettings(Settings):
    """Distillation: a bi-encoder whose scores are followed."""

    encoder: str | list[str] = ""
    """the teacher: a folder or a name, or a list of them; without one, the model learns from pairs alone"""
    index: Path | None = None
    """an index with the teacher's vectors of its passages; other texts are encoded"""
    vectors: Path | None = None
    """a file that keeps the vectors of these texts for other runs; by default they are deleted with the run
    """
    weight: Annotated[float, Field(ge=0, le=1)] = 1.0
    """the weight of this loss in the sum with the pairs' loss"""
    temperature: Temperature | list[Temperature] = 0.05
    """a divisor of the teacher's scores; of several teachers, the mean is used"""

    @property
    def names(self) -> list[str]:
        """The teachers' names; without a teacher, one that is empty."""
        return [self.encoder] if isinstance(self.encoder, str) else self.encoder

    @property
    def teachers(self) -> list[tuple[str, float]]:
        """The teachers, each with its temperature."""
        given, names = self.temperature, self.names
        each = given if isinstance(given, list) else [given] * len(names)
        return [(name, temperature) for name, temperature in zip(names, each, strict=True) if name]

    @model_validator(mode="after")
    def _check_temperatures(self) -> Self:
        if isinstance(self.temperature, list) and len(self.temperature) != len(self.names):
            counts = f"{len(self.temperature)} temperatures for {len(self.names)} teachers"
            raise ValueError(f"{counts}; give one for each")
        return self


class PairTeacherSettings(TeacherSettings):
    """Distillation from the scores of a bi-encoder or a re-ranker."""

    scores: Scores = ""
    """learn from the scores that `linkseek score` has written into the pairs; kl: as a distribution over a
    pair's passages; margin: from their differences to the relevant passage (MarginMSE)
    """
    score_temperature: Temperature = 1.0
    """a divisor of these scores"""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.scores and self.teachers:
            raise ValueError("both a teacher and scores to learn from are given; choose one of them")
        return self


class TrainingSettings(Settings):
    """Batches, steps and the optimiser (AdamW)."""

    batch: Positive = 256
    """pairs in a batch, over all processes; 400 by default in pre-training"""
    mini_batch: Count = 0
    """texts in memory at a time, with exact gradients (GradCache); 0: all"""
    epochs: Positive = 40
    """passes over the pairs; 5 by default in pre-training"""
    steps: Positive | None = None
    """stop after this many batches, whatever `epochs` is"""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-5
    """the maximum learning rate"""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """the share of the steps in which the learning rate rises; it falls linearly to 0 afterwards"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """weight decay of all weights except biases and layer norms"""
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    """added to the denominator of Adam's update"""
    clip: Annotated[float, Field(ge=0)] = 2.0
    """the maximum norm of the gradient; 0: no limit"""
    seed: Seed = 12345
    """seed of the order of the pairs, of dropout, and of new weights"""
    precision: Precision = "auto"
    """auto: bfloat16 on a GPU that supports it, else float32; bfloat16 becomes float32 on a CPU without
    instructions for it
    """
    device: Literal["auto", "cpu"] = "auto"
    """auto: a GPU if there is one"""


class DevSettings(Settings):
    """The pairs by which the best checkpoint is chosen."""

    pairs: list[Path] = Field(default_factory=list)
    """labelled or mined pairs by which the best checkpoint is chosen; without them the last one is kept"""
    negatives: Count = 30
    """the number of a pair's negatives that are ranked, too"""
    hard_negatives: Count = 30
    """the number of its hard negatives"""
    title: bool = True
    """whether these passages are read with their title"""
    most: Positive = 10_000
    """use only the first N pairs of the files"""


class OutputSettings(Settings):
    """The model's folder, checkpoints and logs."""

    folder: Path
    """the folder of the model; checkpoints are in FOLDER.linkseek-training until it is finished"""
    checkpoint_steps: Positive | None = None
    """steps between checkpoints, each with its dev measure; by default one epoch, and at least 50 without a
    dev measure
    """
    log_steps: Positive = 50
    """steps between lines of the log"""
    licence: str = "apache-2.0"
    """licence of the trained model, for its card"""


_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "pretrain": {
        "data": {"negatives": 1},
        "texts": {"title": False, "query_tokens": 150},
        "training": {"batch": 400, "epochs": 5},
    },
    "finetune": {"model": {"towers": "two"}, "data": {"hard_negatives": 1}},
    "late": {"model": {"towers": "shared"}},
    "sparse": {"model": {"towers": "shared"}},
}
"""By the kind of the stage, then by the family."""

_TRAINED = {"dense": ("all", "lora", "query"), "late": ("all", "head"), "sparse": ("all",)}
"""What `model.train` may be, by the family."""


class TrainConfig(TrainingConfig):
    """Pre-train or fine-tune a bi-encoder on pairs.

    CONFIG is a TOML file with the tables below; configs/hlp-pretrain.toml, configs/hlp-finetune.toml and the
    other files of configs/ are examples. Started again after an interruption, the same command resumes from
    the last checkpoint. On several GPUs: accelerate launch -m linkseek train CONFIG
    """

    stage: StageSettings
    model: ModelSettings
    data: DataSettings
    texts: TextSettings
    loss: LossSettings
    teacher: PairTeacherSettings
    training: TrainingSettings
    dev: DevSettings
    output: OutputSettings

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        for of, key in (("model", "family"), ("stage", "kind")):
            decides = values.get(of) if isinstance(values, dict) else None
            value = decides.get(key) if isinstance(decides, dict) else None
            for name, defaults in (_DEFAULTS.get(value, {}) if isinstance(value, str) else {}).items():
                table = values.get(name, {})
                values = {**values, name: {**defaults, **table} if isinstance(table, dict) else table}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model.train == "lora" and self.model.towers == "two":
            raise ValueError('model.train = "lora" needs model.towers = "shared"')
        if self.model.train == "query" and self.model.towers == "shared":
            raise ValueError('model.train = "query" needs model.towers = "two"')
        self._check_family()
        return self

    def _check_family(self) -> None:
        """Raises `ValueError` for settings of another family."""
        model = self.model
        needs = f'model.family = "{model.family}" needs'
        if model.train not in _TRAINED[model.family]:
            raise ValueError(f'{needs} model.train = "{_TRAINED[model.family][0]}"')
        if model.dimension and model.family != "late":
            raise ValueError(f'{needs} no model.dimension, which is of family "late"')
        if model.family != "dense" and (model.towers != "shared" or self.loss.widths):
            raise ValueError(f'{needs} model.towers = "shared" and no loss.widths')


class BertSettings(Settings):
    """The size of the model."""

    layers: Positive = 4
    """the number of transformer layers"""
    width: Positive = 256
    """the size of a token's vector; a multiple of 64, or less"""
    tokenizer: str = DEFAULT_ENCODER
    """the model whose vocabulary is used"""
    max_tokens: Positive = 256
    """the maximum length of a text"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """dropout of hidden states and attention, also in later training"""


class PassageSettings(Settings):
    """The texts to train on."""

    index: Path
    """the index whose passages are read"""
    title: bool = True
    """whether passages are read with their titles"""
    most: Count = 0
    """number of passages, drawn at random; 0: all"""


class MlmTrainingSettings(TrainingSettings):
    """Batches, steps and the optimiser (AdamW), with BERT's own defaults."""

    batch: Positive = 64
    """passages in a batch, over all processes"""
    epochs: Positive = 1
    """passes over the passages"""
    learning_rate: float = Field(5e-4, gt=0)
    """the maximum learning rate"""
    weight_decay: float = Field(0.01, ge=0)
    """weight decay of all weights except biases and layer norms"""
    clip: float = Field(1.0, ge=0)
    """the maximum norm of the gradient; 0: no limit"""


class MlmConfig(TrainingConfig):
    """Train a small BERT from scratch, by masked language modelling.

    CONFIG is a TOML file with the tables below; configs/small-mlm.toml is an example. Started again after an
    interruption, the same command resumes from the last checkpoint.
    """

    model: BertSettings
    data: PassageSettings
    training: MlmTrainingSettings
    output: OutputSettings
