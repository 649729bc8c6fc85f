"""Sources in files of the user's data folder: a pair of files, a packed folder, BEIR's folder, the sample."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from linkseek.app.testsets.definition import AGAIN, Contents, Gap, Places, TestSetSource, grouped
from linkseek.indexer.files.json_stream import json_object
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.bundled import bundled
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import nearest
from linkseek.retriever.queries import read_queries
from linkseek.retriever.query_formats import query_id
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import read_qrels

_SAMPLE = bundled("samples")

Names = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of the file of questions and of the file of judgements; the first that exists is read."""


class FileSource(TestSetSource):
    """Questions, and perhaps judgements, in files of any format that `--queries` and `--qrels` take.

    Fields of a JSONL file, if named: document, the id of the relevant document; group, a subset's name, or
    several such fields.
    """

    numbered: bool = False
    """Whether the ids are replaced by the questions' numbers from 0 (DPR's ids)."""
    judged_only: bool = False
    """Whether questions without judgements are skipped: they belong to another split."""
    document: str = ""
    group: str | tuple[str, ...] = ""

    @property
    @abstractmethod
    def names(self) -> Names:
        """The names of its files."""

    @property
    def needs(self) -> str:
        return " and ".join(f"`{names[0]}`" for names in self.names if names)

    def gap(self, places: Places) -> Gap | None:
        for names in filter(None, self.names):
            if places.first(names) is None:
                usual = " or ".join(dict.fromkeys((names[0], names[-1])))
                put = "Put it there, or name another folder: --data DIR."
                return Gap(f"{usual} {places.in_data()}", put if places.data else "Name yours: --data DIR.")
        return None

    def read(self, places: Places) -> Contents:
        path, judged = map(places.first, self.names)
        if path is None:
            raise InputError(f"{places.data}: {self.names[0][0]} is missing", AGAIN)
        queries = read_queries(path)
        if self.numbered:
            queries = [Query(str(row), query.text, query.answers) for row, query in enumerate(queries)]
        qrels = read_qrels(judged) if judged else None
        if self.document:
            qrels = {query: {document: 1} for query, document in _field(path, self.document)}
        if self.judged_only and qrels is not None:
            queries = [query for query in queries if query.id in qrels]
        fields = (self.group,) if isinstance(self.group, str) else self.group
        groups = read_groups(path, tuple(filter(None, fields)))
        return Contents(queries, qrels, groups, read_from=", ".join(map(str, filter(None, (path, judged)))))


class Files(FileSource):
    """Files by their names in the data folder."""

    kind: Literal["files"] = "files"
    queries: tuple[str, ...]
    qrels: tuple[str, ...] = ()

    @property
    def names(self) -> Names:
        return self.queries, self.qrels


class Packed(FileSource):
    """A split of a folder that `pack.py` writes. judged: the name in the judgements' file, if another."""

    kind: Literal["packed"] = "packed"
    folder: str
    split: str
    judged: str = ""

    @property
    def names(self) -> Names:
        """FOLDER/queries.SPLIT.jsonl.gz and FOLDER/qrels.SPLIT.txt, which may be compressed."""
        qrels = f"{self.folder}/qrels.{self.judged or self.split}.txt"
        return (f"{self.folder}/queries.{self.split}.jsonl.gz",), (qrels, f"{qrels}.gz")


class Beir(FileSource):
    """A split of BEIR's archive as it unpacks; its file of questions contains the questions of all splits."""

    kind: Literal["beir"] = "beir"
    judged_only: bool = True
    folder: str
    split: str = "test"

    @property
    def names(self) -> Names:
        """FOLDER/queries.jsonl and FOLDER/qrels/SPLIT.tsv, in `beir/` or at the top."""
        names = (f"{self.folder}/queries.jsonl", f"{self.folder}/qrels/{self.split}.tsv")
        queries, qrels = ((f"beir/{name}", name) for name in names)
        return queries, qrels

    @property
    def needs(self) -> str:
        return f"BEIR's folder `{self.folder}`"


class BundledSample(FileSource):
    """Questions of the sample, which come with this project. The judgements of X.jsonl are in X.qrels.txt."""

    kind: Literal["sample"] = "sample"
    questions: str = "questions"
    needs: ClassVar[str] = "nothing"

    @property
    def names(self) -> Names:
        """The questions, and their judgements."""
        judged = "qrels" if self.questions == "questions" else f"{self.questions}.qrels"
        return (f"{self.questions}.jsonl",), (f"{judged}.txt",)

    def gap(self, places: Places) -> Gap | None:
        return super().gap(Places(_SAMPLE, places.cache))

    def read(self, places: Places) -> Contents:
        return super().read(Places(_SAMPLE, places.cache))


def read_groups(path: Path, fields: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name of a subset -> its query ids, for each value of fields of a JSONL file of questions.

    A number has the name of its field before it, such as "hops 2". Raises `InputError` for another file, and
    for a question without such a field.
    """
    return grouped([pair for field in fields for pair in _field(path, field)])


def _field(path: Path, name: str) -> list[tuple[str, str]]:
    """(query id, a field's text) for each line of a JSONL file that `read_queries` has read."""
    values: list[tuple[str, str]] = []
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            try:
                row = json_object(line, f"{path}, line {number:,}", "Use a JSONL file.")
            except InputError as error:
                message = f'{path}: not JSON lines, so it has no field "{name}"'
                raise InputError(message, error.hint) from None
            if name not in row:
                message = f'{path}, line {number:,}: the field "{name}" is missing'
                raise InputError(message, nearest(name, row))
            value = row[name]
            if isinstance(value, int) and not isinstance(value, bool):
                value = f"{name} {value}"
            if not isinstance(value, str) or not value:
                raise InputError(
                    f'{path}, line {number:,}: the field "{name}" is {value!r}, expected a text', AGAIN
                )
            values.append((query_id(row) or str(len(values)), value))
    return values
