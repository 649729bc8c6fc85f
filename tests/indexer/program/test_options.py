"""Options: one model for the command line, the config file, and errors that name what was meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.options import Options, Positional, as_words, options_lines, parse_options
from linkseek.indexer.program.text import nearest


class Sample(Options):
    """Options of every kind."""

    corpus: Path
    """a path"""
    index_name: str | None = None
    """a text"""
    words: Annotated[int, Field(ge=0)] = 100
    """a number"""
    encoder: list[str] = Field(["default"])
    """a list"""
    title: bool = True
    """read the title"""
    kind: Literal["a", "b"] = "a"
    """a choice"""


class Lists(Options):
    """Options whose defaults are lists, or nothing."""

    index: list[Path] = Field([Path("index/sample"), Path("b")])
    """folders"""
    number: list[int] = Field([0])
    """numbers"""
    over: list[Literal["links", "bm25"]] = Field(["links"])
    """choices"""
    dialect: Literal["", "hugo"] = ""
    """a choice or nothing"""


def parse(*argv: str) -> Sample:
    return parse_options(Sample, argv, "program")


@pytest.fixture
def config(tmp_path: Path):
    def write(text: str) -> str:
        (tmp_path / "options.toml").write_text(text, "utf-8")
        return str(tmp_path / "options.toml")

    return write


def test_defaults_and_every_kind_of_value():
    defaults = {"config": None, "index_name": None, "words": 100, "encoder": ["default"], "title": True}
    assert parse("--corpus", "c").model_dump() == defaults | {"corpus": Path("c"), "kind": "a"}
    given = "--corpus=c --index-name x --words 0 --no-title --kind b --encoder e"
    options = parse(*given.split())
    assert (options.index_name, options.words, options.title, options.kind) == ("x", 0, False, "b")
    assert options.encoder == ["e"]


@pytest.mark.parametrize("argv", ["--encoder a b", "--encoder a --encoder b", "--encoder a b --words 3"])
def test_a_list_is_given_by_several_values_or_by_repeating_the_flag(argv):
    assert parse("--corpus", "c", *argv.split()).encoder == ["a", "b"]


def test_a_file_gives_options_and_the_command_line_wins(config):
    path = config('corpus = "from file"\nindex-name = "n"\nwords = 7\nencoder = ["a", "b"]\ntitle = false\n')
    options = parse("--config", path, "--words", "8", "--encoder", "c")
    assert options.corpus == Path("from file")
    assert (options.index_name, options.words, options.title) == ("n", 8, False)
    assert options.encoder == ["c"]
    assert parse(f"--config={path}").encoder == ["a", "b"]


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["--wrods", "3"], "unknown option --wrods", "--words"),
        (["--no-titel"], "unknown option --no-titel", ""),
        (["--words", "many"], "--words: ", "program --help"),
        (["--words", "-1"], "--words: ", "program --help"),
        (["--words"], "words", "program --help"),
        (["--title=maybe"], "", "program --help"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(argv, message, hint):
    with pytest.raises(UsageError) as caught:
        parse("--corpus", "c", *argv)
    assert message in caught.value.message
    assert hint in str(caught.value)


def test_a_missing_option_is_named():
    with pytest.raises(UsageError, match="--corpus: missing"):
        parse()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wrods = 3", 'unknown key "wrods"\n  Did you mean words?'),
        ("xyzzy = 3", 'unknown key "xyzzy"\n  Known: corpus, encoder, index_name, kind, title, words.'),
        ('words = "many"', "options.toml: words: "),
        ("encoder = 3", "options.toml: encoder: "),
        ("words = ", "not TOML"),
        ('config = "x"', 'unknown key "config"'),
        ('index-name = "a\\u0000b"', "index_name: contains the character NUL"),
        ('encoder = ["a\\u0000b"]', "encoder: contains the character NUL"),
        (f"words = {10**20}", "words: the number has more than 64 bits"),
        (f"words = 1{'0' * 5000}", "options.toml: a number has too many digits"),
        (f"words = {'[' * 50_000}", "options.toml: nested too deeply"),
        (f"words = {'{a = ' * 50_000}", "options.toml: nested too deeply"),
        ("words = inf", "words: needs a whole number of at least 0"),
    ],
)
def test_what_does_not_fit_in_a_file_is_a_usage_error(config, text, message):
    with pytest.raises(UsageError) as caught:
        parse("--corpus", "c", "--config", config(text))
    assert message in str(caught.value)


def test_paths_that_nothing_can_name_are_refused(tmp_path, config):
    with pytest.raises(UsageError, match="corpus: contains the character NUL"):
        parse("--config", config('corpus = "a\\u0000b"'))
    (tmp_path / "circle").symlink_to("circle")
    for path, message in ((tmp_path / "circle" / "x", "form a circle"), ("\udcff", "is not UTF-8")):
        with pytest.raises(UsageError, match=message):
            parse("--corpus", str(path))
    assert parse("--corpus", "missing").corpus == Path("missing")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe or a device, not a file"):
        parse("--config", str(tmp_path / "pipe"))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match=str(path)):
            parse("--corpus", "c", "--config", str(path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        parse("--config", str(tmp_path / "binary.toml"))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--words", "0", "--no-title", "--kind", "b"],
        ["--index-name", 'a"b\\c\n\x7f\u00e9\U0001f98a', "--encoder", "a,b", "[c]", "#0", "'"],
        ["--index-name=-x", "--encoder=--title", "--encoder=y"],
    ],
)
def test_what_was_given_as_a_file_and_as_words(words, config):
    options = parse("--corpus", "c", *words)
    again = parse("--config", config(b"".join(options_lines(options.model_dump())).decode()))
    assert again.model_dump(exclude={"config"}) == options.model_dump(exclude={"config"})
    assert parse(*as_words(again)) == options


def test_help_names_every_option_with_its_text(capsys):
    with pytest.raises(SystemExit) as caught:
        parse("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "usage: program" in text
    for name, field in Sample.model_fields.items():
        flag = ("--no-" if field.default is True else "--") + name.replace("_", "-")
        meaning = f"do not {field.description}" if field.default is True else field.description
        assert f"{flag} " in text and f" {meaning} " in " ".join(text.split())
    assert "null" not in text and "list[str]" not in text


def test_help_writes_defaults_as_they_are_given(capsys):
    with pytest.raises(SystemExit):
        parse_options(Lists, ["--help"], "program")
    text = " ".join(capsys.readouterr().out.split())
    assert "--index FILE [FILE ...] folders (default: index/sample, b)" in text
    assert "--number N [N ...] numbers (default: 0)" in text
    assert "--over {links,bm25} [{links,bm25} ...] choices (default: links)" in text
    assert text.endswith("--dialect {hugo} a choice or nothing")


@pytest.mark.parametrize("text", ["a,b", 'nDCG(dcg="exp-log2")@10', "[x]", '"q', "#0", "a=b", "\\", ""])
@pytest.mark.parametrize("form", ["--encoder {} --words 3", "--encoder={} --words=3"])
def test_a_text_of_a_list_is_taken_as_it_is(text, form):
    argv = [word.format(text) for word in form.split()]
    options = parse("--corpus", "c", *argv)
    assert (options.encoder, options.words) == ([text], 3)


class Asked(Options):
    """Options next to words without a flag."""

    question: Positional[list[str]] = Field([])
    """the question"""
    only: list[str] = Field([])
    """filters"""
    number: list[int] = Field([])
    """numbers"""
    index: Path = Path("index")
    """a folder"""


@pytest.mark.parametrize(
    ("argv", "question", "only", "number"),
    [
        ("--only a:b how far", ["how", "far"], ["a:b"], []),
        ("--only a:b --only c:d how far", ["how", "far"], ["a:b", "c:d"], []),
        ("how far --only a:b c:d", ["how", "far"], ["a:b", "c:d"], []),
        ("--index x --only a:b how --only c:d e:f", ["how"], ["a:b", "c:d", "e:f"], []),
        ("--only=a:b how", ["how"], ["a:b"], []),
        ("--number 1 how", ["how"], [], [1]),
        ("how --number 1 2", ["how"], [], [1, 2]),
        ("--only a:b -- how", ["how"], ["a:b"], []),
    ],
)
def test_a_list_leaves_the_words_of_a_command_alone(argv, question, only, number):
    options = parse_options(Asked, argv.split(), "program")
    assert (options.question, options.only, options.number) == (question, only, number)


def test_a_word_that_is_missing_and_numbers_with_commas():
    class Needed(Asked):
        """A command with a word that it needs."""

        model: Positional[str]
        """a model"""

    with pytest.raises(UsageError, match="MODEL is missing"):
        parse_options(Needed, [], "program")
    assert parse_options(Asked, ["--number", "1,2", "how"], "program").number == [1, 2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("c", "c: a value without an option. Did you mean --corpus c?"),
        ("--corpus c --enc e", "unknown option --enc. Did you mean --encoder?"),
        ("corpus c", "corpus: an option begins with --. Did you mean --corpus c?"),
        ("--corpus c --words 2.5", "--words: needs a whole number of at least 0 (given: '2.5')"),
        ("--corpus c --kind d", "--kind: needs a or b (given: 'd')"),
        ("--corpus c -V", "unknown option -V"),
        ("--corpus c --title", "unknown option --title. Did you mean --no-title?"),
    ],
)
def test_mistakes_are_explained_in_plain_words(argv, message):
    with pytest.raises(UsageError) as caught:
        parse(*argv.split())
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("wrods", "words corpus", "Did you mean words?"),
        ("zzz", "words corpus", "Known: corpus, words."),
        ("index/nope", "index/hugo index/sample", "Known: index/hugo, index/sample."),
        ("smaple", "index/hugo index/sample", "Did you mean index/sample?"),
        ("folder:zzz", "folder:guide namespace:help", "Known: folder:guide, namespace:help."),
        ("folder:guidee", "folder:guide namespace:guide", "Did you mean folder:guide?"),
        ("dual", "co-mention dual-link-pairs", "Did you mean dual-link-pairs?"),
        ("NDCG", "nDCG P", "Did you mean nDCG?"),
        ("x", "", "Known: none."),
    ],
)
def test_the_nearest_name_or_all_of_them(name, known, hint):
    assert nearest(name, known.split()) == hint


def test_titles_say_which_name_is_meant():
    titles = {"nq-test": "Natural Questions, test", "wq": "WebQuestions", "nq": "Natural Questions"}
    assert nearest("natural-questions", titles, titles) == "Did you mean nq or nq-test?"
    presets = ["small-hlp-finetune", "small-finetune", "small-hlp-pretraining", "hlp-finetune"]
    few = "small-finetune, small-hlp-finetune or small-hlp-pretraining"
    assert nearest("small", presets) == f"Did you mean {few}?"
    assert nearest("wqq", titles, titles) == "Did you mean wq?"
