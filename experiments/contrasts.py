"""python experiments/contrasts.py --data DIR: compare PROP, HARP and PHP for a re-ranker, on two cores.

All re-rankers start from all-MiniLM-L6-v2 with low-rank adapters. Each is pre-trained on contrasts of one
kind, with the same number of contrasts and steps, then fine-tuned on few and on more questions of SQuAD's
training set, with BM25's best non-relevant paragraphs as negatives. All of them re-rank the same
candidates, and experiments/contrasts.toml makes the table. Every step is a command of this project, printed
before it runs and skipped if its result exists: after an interruption, the same command resumes.

DIR holds wikispeedia, squad, msmarco-dl19 and qa, as `python app/evaluate.py --list-test-sets` names them.
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from two_cores import CONFIGS, MINILM, Commands, read_rows, write_lines

from indexer.base.errors import exit_on_error
from indexer.files.sources import open_source

MODELS = {
    "prop": ("prop",),
    "harp": ("harp",),
    "hp": ("php-hp",),
    "shp": ("php-shp",),
    "mrds": ("php-mrds",),
    "php": ("php-hp", "php-shp", "php-mrds"),
}
"""The stages of each, as `reranker.mine --objective` takes them."""
FIRST = ("prop", "harp", "php")
NEGATIVES, BATCH = 8, 8
FEW, FEW_EPOCHS = 50, 10
CANDIDATES = {"wiki": 20, "dl19": 100}


class Steps(Commands):
    """The commands, in order.

    contrasts: of each model. queries: that it is tuned on, besides few. models: names in `MODELS`.
    overrides: of every pre-training.
    """

    def __init__(
        self,
        data: Path,
        work: Path,
        contrasts: int,
        queries: int,
        models: Sequence[str],
        overrides: list[str],
    ) -> None:
        super().__init__(data, work, [])
        self.contrasts, self.queries = contrasts, queries
        self.stages = {name: MODELS[name] for name in models}
        self.of_pretraining = [word for text in overrides for word in ("--set", text)]

    def run(self) -> None:
        """All of it, up to the command that makes the table, which is printed."""
        whole, all_ends = ["--passage-words", 0], ["--min-words", 0]
        for name, corpus, options in (
            ("wiki", "wikispeedia", all_ends), ("squad", "squad", whole), ("dl19", "msmarco-dl19", whole)
        ):  # fmt: skip
            index = self._index(name)
            documents = self._documents(corpus)
            self._python(
                index, "indexer/build.py", "--corpus", documents, "--format", "jsonl", "--index", index,
                "--no-dense", *options,
            )  # fmt: skip
        for objective in dict.fromkeys(name for names in self.stages.values() for name in names):
            self._python(
                self._mined(objective), "-m", "reranker.mine", "--index", self._index("wiki"),
                "--objective", objective, "--contrasts", self.contrasts, "--output", self._mined(objective),
                *(["--negatives", NEGATIVES] if objective.startswith("php") else []),
            )  # fmt: skip
        pairs = self._labels()
        starts: dict[str, object] = {"none": MINILM}
        starts |= {name: self._pretrained(name, stages) for name, stages in self.stages.items()}
        models = {name: start for name, start in starts.items() if name != "none"}
        for name, start in starts.items():
            models[f"{name}-few"] = self._tuned(f"{name}-few", start, pairs, FEW, FEW_EPOCHS)
            models[f"{name}-more"] = self._tuned(f"{name}-more", start, pairs, self.queries, 1)
        self._table(models)

    def _index(self, name: str) -> Path:
        return self.work / "index" / name

    def _mined(self, objective: str) -> Path:
        return self.work / "contrasts" / f"{objective}.jsonl.zst"

    def _pretrained(self, name: str, objectives: tuple[str, ...]) -> Path:
        """A model of so many contrasts; of several stages, each has its part of the steps."""
        folder = self.work / "models" / name
        config = f"small-{objectives[0].partition('-')[0]}-pretrain.toml"
        steps = max(self.contrasts // BATCH // len(objectives), 1)
        stages = ", ".join(
            f'{{name = "{objective}", contrasts = ["{self._mined(objective)}"], steps = {steps}}}'
            for objective in objectives
        )
        self._python(
            folder, "-m", "reranker.pretrain", CONFIGS / config, "--set", f"stages=[{stages}]",
            *self._set(training__batch=BATCH, output__folder=folder), *self.of_pretraining,
        )  # fmt: skip
        return folder

    def _labels(self) -> Path:
        """Questions of SQuAD's training set, each with BM25's best paragraphs that do not hold its answer."""
        folder = self.work / "labels"
        questions, qrels, pairs = (folder / name for name in ("queries.jsonl", "qrels.txt", "pairs.jsonl"))
        if not questions.exists():
            write_lines(questions, self._questions())
        if not qrels.exists():
            _, stream = open_source(self.data / "squad" / "qrels.train.txt.gz")
            with stream:
                qrels.write_bytes(stream.read())
        index, run = self._index("squad"), folder / "runs" / "bm25.trec"
        self._python(
            run, "app/evaluate.py", "--index", index, "--queries", questions, "--pipeline", "bm25",
            "--depth", 60, "--latency", 0, "--no-report", "--output", folder,
        )  # fmt: skip
        self._python(
            pairs, "-m", "retriever.negatives", "--index", index, "--run", run, "--queries", questions,
            "--qrels", qrels, "--depth", 60, "--negatives", 30, "--output", pairs,
        )  # fmt: skip
        return pairs

    def _questions(self) -> Iterator[dict[str, object]]:
        """A third more than wanted, as some have no wrong paragraph or no right one among the candidates."""
        rows: list[dict[str, object]] = [*read_rows(self.data / "squad" / "queries.train.jsonl.gz")]
        drawn = random.Random(1).sample(range(len(rows)), min(max(self.queries, FEW) * 4 // 3, len(rows)))
        return (rows[n] for n in sorted(drawn))

    def _tuned(self, name: str, start: object, pairs: Path, shots: int, epochs: int) -> Path:
        folder = self.work / "models" / name
        settings = self._set(
            model__base=start, data__pairs=[pairs], data__shots=shots, dev__pairs=[], training__epochs=epochs,
            output__folder=folder,
        )  # fmt: skip
        self._python(folder, "-m", "reranker.finetune", CONFIGS / "squad-reranker.toml", *settings)
        return folder

    def _table(self, models: dict[str, Path]) -> None:
        """Pipelines of all models on both first stages, and the command that measures them."""
        run = self.data / "msmarco-dl19" / "run.dl19.bm25.txt.gz"
        tables = [f'[dl19]\nrun = "{run}"\n', '[wiki]\nsearcher = "bm25"\n']
        for first, depth in CANDIDATES.items():
            tables += [
                f'[{first}-{name}]\nrerank = "{folder}"\nof = "{first}"\n'
                f'depth = {depth}\nprecision = "bfloat16"\n'
                for name, folder in models.items()
            ]
        pipelines = self.work / "pipelines.toml"
        pipelines.parent.mkdir(parents=True, exist_ok=True)
        pipelines.write_text("\n".join(tables))
        command = [
            "python", "app/experiment.py", "experiments/contrasts.toml", "--data", self.data,
            "--pipelines-file", pipelines,
        ]  # fmt: skip
        print(shlex.join(map(str, command)))


def main(argv: list[str]) -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(
        "python experiments/contrasts.py", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with corpora and test sets")
    parser.add_argument("--work", type=Path, default=Path("results/contrasts"), help="where results go")
    parser.add_argument("--contrasts", type=int, default=3_000, help="that each model is pre-trained on")
    parser.add_argument("--queries", type=int, default=1_000, help="that each is fine-tuned on")
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=FIRST,
        help=f"to pre-train, by default {' '.join(FIRST)}",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="a setting of every pre-training",
    )
    options = parser.parse_args(argv)
    paths = [path.resolve() for path in (options.data, options.work)]
    Steps(*paths, options.contrasts, options.queries, options.models, options.set).run()


if __name__ == "__main__":
    with exit_on_error("contrasts", resumes=True):
        main(sys.argv[1:])
