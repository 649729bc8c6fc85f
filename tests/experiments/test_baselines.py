"""The neural baselines: what they count, against numbers by hand; training, folders, what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from experiments.baselines import is_baseline
from experiments.baselines.drmm import histograms
from experiments.baselines.duet import Duet, exact_matches
from experiments.baselines.folders import BASELINES, load_baseline, new_baseline, read_embeddings
from experiments.baselines.knrm import ConvKnrm, Kernels
from experiments.baselines.shared import Words, cosines, split
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.commands.finetune import main
from linkseek.reranker.models.cross_encoder import Scorer
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.training.log import read_log
from tests.support.command import train_here
from tests.support.tiny.training import pair_rows, save_normalized, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")


def words(*rows: list[int]) -> Words:
    """Texts of word numbers; 0 fills up."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return Words(ids, torch.arange(longest) < torch.tensor([[len(row)] for row in rows]))


# --- by hand ---------------------------------------------------------------------------------------


def test_kernels_count_how_many_are_how_near():
    alike = torch.tensor([[[1.0, 0.0, 0.7]]])  # one query word, three text words, of which two are there
    phi = Kernels()(alike, torch.tensor([[True]]), torch.tensor([[True, True, False]]))[0] / 0.01
    counts = phi.exp().tolist()
    assert counts[0] == pytest.approx(1, abs=1e-4)  # mu 1, sigma 0.001: equal words alone
    assert counts[1] == pytest.approx(math.exp(-0.5), abs=1e-4)  # mu 0.9: (0.1)^2 / 0.02
    assert counts[5] == pytest.approx(math.exp(-0.5), abs=1e-4)  # mu 0.1, from the cosine 0
    assert counts[6] == pytest.approx(math.exp(-0.5), abs=1e-4)  # mu -0.1
    assert counts[2] == pytest.approx(math.exp(-(0.3**2) / 0.02), abs=1e-4)  # mu 0.7: the third is not there
    assert phi[10].item() == pytest.approx(math.log(1e-10), abs=1e-3)  # mu -0.9: nothing, cut


def test_kernels_add_up_the_query_words_that_are_there():
    alike = torch.tensor([[[1.0], [0.5], [-0.3]]])
    one, text = Kernels(), torch.tensor([[True]])
    both = one(alike, torch.tensor([[True, True, False]]), text)
    alone = [one(alike[:, [n]], torch.tensor([[True]]), text) for n in range(2)]
    torch.testing.assert_close(both, alone[0] + alone[1])


def test_a_histogram_of_the_worked_example():
    alike, same = torch.tensor([[[1.0, 0.0, -1.0, 0.9]]]), torch.tensor([[[True, False, False, False]]])
    found = histograms(alike, same, torch.tensor([[True, True, True, False]]), 30)
    assert found.shape == (1, 1, 30) and found.sum() == 3
    assert found[0, 0].nonzero()[:, 0].tolist() == [0, 14, 29]
    other = histograms(alike, torch.zeros_like(same), torch.ones(1, 4, dtype=torch.bool), 30)
    assert other[0, 0].nonzero()[:, 0].tolist() == [0, 14, 27, 28]  # as near, but not the same word


def test_exact_matches_of_the_worked_example():
    a, b, c = 1, 2, 3
    found = exact_matches(words([a, b]), words([b, c, a, b, 0]))
    assert found[0].tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 1, 0]]
    blank = exact_matches(words([a, 0], [a, b]), words([0, a], [b, a]))
    assert blank[1].tolist() == [[0, 1], [1, 0]]


