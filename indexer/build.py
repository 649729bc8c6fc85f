"""linkseek build: from a linked corpus to a searchable index.

Entry script: it reads the options, supplies the encoder (the only place where the indexer calls the
retriever), calls `indexer.building.builder`, and prints the result.
"""

from __future__ import annotations

if __name__ == "__main__":
    from linkseek.indexer.program.errors import run_command

    run_command("linkseek.indexer.build", resumes=True)

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field
from rich.console import Console
from rich.table import Table

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.costs import RECALL, Estimate
from linkseek.indexer.building.plan import AUTO_LANGUAGE, BuildPlan, Built, OpenEncoder
from linkseek.indexer.building.sampling import estimate_build, place
from linkseek.indexer.building.summary import print_summary, write_report
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.encoding.on_ray import on_ray
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.detection import Language
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.bundled import bundled
from linkseek.indexer.program.defaults import DEFAULT_ENCODER, SAMPLE_INDEX
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import MoreHelp, Options, as_words, command_line, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.text import byte_size, duration, printable
from linkseek.indexer.readers.choices import Choices, ReadingOptions
from linkseek.indexer.readers.formats import all_readers
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.search.faiss_index import AUTO

PROGRAM = "linkseek build"
SAMPLE = bundled("samples/linkseek-sample.xml.bz2")
_LARGE = 1 << 30  # bytes of a corpus
_SLACK = 1.25  # an estimate is not exact
_LONG = 3600  # seconds of encoding after which a faster encoder is named


