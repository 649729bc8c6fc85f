"""Masked language modelling: what is masked, its loss, and a run."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForMaskedLM

from linkseek.retriever.models.bases import open_base
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.masked_training import MaskedBert, Masker
from linkseek.retriever.training.samples.sample_table import Sample
from tests.support.tiny.runs import undisturbed
from tests.support.tiny.training import VOCABULARY, save_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    save_tokenizer(folder)
    return folder


def test_of_15_percent_80_are_masked_10_replaced_and_10_left(tokenizer):
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tokenizer)
    masker = Masker(words, 40, seed=3)
    text = " ".join(["bam bem bim"] * 10)
    batch = masker([Sample(n, "", text) for n in range(2000)], 0)
    ids, labels = batch["input_ids"], batch["labels"]
    original = torch.tensor(words(text)["input_ids"]).expand_as(ids)
    chosen = labels != -100  # [B, L]
    assert ids.shape == (2000, 32)
    assert torch.equal(labels[chosen], original[chosen])
    assert torch.equal(ids[~chosen], original[~chosen])
    assert not chosen[:, [0, -1]].any()  # neither [CLS] nor [SEP]
    assert chosen[:, 1:-1].float().mean().item() == pytest.approx(0.15, abs=0.005)
    masked = ids[chosen] == words.mask_token_id
    kept = ids[chosen] == original[chosen]
    shares = [s.float().mean().item() for s in (masked, kept, ~masked & ~kept)]
    # of the tenth that is drawn anew, a few get the token that they had
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    assert len(set(ids[chosen][~masked & ~kept].tolist())) > 0.8 * len(VOCABULARY)


def test_the_head_reads_masked_tokens_alone_and_the_loss_is_the_librarys(tokenizer):
    from transformers import AutoTokenizer, BertConfig

    words = AutoTokenizer.from_pretrained(tokenizer)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 32}
    torch.manual_seed(0)
    theirs = transformers.BertForMaskedLM(BertConfig(vocab_size=len(words), **sizes)).eval()
    ours = MaskedBert(copy.deepcopy(theirs))
    batch = Masker(words, 40, 3)([Sample(n, "", "bam bem bim bom bum " * (n + 1)) for n in range(5)], 0)
    losses = [ours(batch), theirs(**batch).loss]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    for loss in losses:
        loss.backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, other.grad, atol=1e-6, rtol=1e-4, msg=name)
    unmasked = dict(batch, labels=torch.full_like(batch["labels"], -100))
    assert ours(unmasked).item() == 0


def test_masks_depend_on_seed_epoch_and_rows_alone(tokenizer):
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tokenizer)
    samples = [Sample(n, "", "bam bem bim bom bum " * 4) for n in range(8)]
    one, same = Masker(words, 40, 3), Masker(words, 40, 3)
    first = one(samples, 0)["input_ids"]
    assert torch.equal(first, same(samples, 0)["input_ids"])
    assert not torch.equal(first, same(samples, 1)["input_ids"])
    assert not torch.equal(first, Masker(words, 40, 4)(samples, 0)["input_ids"])


def test_a_run_ends_with_a_bert(training_data):
    out = undisturbed("mlm", training_data) / "out"
    log = read_log(out / "log.jsonl")
    assert [line["step"] for line in log] == [2, 3, 4, 6]  # each second, and the end of an epoch
    assert log[-1]["loss"] < log[0]["loss"]
    assert log[0]["passages_per_second"] > 0
    assert AutoModelForMaskedLM.from_pretrained(out).config.num_hidden_layers == 2
    assert open_base(str(out)).encode(["bam"]).shape == (1, 32)
