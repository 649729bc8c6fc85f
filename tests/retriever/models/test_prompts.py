"""Prompts of encoders: their own, those of known families, those of the caller, and those of an index."""

from __future__ import annotations

import numpy as np
import pytest

from linkseek.indexer import build as build_command
from linkseek.indexer.commands import update
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.prompts import prompts_for, recorded_prompt
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Dense
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.models import save_tiny

REPRESENT = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("/models/my-e5-small-tuned", "query: ", "passage: "),
        ("BAAI/bge-base-en-v1.5", REPRESENT, ""),
        ("BAAI/bge-small-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("Snowflake/snowflake-arctic-embed-m", REPRESENT, ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("mixedbread-ai/mxbai-embed-large-v1", REPRESENT, ""),
    ],
)
def test_known_families_have_theirs_and_say_so(name, query, passage):
    prompts = prompts_for(name, "", "")
    assert prompts[:2] == (query, passage)
    assert repr(query) in prompts.note and "--query-prompt" in prompts.note


@pytest.mark.parametrize(
    "name", ["intfloat/multilingual-e5-large-instruct", "Alibaba-NLP/gte-Qwen2-1.5B-instruct"]
)
def test_models_with_instructions_have_one_for_questions_alone(name):
    query, passage, _ = prompts_for(name, "", "")
    assert query.startswith("Instruct: ") and query.endswith("\nQuery: ") and passage == ""


@pytest.mark.parametrize(
    "name", ["all-MiniLM-L6-v2", "thenlper/gte-base", "BAAI/bge-m3", "models/wiki", "free5-base"]
)
def test_others_have_none(name):
    assert prompts_for(name, "", "") == ("", "", "")


@pytest.mark.parametrize("name", ["hkunlp/instructor-xl", "acme/e5-custom", "bge-large-fr"])
def test_a_name_that_suggests_prompts_is_warned_of(name):
    query, passage, note = prompts_for(name, "", "")
    assert (query, passage) == ("", "") and note.startswith("no prompts, though its name suggests some")


def test_a_models_own_come_before_its_familys_and_the_callers_before_both():
    assert prompts_for("e5-small", "q: ", "p: ") == ("q: ", "p: ", "")
    assert prompts_for("e5-small", "q: ", "p: ", query="Q ") == ("Q ", "p: ", "")
    assert prompts_for("e5-small", "", "", query="", passage="") == ("", "", "")


def test_prompts_of_strangers_are_as_short_as_questions(tmp_path):
    long = "x" * 10_001
    with pytest.raises(InputError, match="10,001 characters"):
        recorded_prompt({"query_prompt": long}, {"query_prompt": ""})
    with pytest.raises(InputError, match="10,001 characters"):
        open_biencoder(save_tiny(tmp_path / "model"), passage_prompt=long)


def test_questions_get_the_prompt_of_the_index(tmp_path, capsys):
    folder, index = save_tiny(tmp_path / "e5-small-tiny"), tmp_path / "index"
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(6))

    def build(*options: str) -> OpenIndex:
        common = ["--corpus", str(corpus), "--index", str(index), "--no-bm25", "--passage-words", "0"]
        build_command.main(
            [*common, "--encoder", str(folder), "--device", "cpu", "--processes", "1", *options]
        )
        return OpenIndex.open(index)

    identity = build().parts.dense["e5-small-tiny"].encoder
    assert (identity["query_prompt"], identity["passage_prompt"]) == ("query: ", "passage: ")
    assert "the prompts of E5" in capsys.readouterr().err
    opened = build("--query-prompt", "a ", "--passage-prompt", "b ")
    assert "the prompts of E5" not in capsys.readouterr().err
    identity = opened.parts.dense["e5-small-tiny"].encoder
    assert (identity["query_prompt"], identity["passage_prompt"]) == ("a ", "b ")
    encoder = open_biencoder(str(folder), precision="float32")  # as the pipelines open it, with E5's
    ours = Dense(opened, encoder)([Query("1", "word3")], 3)
    theirs = open_biencoder(str(folder), precision="float32", query_prompt="a ", passage_prompt="b ")
    expected = Dense(opened, theirs)([Query("1", "word3")], 3)
    np.testing.assert_array_equal(ours.scores, expected.scores)
    assert not np.allclose(encoder.encode_queries(["word3"]), theirs.encode_queries(["word3"]))
    more = write_jsonl(tmp_path / "more.jsonl", [linked_rows(8)[7] | {"links": []}])
    update.main(["--index", str(index), "--add", str(more), "--format", "jsonl", "--device", "cpu"])
    assert OpenIndex.open(index).parts.dense["e5-small-tiny"].encoder["passage_prompt"] == "b "