class BuildOptions(ReadingOptions):
    """Build an index from a linked corpus: documents, passages, link graph, BM25, vectors.

    Without arguments it builds the bundled sample into index/sample. Run again after an interruption,
    it resumes; run again with another --encoder, it adds that one; unchanged parts are reused. An index
    in use stays intact until the new one replaces it.
    """

    not_keywords = Options.not_keywords | {"dense", "plan", "json_", "verify", "report"}

    corpus: Path | None = None
    """the file (also compressed) or folder to read; default: the bundled sample"""
    format: Annotated[str | None, MoreHelp(lambda: ", ".join(all_readers()))] = None
    """its format; by default recognised by its content"""
    index: Path | None = None
    """the folder of the index; index/sample for the sample"""
    encoder: list[str] = Field([DEFAULT_ENCODER])
    """sentence-transformers models by path or name, one or several; auto: all-MiniLM-L6-v2, for other
    languages than English multilingual-e5-small if it is on this machine, or linkseek-static where that would
    take more than an hour without a GPU; multilingual-e5-small reads a hundred languages, and takes about
    twice as long as all-MiniLM-L6-v2"""
    query_prompt: str | None = None
    """text before each question that the encoders read, such as 'query: '; by default the model's own prompt
    """
    passage_prompt: str | None = None
    """text before each passage"""
    faiss: str = AUTO
    """Flat (exact, float16), compact (4-bit codes, the best scored again exactly), auto (Flat up to 512 MiB
    of vectors, else compact), or a FAISS factory string: HNSW32, IVF1024,SQfp16, IVF1024,PQ48, ..."""
    late: list[str] = Field([])
    """late interaction: models of MultiVectorEncoder, PyLate or ColBERT, or encoders, whose token vectors are
    stored; pipelines with rerank = "late" compare them in a few milliseconds
    """
    sparse: list[str] = Field([])
    """learned sparse retrieval: models of SparseEncoder, such as SPLADE, whose term weights Lucene searches
    (the pipeline sparse)
    """
    sparse_terms: Annotated[int, Field(ge=0)] = 0
    """search only the N largest weights of a passage; 0: all"""
    bm25: bool = True
    """build a Lucene index for BM25 and query likelihood"""
    dense: bool = True
    """make vectors and their FAISS index"""
    title: bool = True
    """put the title before each passage, for BM25 and the encoders"""
    language: Language = AUTO_LANGUAGE
    """the language of the texts, for BM25's analysis of words: a code such as de or zh, or mul for several;
    auto: named by the corpus, else detected
    """
    headings: Literal["auto", "on", "off"] = "auto"
    """begin passages at sections where they can, and put the headings above a passage after its title; auto:
    for wikis, Markdown and HTML"""
    base_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """the address of the site that a folder comes from, such as https://docs.example.org/; results link to it
    """
    passage_words: Annotated[int, Field(ge=0)] | None = None
    """words in a passage; 0: a document is a passage; default 100, or 0 for corpora of passages"""
    min_words: Annotated[int, Field(ge=0)] | None = None
    """a shorter last passage of a document joins the one before it; 0: never; default 20, or a fifth of
    --passage-words"""
    min_title: Annotated[int, Field(ge=0)] = 0
    """skip and count documents with fewer characters in their title; HLP's paper: 3"""
    limit: Annotated[int, Field(ge=1)] | None = None
    """read only this many documents"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to encode: on the CPU, or on the first GPU; with --ray, on all GPUs"""
    ray: str | None = None
    """parse and encode on a Ray cluster, by its address, such as auto or 10.0.0.1:6379, or local for one on
    this machine; the machines need not share a file system
    """
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that parse and threads that index; default one per core"""
    plan: bool = False
    """build nothing: read a sample, and estimate the disk, memory and time of the build, if nothing else runs
    """
    json_: bool = Field(False, alias="json")
    """print the plan as JSON"""
    fresh: bool = False
    """reuse nothing of an interrupted build or of the index in use"""
    report: Path | None = None
    """write a report to this file: what was read, skipped, dropped and guessed, and links without a target;
    JSON, or a page if its name ends in .html
    """
    verify: bool = False
    """build nothing: check the hash of every file of the index"""

    @property
    def choices(self) -> Choices:
        """Like those of `ReadingOptions`, with the limits of the build."""
        return replace(super().choices, limit=self.limit, min_title=self.min_title)


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(BuildOptions, argv, PROGRAM)
    index = options.index or (SAMPLE_INDEX if options.corpus is None else None)
    if index is None:
        raise UsageError("--index is missing", "Name the folder for this corpus: --index index/NAME")
    if options.corpus is None and not options.verify and index.parts[-2:] != SAMPLE_INDEX.parts:
        raise UsageError(
            "--corpus is missing",
            f"Name the files to index: {PROGRAM} --corpus FILE --index {shlex.quote(printable(str(index)))}. "
            f"The sample is built by {PROGRAM} alone.",
        )
    corpus = options.corpus or SAMPLE
    for option, path in (("--corpus", corpus), ("--index", index)):
        try:
            str(path.resolve()).encode()
        except UnicodeEncodeError:  # no manifest could hold it
            problem = f"{option} {str(path)!a}: the path is not UTF-8"
            raise UsageError(problem, "Rename the file or folder.") from None
    if options.verify:
        verify(index)
        return
    if index.resolve() in (here := Path.cwd(), *here.parents[:-1]):
        raise UsageError(
            f"--index {index}: contains the current folder, and a new index would replace it",
            "Change to another folder first, and name this one by its path.",
        )
    command = command_line(PROGRAM, as_words(options) if options.config else argv)
    if options.plan:
        print_plan(index, _plan(options, corpus, command), _opener(options), as_json=options.json_)
    else:
        built = build(index, options, corpus, command)
        print_summary(index, built)
        if options.report:
            write_report(options.report, index, built)


def build(index: Path, options: BuildOptions, corpus: Path | Reader, command: str) -> Built:
    """Build an index from the options that say how. corpus: a path, or the reader of documents in memory.

    Raises `MachineError` before a large build that cannot fit this machine, and the errors of `build_index`.
    """
    path, reader = (corpus, None) if isinstance(corpus, Path) else (corpus.path, corpus)
    plan = _plan(options, path, command)
    open_encoder = _opener(options)
    takes_hours = path.is_file() and path.stat().st_size > _LARGE
    if takes_hours and not options.ray:
        with progress("building a sample, to check whether the build fits"):
            estimate = estimate_build(index, plan, open_encoder)
        estimate.check(place(index), slack=_SLACK)
    with on_ray(options.ray, open_encoder, options.device) as opener:
        return build_index(index, plan, opener, reader)


_SAME = {
    *("format", "passage_words", "min_words", "title", "bm25", "faiss", "sparse_terms"),
    *("base_url", "headings", "processes", "fresh", "language"),
}
"""Options that a plan has under the same names."""


def _plan(options: BuildOptions, corpus: Path, command: str) -> BuildPlan:
    if options.encoder and not options.dense and "encoder" in options.model_fields_set:
        raise UsageError("--encoder and --no-dense contradict each other", "Omit one of the two.")

    def choose_encoder(passages: int, language: str) -> str:
        from linkseek.retriever.models.biencoder import encoder_for

        return encoder_for(passages, language, options.device)

    names: list[str] = []
    if options.dense or options.late or options.sparse:
        from linkseek.retriever.models.encoders import located

        dense = options.encoder if options.dense else []
        names = located(dense, options.late, options.sparse, options.device, options.faiss)
    return BuildPlan(
        corpus,
        **options.model_dump(include=_SAME),
        reading=options.choices,
        encoders=names,
        choose_encoder=choose_encoder,
        command=command,
    )


def _opener(options: BuildOptions) -> OpenEncoder:
    prompts = options.model_dump(include={"query_prompt", "passage_prompt"}, exclude_none=True)
    return partial(_open_encoder, device=options.device, **prompts)


def _open_encoder(name: str, title: bool, device: str, **prompts: Any) -> Encoder:
    from linkseek.retriever.models.encoders import open_encoder

    if (gpus := len(cuda_devices(device))) > 1:
        log_line(f"encoder {name}: on one of {gpus} GPUs; --ray local uses all")
    encoder = open_encoder(name, title=title, device=device, **prompts)
    if encoder.note:
        log_line(f"encoder {name}: {encoder.note}")
    return encoder


def print_plan(index: Path, plan: BuildPlan, open_encoder: OpenEncoder, *, as_json: bool) -> None:
    """Print the needs of a build. Raises `MachineError` after that if it cannot fit this machine."""
    words = [word for word in shlex.split(plan.command) if word not in ("--plan", "--json")]
    with progress("building a sample"):
        estimate = estimate_build(index, plan, open_encoder)
    if as_json:
        print(orjson.dumps(estimate.to_json() | {"command": shlex.join(words)}).decode())
    else:
        print_estimate(estimate)
        Console(highlight=False).print(f"\nTo build it: {shlex.join(words)}", markup=False, soft_wrap=True)
    estimate.check(place(index))


def print_estimate(estimate: Estimate) -> None:
    """Print a table of the stages, and a line for each type of FAISS index."""
    console = Console(highlight=False)
    console.print(f"\nThis build: {estimate.passages:,} passages\n")
    table = Table("stage", "disk", "memory", "time", box=None, padding=(0, 2))
    for stage in estimate.to_json()["stages"]:
        table.add_row(printable(stage["name"]), *_row(stage))
    for whole in (estimate, *estimate.alternatives):
        name = "all" if whole is estimate else "or"
        name += f", --faiss {whole.faiss}" if whole.faiss else ""
        recall = RECALL.get(whole.faiss or "")
        table.add_row(name, *_row(whole.to_json()), f"recall {recall:g} at 100" if recall else "")
    console.print(table)
    console.print("Stages after passages run at the same time; disk is needed until the index is published.")
    if any(s.name.startswith("encoding") and s.used.seconds > _LONG for s in estimate.stages):
        console.print("A static encoder takes minutes: --encoder linkseek-static.")


def _row(numbers: dict[str, Any]) -> tuple[str, str, str]:
    disk, memory = byte_size(numbers["disk_bytes"]), byte_size(numbers["memory_bytes"])
    return disk, memory, duration(numbers["seconds"])


def verify(index: Path) -> None:
    """Check every file of an index against its hash. Raises `DamagedIndexError` for the first bad one."""
    opened = OpenIndex.open(index)
    with progress(f"verifying {index}", opened.bytes, "bytes") as advance:
        opened.verify(advance)
    print(f"{printable(str(index))}: {opened.bytes:,} bytes, every file is intact")