def test_ngrams_of_the_worked_example():
    """Filters that add up their words: "new york" has the bigrams new + york, and york alone."""
    vectors = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    model = ConvKnrm(vectors, filters=2, longest=2)
    with torch.no_grad():
        for gram in model.grams:
            gram.bias.zero_()
            gram.weight.copy_(torch.eye(2)[:, :, None].expand(gram.weight.shape))
    unigrams, bigrams = model._ngrams(words([1, 2]))
    assert unigrams[0].tolist() == [[1, 0], [0, 1]] and bigrams[0].tolist() == [[1, 1], [0, 1]]
    assert cosines(model._ngrams(words([2]))[0], bigrams)[0, 0, 1].item() == pytest.approx(1)


def test_a_pair_is_taken_apart():
    features = {
        "input_ids": torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0], [3, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]]),
    }
    query, text = split(features)
    assert query.ids.tolist() == [[5, 6], [9, 0], [3, 0]] and text.ids.tolist() == [[7, 8], [4, 0], [0, 0]]
    assert query.mask.tolist() == [[True, True], [True, False], [True, False]]
    assert text.mask.tolist() == [[True, True], [True, False], [False, False]]


# --- all of them -----------------------------------------------------------------------------------

VECTORS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


def features(*pairs: tuple[list[int], list[int]]) -> dict[str, Tensor]:
    longest = max(len(query) + len(text) for query, text in pairs)
    rows = [(q + t + [0] * (longest - len(q) - len(t)), len(q), len(q) + len(t)) for q, t in pairs]
    places = torch.arange(longest)
    return {
        "input_ids": torch.tensor([ids for ids, _, _ in rows]),
        "attention_mask": torch.stack([(places < end).long() for _, _, end in rows]),
        "token_type_ids": torch.stack(
            [((places >= start) & (places < end)).long() for _, start, end in rows]
        ),
    }


@pytest.mark.parametrize("kind", BASELINES)
def test_a_score_depends_on_its_pair_alone(kind):
    """Not on the pairs beside it, nor on how far it is padded; texts without a word have one too."""
    torch.manual_seed(1)
    model = new_baseline(kind, VECTORS, 16).eval()
    pairs = [([3, 4], [5, 6, 7]), ([8], [9, 3, 2, 5, 6, 7, 3]), ([1, 2, 3], [4]), ([5], []), ([], [7, 8])]
    with torch.no_grad():
        together = model(features(*pairs))["scores"]
        alone = torch.cat([model(features(pair))["scores"] for pair in pairs])
    assert together.shape == (5, 1) and torch.isfinite(together).all()
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    assert together[:3].std() > 1e-6


def test_duet_reads_so_many_words_and_no_more():
    model = Duet(VECTORS, query_words=2, text_words=12).eval()
    long, cut = ([1, 2, 9], [*range(3, 20)]), ([1, 2], [*range(3, 15)])
    with torch.no_grad():
        first, second = model(features(long, cut))["scores"].tolist()
    assert first == pytest.approx(second)


# --- trained, saved, opened ------------------------------------------------------------------------

