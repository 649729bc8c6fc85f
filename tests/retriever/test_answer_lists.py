"""Answers in the forms of data sets and libraries, from questions to pairs."""

from __future__ import annotations

import json

import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.answer_lists import read_answers
from linkseek.retriever.mining.pairs import read_pairs
from linkseek.retriever.queries import as_queries, read_queries
from linkseek.retriever.ranking import Query

BOTH = ("Jove", "L'Aquila")
PRINTED = [
    "['Jove', \"L'Aquila\"]",
    "('Jove', \"L'Aquila\")",
    "[['Jove'], [\"L'Aquila\"]]",
    '["Jove", "L\'Aquila"]',
    "{'value': 'Jove', 'aliases': ['Jove', \"L'Aquila\"], 'matched_wiki_entity_name': None}",
    "{'text': ['Jove', \"L'Aquila\"], 'answer_start': [3, 9]}",
]


@pytest.mark.parametrize("printed", PRINTED)
def test_printed_lists_are_their_elements_through_every_door(printed, tmp_path):
    assert read_answers(printed, "here") == BOTH
    quoted = printed.replace('"', '""')
    files = {
        "heads.csv": f'question,answers\nwho,"{quoted}"\n',
        "heads.tsv": f'question\tanswers\nwho\t"{quoted}"\n',
        "dpr.csv": f'who\t"{quoted}"\n',
        "q.jsonl": json.dumps({"question": "who", "golden_answers": printed}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert read_queries(tmp_path / name) == [Query("0", "who", BOTH)], name
    pair = {"question": "who", "positive_ctxs": [{"text": "t"}], "answers": printed}
    (tmp_path / "p.jsonl").write_text(json.dumps(pair))
    assert next(read_pairs(tmp_path / "p.jsonl")).answers == BOTH


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Jove", ("Jove",)),
        ("(1969)", ("(1969)",)),
        ("[0-9]+ miles", ("[0-9]+ miles",)),
        ("[sic]", ("[sic]",)),
        ("", ()),
        ("[]", ()),
        (["Jove"], ("Jove",)),
        ([["Jove"], ["Jupiter"]], ("Jove", "Jupiter")),
        ({"Value": "Jove", "Aliases": ["Jupiter"], "Type": "x"}, ("Jove", "Jupiter")),
        ([{"text": "Jove", "answer_start": 1}], ("Jove",)),
        ({"text": [], "answer_start": []}, ()),
        (r'["\ud83d\ude00", "AC\/DC"]', ("😀", "AC/DC")),
        (r"['\ud83d\ude00', 'x']", ("😀", "x")),
        (["\ud83d\ude00"], ("😀",)),
    ],
)
def test_other_forms(value, expected):
    assert read_answers(value, "here") == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("['a', 'b', ..., 'z']", ""),
        ("['a' 'b' ... 'z']", "a comma is missing"),
        ("['a' \n 'b']", "a comma is missing"),
        ("['a', 'b'...", ""),
        ("['a', 'b", ""),
        ("['a', 'b'", ""),
        ("array(['a', 'b'], dtype=object)", ""),
        ("[list(['a']) list(['b'])]", ""),
        ("[array(['a'], dtype=object)]", ""),
        ("{'text': array(['a'], dtype=object), 'answer_start': array([3], dtype=int32)}", ""),
        ("[np.str_('a')]", ""),
        ("Index(['a'], dtype='object')", ""),
        ("frozenset({'a'})", ""),
        ("['a' 'b', 'c']", "a comma is missing"),
        ("['a''b']", "a comma is missing"),
        ("('a' 'b')", "a comma is missing"),
        ("['a', nan]", ""),
        ("['a'] + ['b']", ""),
        ("[open('x')]", ""),
        ("<StringArray>\n['a']", ""),
        ("[b'x']", ""),
        (r"['\ud83d']", "unpaired surrogate"),
        (["\ud83d"], "unpaired surrogate"),
        ("nan", "missing value"),
        ("None", "missing value"),
        ({"a": 1}, "none of its keys"),
        ([1], ""),
        ([None], ""),
        (7, ""),
        ("[" * 5000 + "'a'", ""),
        ([[[[[[[[[["a"]]]]]]]]]], ""),
    ],
)
def test_what_is_no_complete_list_of_texts_is_refused(value, reason):
    with pytest.raises(InputError, match="here: the answers are not a list of texts") as caught:
        read_answers(value, "here")
    assert reason in caught.value.message and caught.value.hint


