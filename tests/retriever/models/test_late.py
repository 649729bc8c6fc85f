"""Late interaction: folders that older libraries wrote, an index of token vectors, and re-ranking by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from transformers import BertConfig, BertModel

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import write_json
from linkseek.retriever.models.late import late_library_model, open_late, save_head, with_layer
from linkseek.retriever.models.locations import check_is_here
from tests.support.tiny.models import save_tiny
from tests.support.tiny.training import VOCABULARY, save_tokenizer

TEXTS = ["bam bem , bim", "bom bum bam .", "bim"]
METADATA = {"query_maxlen": 12, "doc_maxlen": 24, "query_token_id": "bum", "doc_token_id": "bom"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def bert(folder: Path) -> torch.Tensor:
    """A tiny BERT in a folder; a projection to 8 numbers."""
    save_tokenizer(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    size = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    BertModel(BertConfig(vocab_size=size, **sizes)).save_pretrained(folder)
    return torch.randn(8, 16)


def colbert(folder: Path) -> Path:
    """As Stanford's ColBERT saves models: the projection beside the weights, settings as metadata."""
    projection = bert(folder)
    weights = {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights | {"linear.weight": projection}, folder / "model.safetensors", {"format": "pt"})
    settings = json.loads((folder / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "artifact.metadata").write_text(json.dumps(METADATA))
    return folder


def pylate(folder: Path) -> Path:
    """As PyLate saved models before sentence-transformers opened them."""
    projection = bert(folder)
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": projection}, folder / "1_Dense/model.safetensors")
    dense = {"in_features": 16, "out_features": 8, "bias": False}
    activation = {"activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "1_Dense/config.json").write_text(json.dumps(dense | activation))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 31}))
    prefixes = {"query_prefix": "bum ", "document_prefix": "bom ", "query_length": 12, "document_length": 24}
    settings = prefixes | {
        "model_type": "ColBERT",
        "attend_to_expansion_tokens": True,
        "skiplist_words": [","],
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("make", [colbert, pylate])
def test_models_of_other_libraries(tmp_path, make):
    """Prefixes, expanded questions, lengths and words that are left out, as the library reads them."""
    folder = make(tmp_path / "model")
    library, encoder = MultiVectorEncoder(str(folder), device="cpu"), open_late(str(folder), device="cpu")
    texts = [*TEXTS, " ".join(VOCABULARY[5:] * 9)]
    tokens = encoder.tokenize_passages([""] * len(texts), texts)
    assert max(map(len, tokens)) == 24
    for found, text in zip(encoder.token_vectors(tokens), texts, strict=True):
        np.testing.assert_allclose(found, library.encode_document(text, convert_to_numpy=True), atol=2e-2)
    for found, text in zip(encoder.encode_queries(TEXTS), TEXTS, strict=True):
        np.testing.assert_allclose(found, library.encode_query(text, convert_to_numpy=True), atol=1e-5)
        assert len(found) == 12
    assert not encoder.mean and encoder.dimension == 8


def test_a_module_that_pools_tokens_is_named(tmp_path):
    from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

    library = MultiVectorEncoder(str(pylate(tmp_path / "model")), device="cpu")
    library.append(HierarchicalTokenPooling())
    library.save_pretrained(str(tmp_path / "pooled"))
    with pytest.raises(InputError, match="HierarchicalTokenPooling"):
        open_late(str(tmp_path / "pooled"), device="cpu")


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """A folder with a base and a layer over its token vectors."""
    folder = tmp_path_factory.mktemp("layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        base = str(save_tiny(Path("base")))
        save_head(with_layer(late_library_model(Path(base), base), 8), base, Path("head"))
        assert open_late("head").dimension == 8
    return folder


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("head/adapter_model.safetensors", {"linear.weight": torch.ones(8, 5)}),
        ("head/adapter_model.safetensors", {"linear.weight": torch.full((8, 32), torch.nan)}),
        ("head/adapter_model.safetensors", {"weight": torch.ones(8, 32)}),
        ("head/adapter_config.json", {"task_type": "TOKEN_VECTORS"}),
        ("head/adapter_config.json", {"task_type": "TOKEN_VECTORS", "base_model_name_or_path": "head"}),
        ("head/config_sentence_transformers.json", {"prompts": {}}),
        ("base/config_sentence_transformers.json", {"prompts": {"query": "x"}}),
    ],
    ids=["shape", "not finite", "name", "no base", "itself", "no length", "another base"],
)
def test_a_layer_that_does_not_fit_its_base_is_refused(file, change, layer, tmp_path, monkeypatch):
    shutil.copytree(layer, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    write_json(Path(file), change) if file.endswith("json") else save_file(change, file)
    with pytest.raises(InputError):
        open_late("head")


def test_the_included_layer_is_on_this_machine():
    check_is_here("linkseek-late", "a layer")