CONFIG = """
[model]
kind = "{kind}"
base = "{base}"
[data]
pairs = ["{folder}/pairs.jsonl"]
negatives = 3
[texts]
tokens = 28
[training]
batch = 8
epochs = 4
learning_rate = 2e-2
device = "cpu"
[dev]
pairs = ["{folder}/dev.jsonl"]
negatives = 4
[output]
folder = "{out}"
log_steps = 5
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    save_normalized(folder / "base")
    write_pairs(folder / "pairs.jsonl", pair_rows(40, hard=5))
    write_pairs(folder / "dev.jsonl", pair_rows(12, seed=2, hard=5))
    return folder


def train(data: Path, out: Path, kind: str, *settings: str) -> Path:
    path = out.with_suffix(".toml")
    path.write_text(CONFIG.format(kind=kind, base=data / "base", folder=data, out=out))
    train_here(main, path, *settings)
    return out


@pytest.mark.parametrize("kind", BASELINES)
def test_it_learns_and_its_folder_scores_as_the_model_did(kind, data, tmp_path):
    out = train(data, tmp_path / kind, kind)
    log = read_log(out / "log.jsonl")
    found = [line["loss"] for line in log if "loss" in line]
    assert found[-1] < 0.95 * found[0]
    best = max(line["mrr"] for line in log if "mrr" in line)
    assert best > 0.6  # by chance 0.46
    assert is_baseline(out) and json.loads((out / "config.json").read_text())["linkseek_baseline"] == kind
    assert f"A re-ranker ({kind}) from" in (out / "README.md").read_text()
    scorer = open_scorer(str(out), device="cpu")
    assert isinstance(scorer, Scorer) and len(scorer.identity["sha256"]) == 64
    queries, texts = ["bam bem", "dim", ""], ["t1 bam dim", "bem " * 60, ""]
    model, facts = load_baseline(out)
    tokens = scorer.tokenize_pairs(list(zip(queries, texts, strict=True)))
    assert [len(row) for row in tokens] == [6, 28, 0]
    with torch.no_grad():
        rows = [([i for i in row.tolist() if i >= 0], [~i for i in row.tolist() if i < 0]) for row in tokens]
        expected = torch.cat([model(features(row))["scores"] for row in rows[:2]])[:, 0].numpy()
    np.testing.assert_allclose(scorer.score(queries[:2], texts[:2]), expected, atol=1e-5)
    assert np.isfinite(scorer.score(queries, texts)).all() and facts.max_tokens == 28


def test_word_embeddings_of_a_file(data, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("Bam 1 0\nbem 0 1\nbam 5 5\n")
    _, vectors = read_embeddings(path)
    assert vectors.tolist() == [[0, 0], [1, 0], [0, 1]]  # first the unknown word
    out = train(data, tmp_path / "knrm", "knrm", f"model.embeddings='{path}'", "training.epochs=1")
    scorer = open_scorer(str(out), device="cpu")
    [tokens] = scorer.tokenize_pairs([("BAM, what", "bem bam")])
    assert tokens.tolist() == [1, 0, 0, ~2, ~1]
    path.write_text("3 2\nbam 1 0\nbem 0 1\n")  # word2vec's form
    assert read_embeddings(path)[1].shape == (3, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bam 1 0\nbem 1\n", r"line 2: expected a word and 2 numbers"),
        ("bam x y\n", r"line 1: expected a word and some numbers"),
        ("", "the file has no words"),
    ],
)
def test_a_file_that_holds_no_embeddings(tmp_path, text, message):
    (tmp_path / "e.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_embeddings(tmp_path / "e.txt")


@pytest.mark.parametrize("spoil", ["weights", "kind", "tokenizer", "options", "max_tokens"])
def test_a_damaged_folder_is_named(spoil, data, tmp_path):
    from experiments.baselines.folders import baseline_facts, save_baseline

    tokenizer, vectors = read_embeddings(_embeddings(tmp_path / "e.txt"))
    out = tmp_path / "knrm"
    save_baseline(new_baseline("knrm", vectors, 16), baseline_facts(tokenizer, 16), out)
    assert open_scorer(str(out), device="cpu").score(["bam"], ["bem"]).shape == (1,)
    if spoil == "weights":
        (out / "model.safetensors").write_bytes(b"x" * 100)
    elif spoil == "kind":
        (out / "config.json").write_text('{"linkseek_baseline": "other", "max_tokens": 3, "options": {}}')
    elif spoil == "options":
        config = {"linkseek_baseline": "conv-knrm", "max_tokens": 16, "options": {"filters": 16_000}}
        (out / "config.json").write_text(json.dumps(config))
    elif spoil == "max_tokens":
        (out / "config.json").write_text('{"linkseek_baseline": "knrm", "options": {}}')
    else:
        (out / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"re-ranker .*knrm: cannot be read"):
        open_scorer(str(out))
    shutil.rmtree(out)


def _embeddings(path: Path) -> Path:
    path.write_text("bam 1 0\nbem 0 1\n")
    return path