@pytest.mark.parametrize("name", ["answer", "answers", "golden_answers", "possible_answers", "ground_truth"])
def test_answers_have_many_names_and_an_empty_one_does_not_hide_another(name, tmp_path):
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": "q", "answers": [], name: ["x"]}))
    assert read_queries(tmp_path / "q.jsonl") == [Query("0", "q", ("x",))]


def test_aliases_are_answers(tmp_path):
    (tmp_path / "q.jsonl").write_text('{"question": "q", "answer": "x", "answer_aliases": ["y", "x"]}')
    assert read_queries(tmp_path / "q.jsonl") == [Query("0", "q", ("x", "y"))]


def test_halves_of_characters_in_python():
    [query] = as_queries([Query("\ud83d\ude00", "q \ud83d\ude00", ("\ud83d\ude00",))])
    assert query == Query("😀", "q 😀", ("😀",))
    for halves in (Query("\ud83d", "q"), Query("1", "q", ("\ude00",))):
        with pytest.raises(UsageError, match="unpaired surrogate"):
            as_queries([halves])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[\n {"question": "a"}\n]', "a JSON array over several lines", "jq -c '.[]'"),
        ('[{"question": "a"}, {"question": "b"}]', "a JSON array", "jq -c '.[]'"),
        ('{\n "Data": [\n  {"Question": "a"}\n ]\n}', "a JSON document over several lines", "jq -c '.KEY[]'"),
        ('{"Data": [{"Question": "a"}], "Domain": "Web"}', '"text" is missing', "jq -c '.Data[]'"),
        ("query number\tsentence\n1\twho", "names of columns", "id and text"),
        ("id,words\n1,who", "1 tab-separated fields", "names of columns"),
        ("num\ttitle\n1\twho", "line 1: names of columns", "id and text"),
        ("qid\tquery\n1\twho\nqid\tquery\n2\twhat", "line 3: names of columns", "first line alone"),
        ("1\twho\r2\twhat\r", "line 1: 3 tab-separated", "old Macs"),
        ("PAR1\x15\x04", "a Parquet file", "read_parquet"),
        ("<top>\n<num> 301\n<title> who\n</top>", "XML or SGML", "Convert it"),
        ('["who", "what"]', "expected a JSON object", "one question per line"),
        ("question,answers\nwho,Jove|Jupiter", "separated by |", '["Jove", "Jupiter"]'),
        ('{"question": "who", "answers": "Jove | Jupiter"}', "separated by |", '["Jove", "Jupiter"]'),
        ('question,id\n"who,\nor what",7', "line 2: a quoted field does not end", "read_csv"),
        ("id,question\n1,who is it, then", "line 2: 3 comma-separated fields, expected 2", "quotation marks"),
        ("question;answers;x\nwho;Paris;;France", "4 semicolon-separated", "quotation marks"),
        ('id;question\n1;"who;\nor what; then"', "line 2: a quoted field does not end", "read_csv"),
        (json.dumps({f"q{n}": "who" for n in range(999)}), "(it has q0, q1, q2", "to_entries"),
    ],
)
def test_other_layouts_are_named_with_what_to_do(text, message, hint, tmp_path):
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_queries(tmp_path / "q.json")
    assert message in caught.value.message and hint in caught.value.hint
    assert len(caught.value.message) < 400
