"""Results of three made-up pipelines over 200 questions, as results.json holds them."""

import copy

from linkseek.app.evaluation.results import Results


def score(mean, low, high):
    return {"mean": mean, "low": low, "high": high, "queries": 200, "per_query": {"q1": mean}}


def comparison(measure, a, b, difference, low, high, p, **changes):
    record = {"measure": measure, "a": a, "b": b, "difference": difference, "low": low, "high": high}
    record |= {"p_randomisation": p / 3, "p_t": p / 2, "p_randomisation_holm": p, "p_t_holm": p * 1.5}
    record |= {"p_equivalence": 0.5, "wins": 30, "ties": 155, "losses": 15, "effect_size": 0.214}
    return record | {"queries": 200} | changes


def bin_of(low, high, queries, **pipelines):
    return {"low": low, "high": high, "queries": queries, "pipelines": pipelines, "query_ids": []}


def percentiles(p50):
    return {"p50": p50, "p95": p50 * 2, "p99": p50 * 3, "questions": 100}


def share(mean):
    return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}


def pipeline(scores, latency=None, **changes):
    timed = {"seconds": 2.0, "queries_per_second": 100.0} if latency else {}
    return {
        "measures": scores,
        "run": "runs/x.trec",
        "source": "pipeline" if latency else "file",
        "seconds": None,
        "queries_per_second": None,
        "latency": latency,
        "queries_without_results": 0,
    } | timed | changes  # fmt: skip


RESULTS = {
    "version": 1,
    "test_set": {"name": "nq", "description": "Natural Questions", "licence": "CC BY-SA", "source": "nq.csv"},
    "questions": [{"id": "q1", "text": "who was the first woman to win", "answers": ["Curie"]}],
    "answer_kind": "tokens",
    "baseline": "bm25",
    "pipelines": {
        "bm25": pipeline(
            {"accuracy@20": score(0.24, 0.2, 0.28), "nDCG@10": score(0.762, 0.7, 0.8)},
            {"search": percentiles(0.00123), "total": percentiles(0.0123)},
            queries_without_results=1,
        ),
        "dense": pipeline(
            {"accuracy@20": score(0.285, 0.245, 0.325), "nDCG@10": score(0.5, 0.4, 0.6)},
            {"total": percentiles(1.24)},
        ),
        "mixed_run": pipeline({"accuracy@20": score(0.27, 0.23, 0.31), "nDCG@10": score(1.0, 1.0, 1.0)}),
    },
    "measures": ["accuracy@20", "nDCG@10"],
    "main_measure": "accuracy@20",
    "comparisons": [
        comparison("accuracy@20", "bm25", "dense", 0.045, 0.01, 0.08, 0.0003),
        comparison("accuracy@20", "bm25", "mixed_run", 0.03, -0.005, 0.065, 0.081, p_equivalence=0.012),
        comparison("accuracy@20", "dense", "mixed_run", -0.015, -0.05, 0.02, 0.4, effect_size=-0.05),
        comparison("nDCG@10", "bm25", "dense", -0.262, -0.3, -0.2, 0.012),
        comparison("nDCG@10", "bm25", "mixed_run", 0.238, 0.2, 0.3, 0.03),
        comparison("nDCG@10", "dense", "mixed_run", 0.5, 0.4, 0.6, 0.001),
    ],
    "curves": {
        "measure": "accuracy",
        "ks": [1, 2, 3, 4, 5],
        "pipelines": {
            "bm25": [0.1, 0.125, 0.15, 0.175, 0.2],
            "dense": [0.05, 0.1, 0.15, 0.2, 0.25],
            "mixed_run": [0.1, 0.1, 0.1, 0.1, 0.1],
        },
    },
    "analyses": {
        "overlap": {
            "label": "share of the question's words",
            "without_value": 7,
            "bins": [
                bin_of(
                    i / 5,
                    (i + 1) / 5,
                    10 * i,
                    **{n: share(0.3 + i / 10) for n in ("bm25", "dense")[: i + 1]},
                )
                for i in range(5)
            ],
        },
        "length": {
            "label": "words of the question",
            "without_value": 0,
            "bins": [
                bin_of(3, 3, 80, bm25=share(0.25), dense=dict.fromkeys(("mean", "low", "high"))),
                bin_of(4, 12, 120, bm25=share(0.35)),
            ],
        },
        "groups": {
            "bridge": {
                "queries": 150,
                "query_ids": [],
                "pipelines": {
                    "bm25": {"accuracy@20": 0.2, "nDCG@10": 0.3},
                    "dense": {"accuracy@20": 0.4, "nDCG@10": None},
                },
            }
        },
    },
    "counts": {"queries": 200, "queries_with_answers": 200, "queries_with_judgements": 150},
    "judged_level": "passages",
    "depth": 100,
    "batch_size": 256,
    "seeds": {"bootstrap": 12345, "randomisation": 54321},
    "notes": ["mixed_run: 3 of its ids are not in the index and count as not relevant"],
    "provenance": {
        "date": "2026-11-20T16:58:14+00:00",
        "command": "linkseek evaluate --index index/nq",
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "machine": {"processor": "A processor", "cores": 2, "memory_gb": 24, "system": "Linux x86_64"},
        "index": {"path": "index/nq", "manifest_sha256": "aaa", "parts_sha256": {"links": "bbb"}},
        "files": {"queries": {"path": "nq/queries.jsonl", "sha256": "ddd"}},
        "revision": {"commit": "8fff9c8", "changed_since": True},
        "corpus": {"file": "docs.jsonl", "documents": 4598, "passages": 146151},
        "models": {"my_mini": {"sha256": "ccc", "dimension": 384}},
    },
}


def changed(*path, to=None, remove=False, of=RESULTS):
    """The results with one value replaced or removed, as JSON."""
    results = copy.deepcopy(of)
    at = results
    for key in path[:-1]:
        at = at[key]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return results


def record(raw=RESULTS):
    """The record of results that were read from JSON."""
    return Results.model_validate(raw)
