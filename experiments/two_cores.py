"""python experiments/two_cores.py --data DIR: compare link objectives from scratch, on two cores.

A small BERT is trained from scratch by masked language modelling; from this one start, it is trained by
every objective with the same number of pairs and steps, then fine-tuned on a few labels. All of them encode
the same 30,000 passages, and experiments/two-cores.toml makes the table. --start minilm does the same, with
fewer objectives, from a model that has seen a billion pairs (experiments/two-cores-minilm.toml). Every step
is a command of this project, printed before it runs and skipped if its result exists: after an interruption,
the same command resumes.

DIR holds wikispeedia, squad, 2wiki-corpus and qa, as `python app/evaluate.py --list-test-sets` names them.
"""

from __future__ import annotations

import argparse
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

from indexer.base.errors import UsageError, exit_on_error
from indexer.base.log import log_line
from indexer.files.sources import open_source, read_lines
from indexer.index import Index

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
PYTHON = sys.executable

SINGLE = ("ict", "wlp", "bfs", "dual-link", "co-mention")
MIXED = {"ict-wlp-bfs": ("ict", "wlp", "bfs"), "hlp": ("dual-link", "co-mention")}
FEWER = 4  # such a part of the pairs is from each source where HLP has half as many
LABELS = (128, 1024)
PAIRS = {"scratch": 17_900, "minilm": 9_000}  # co-mention has 17,905 in all
MINILM = "all-MiniLM-L6-v2"


class Commands:
    """Runs commands of this project whose results do not exist yet. overrides: settings of every training."""

    def __init__(self, data: Path, work: Path, overrides: list[str]) -> None:
        self.data, self.work = data, work
        self.overrides = [word for text in overrides for word in ("--set", text)]

    def _set(self, **settings: object) -> list[str]:
        words = []
        for name, value in settings.items():
            text = [str(v) for v in value] if isinstance(value, list) else value
            shown = orjson.dumps(text if isinstance(text, list | int) else str(text)).decode()
            words += ["--set", f"{name.replace('__', '.')}={shown}"]
        return words + self.overrides

    def _documents(self, name: str) -> Path:
        return self.data / name / "docs.jsonl.zst"

    def _python(self, result: Path | None, *words: object) -> None:
        if result is not None and result.exists():
            return
        command = [PYTHON, *map(str, words)]
        log_line(f"+ {shlex.join(['python', *command[1:]])}")
        if subprocess.run(command, cwd=ROOT).returncode:
            raise UsageError(f"{words[1] if words[0] == '-m' else words[0]} did not finish", "See above.")


