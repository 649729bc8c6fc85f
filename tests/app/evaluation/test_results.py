"""results.json: written as it is read; anything else is refused with a sentence."""

import json
import math

import pytest

from linkseek.app.evaluation.results import Results, parse_results
from linkseek.indexer.program.errors import InputError
from tests.support.results_records import RESULTS, changed


def parse(raw):
    return parse_results(json.dumps(raw).encode(), "mine")


def paths(value, prefix=()):
    """The paths of all values; of a list only those in its first item."""
    if prefix:
        yield prefix
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*prefix, key))
    elif isinstance(value, list) and value:
        yield from paths(value[0], (*prefix, 0))


EVERY = list(paths(RESULTS))
OPEN = ("per_query", "versions", "parts_sha256", "corpus", "models")  # whose keys are anyone's
OPTIONAL = {
    ("answer_kind",),
    *[("provenance",), *[("analyses", name, "without_value") for name in ("overlap", "length")]],
    ("analyses", "overlap"),
    *[("analyses", "groups"), ("counts", "queries_with_judgements"), ("provenance", "machine", "memory_gb")],
    *[("provenance", "revision"), ("provenance", "corpus"), ("provenance", "models")],
}


def test_what_is_written_is_what_was_read(tmp_path):
    assert parse(RESULTS).to_json() == RESULTS
    parse(RESULTS).write(tmp_path)
    assert json.loads((tmp_path / "results.json").read_bytes()) == RESULTS


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_versions_are_refused(version):
    with pytest.raises(InputError, match="the results of mine are damaged, or their version is not 1:"):
        parse(changed("version", to=version))


def test_every_missing_key_is_refused_or_optional():
    assert len(EVERY) > 150
    for path in EVERY:
        raw = changed(*path, remove=True)
        if path in OPTIONAL or any(key in OPEN for key in path[:-1]):
            parse(raw)
            continue
        try:
            results = parse(raw)
        except InputError as error:
            assert "the results of mine" in error.message and error.hint
        else:  # an entry of a mapping or of a list that nothing else names
            assert isinstance(results, Results)
            assert path[:-1] in {
                *[("comparisons",), ("notes",)],
                *[("questions",), ("questions", 0, "answers")],
                *[("curves", "pipelines"), ("analyses", "groups"), ("provenance", "files")],
                *[("pipelines", name, "measures") for name in ("bm25", "dense", "mixed_run")],
                *[("pipelines", "bm25", "latency"), ("pipelines", "dense", "latency")],
                *[("analyses", "groups", "bridge", "pipelines")],
                *[("analyses", "groups", "bridge", "pipelines", name) for name in ("bm25", "dense")],
                *[("analyses", name, "bins") for name in ("overlap", "length")],
                *[("analyses", name, "bins", 0, "pipelines") for name in ("overlap", "length")],
            }, path


def test_wrong_values_are_refused_with_their_place():
    for number, path in enumerate(EVERY):
        if any(key in OPEN for key in path[:-1]) or path in (
            ("provenance", "corpus"),
            ("provenance", "models"),
        ):
            continue
        wrong = ([None], {"x": [None]}, math.inf, math.nan)[number % 4]
        with pytest.raises(InputError) as caught:
            parse(changed(*path, to=wrong))
        place = ".".join(str(key) for key in path)
        assert "JSON" in caught.value.message or place in caught.value.message


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("baseline",), "gone", 'no pipeline "gone" was evaluated'),
        (("comparisons", 0, "b"), "gone", 'no pipeline "gone"'),
        (("main_measure",), "R@7", 'no measure "R@7"'),
        (("comparisons", 0, "measure"), "R@7", 'no measure "R@7"'),
        (("curves", "ks"), [1, 2], "a curve is not as long as its ks"),
        (("pipelines", "dense", "latency"), {}, None),
        (("pipelines", "dense", "latency", "search"), None, "latency.search"),
    ],
)
def test_names_and_lengths_fit(path, value, message):
    raw = changed(*path, to=value)
    if message is None:
        parse(raw)
        return
    with pytest.raises(InputError) as caught:
        parse(raw)
    assert message in caught.value.message


def test_a_reversed_comparison_is_the_other_side():
    results = parse(RESULTS)
    forth, back = (
        results.comparison("bm25", "dense", "nDCG@10"),
        results.comparison("dense", "bm25", "nDCG@10"),
    )
    assert (back.a, back.b, back.difference, back.low, back.high) == ("dense", "bm25", 0.262, 0.2, 0.3)
    assert (back.wins, back.losses, back.effect_size) == (forth.losses, forth.wins, -forth.effect_size)
    assert back.significant and back.reversed() == forth
    assert results.comparison("bm25", "bm25", "nDCG@10") is None