class Steps(Commands):
    """The commands, in order."""

    def __init__(self, data: Path, work: Path, pairs: int, passages: int, overrides: list[str]) -> None:
        super().__init__(data, work, overrides)
        self.pairs, self.passages = pairs, passages
        self.labels = work / "pairs" / "labels.jsonl"

    def from_scratch(self) -> None:
        """A BERT that has read passages and nothing else, then each objective, then labels."""
        self._corpora()
        self._build("texts", ["--no-dense", "--no-bm25"])
        self._build("links", ["--no-dense"])
        self._pairs()
        self._labels()
        base = self.work / "bert"
        index = self.work / "index" / "texts"
        settings = self._set(data__index=index, output__folder=base)
        self._python(base, "-m", "retriever.mlm", CONFIGS / "two-cores-mlm.toml", *settings)
        starts = {"none": self._export("none", base)}
        for name, sources in {**{name: (name,) for name in SINGLE}, **MIXED}.items():
            pairs = [self._mined(source, len(sources)) for source in sources]
            starts[name] = self._train("two-cores-pretrain", name, base, pairs)
        tuned = [
            self._train("two-cores-finetune", f"{name}-{count}", start, [self.labels], data__shots=count)
            for count in LABELS
            for name, start in starts.items()
        ]
        self._search("two-cores", "scratch-", [*starts.values(), *tuned])

    def from_minilm(self) -> None:
        """all-MiniLM-L6-v2 with low-rank adapters, and with half of their change."""
        self._build("links", ["--no-dense"])
        self._pairs()
        self._labels()
        trained = {
            name: self._train(
                "minilm-lora",
                f"minilm-{name}",
                MINILM,
                [self._mined(source, len(sources)) for source in sources],
            )
            for name, sources in {"dual-link": ("dual-link",), "hlp": MIXED["hlp"]}.items()
        }
        fewer = [self._mined(source, FEWER) for source in MIXED["hlp"]]
        trained["hlp-fewer"] = self._train("minilm-lora", "minilm-hlp-fewer", MINILM, fewer)
        for name, base in (("labels", MINILM), ("hlp-labels", trained["hlp"])):
            trained[name] = self._train(
                "minilm-finetune", f"minilm-{name}", base, [self.labels], data__shots=3000
            )
        halves = [
            self._export(f"{trained[name].name}-half", trained[name], "--share", 0.5)
            for name in ("hlp", "hlp-labels")
        ]
        self._search("two-cores-minilm", "", [*trained.values(), *halves])

    def _search(self, experiment: str, prefix: str, encoders: list[Path]) -> None:
        """The index of the slice with all of these, and how to measure them."""
        words = [word for folder in encoders for word in ("--encoder", folder)]
        self._build(experiment, ["--encoder", MINILM, *words])
        index = self.work / "index" / experiment
        tables = (f'[{prefix}{p.name}]\nsearcher = "dense"\nencoder = "{p.name}"\n' for p in encoders)
        pipelines = self.work / f"{experiment}.pipelines.toml"
        pipelines.write_text("\n".join(tables))
        command = [
            "python", "app/experiment.py", f"experiments/{experiment}.toml", "--index", index,
            "--data", self.data, "--pipelines-file", pipelines,
        ]  # fmt: skip
        print(shlex.join(map(str, command)))

    def _export(self, name: str, model: Path, *options: object) -> Path:
        folder = self.work / "models" / name
        self._python(folder, "-m", "retriever.export", model, "--output", folder, *options)
        return folder

    def _corpora(self) -> None:
        texts = self.work / "texts.jsonl"
        if not texts.exists():
            names = ("wikispeedia", "squad", "2wiki-corpus")
            rows = (
                {"id": f"{name}/{row['id']}", "title": row["title"], "text": row["text"], "links": []}
                for name in names
                for row in read_rows(self._documents(name))
            )
            write_lines(texts, rows)

    def _build(self, name: str, options: list[object]) -> None:
        """An index: of all texts, of all linked articles, or else of the slice, which may lack an encoder."""
        corpus = {"texts": self.work / "texts.jsonl", "links": self._documents("wikispeedia")}.get(name)
        is_slice = corpus is None
        if corpus is None:
            corpus = self.work / "slice.jsonl"
            if not corpus.exists():
                write_lines(corpus, self._slice())
        index = self.work / "index" / name
        self._python(
            None if is_slice else index,
            "indexer/build.py", "--corpus", corpus, "--format", "jsonl", "--min-words", 0, "--index", index,
            *options,
        )  # fmt: skip

    def _slice(self) -> Iterator[dict[str, object]]:
        """The articles that questions are about, then others drawn at random, up to the wanted passages."""
        passages = Index.open(self.work / "index" / "links").passages.offsets  # [D + 1]
        counts = (passages[1:] - passages[:-1]).tolist()  # [D]
        rows = list(read_rows(self._documents("wikispeedia")))
        golden = set()
        for name in ("squad-dev", "nq-gold"):
            path = self.data / "qa" / f"{name}-on-wikispeedia.jsonl.gz"
            golden |= {row["article"] for row in read_rows(path)}
        order = sorted(range(len(rows)), key=lambda n: rows[n]["id"] not in golden)
        first = sum(row["id"] in golden for row in rows)
        others = order[first:]
        random.Random(1).shuffle(others)
        chosen, total = set(), 0
        for n in [*order[:first], *others]:
            if total + counts[n] <= self.passages:
                chosen.add(n)
                total += counts[n]
        return (rows[n] for n in sorted(chosen))

    def _pairs(self) -> None:
        for name in SINGLE:
            shares = {1, *(len(mix) for mix in MIXED.values() if name in mix)}
            if name in MIXED["hlp"]:
                shares.add(FEWER)
            for share in shares:
                index, output = self.work / "index" / "links", self._mined(name, share)
                self._python(
                    output, "-m", "retriever.mine", "--index", index, "--objective", name,
                    "--pairs", self.pairs // share, "--output", output,
                )  # fmt: skip

    def _mined(self, name: str, share: int) -> Path:
        return self.work / "pairs" / f"{name}-{self.pairs // share}.jsonl"

    def _labels(self) -> None:
        """A passage of the right article with an answer for each question of SQuAD's training set."""
        questions = self.data / "qa" / "squad-train-on-wikispeedia.jsonl.gz"
        qrels = self.work / "pairs" / "labels.qrels"
        if not qrels.exists():
            qrels.parent.mkdir(parents=True, exist_ok=True)
            qrels.write_text("".join(f"{row['id']} 0 {row['article']} 1\n" for row in read_rows(questions)))
        index = self.work / "index" / "links"
        runs = self.work / "bm25"
        run = runs / "runs" / "bm25.trec"
        self._python(
            run, "app/evaluate.py", "--index", index, "--queries", questions, "--pipeline", "bm25",
            "--depth", 50, "--latency", 0, "--no-report", "--output", runs,
        )  # fmt: skip
        self._python(
            self.labels, "-m", "retriever.negatives", "--index", index, "--run", run, "--queries", questions,
            "--qrels", qrels, "--negatives", 10, "--output", self.labels,
        )  # fmt: skip

    def _train(self, config: str, name: str, base: object, pairs: list[Path], **settings: object) -> Path:
        folder = self.work / "models" / name
        self._python(
            folder, "-m", "retriever.train", CONFIGS / f"{config}.toml",
            *self._set(model__base=base, data__pairs=pairs, output__folder=folder, **settings),
        )  # fmt: skip
        return folder


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The objects of a JSONL file."""
    source, stream = open_source(path)
    with source:
        for _, line in read_lines(stream):
            if line.strip():
                yield orjson.loads(line)


def write_lines(path: Path, rows: Iterator[dict[str, object]]) -> None:
    """Write objects as a JSONL file, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    temporary.rename(path)


def main(argv: list[str]) -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(
        "python experiments/two_cores.py", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with corpora and test sets")
    parser.add_argument("--work", type=Path, default=Path("results/two-cores"), help="where results go")
    parser.add_argument("--start", choices=["scratch", "minilm"], default="scratch", help="of all models")
    parser.add_argument("--pairs", type=int, help="of each objective (17,900; from MiniLM 9,000)")
    parser.add_argument("--passages", type=int, default=30_000, help="that are searched")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="a setting of every training"
    )
    options = parser.parse_args(argv)
    paths = [path.resolve() for path in (options.data, options.work)]
    pairs = options.pairs or PAIRS[options.start]
    steps = Steps(*paths, pairs, options.passages, options.set)
    if options.start == "scratch":
        steps.from_scratch()
    else:
        steps.from_minilm()


if __name__ == "__main__":
    with exit_on_error("two_cores", resumes=True):
        main(sys.argv[1:])
