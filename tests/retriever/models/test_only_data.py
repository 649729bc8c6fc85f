"""The folder of a model is only data: what it may name, and that every door checks it."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.checks.only_data import check_only_data
from linkseek.retriever.models.locations import find_model, shipped_models

ROOT = Path(__file__).parents[3]
CODE = {"auto_map": {"AutoModel": "evil.Model"}}
ST = "sentence_transformers"


def check(folder, file, settings):
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(settings))
    check_only_data(folder)


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        *((file, CODE) for file in ("config.json", "0_Transformer/config.json", ".hidden/any.json")),
        ("config.json", {"text_config": CODE}),
        ("config.json", {"sub_configs": [[CODE]]}),
        ("config_sentence_transformers.json", {"activation_fn": "torch.distributed.run.main"}),
        ("config_sentence_transformers.json", {"activation_fn": ["torch.seed"]}),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.hub.list"}}),
        ("config.json", {"sbert_ce_default_activation_function": "torch.seed"}),
        ("2_Dense/config.json", {"activation_function": "torch.utils.collect_env.main"}),
        ("modules.json", [{"type": "os.system", "path": ""}]),
        ("modules.json", [{"type": f"{ST}.base.model.pickle", "path": ""}]),
        ("modules.json", [{"type": f"{ST}.models.WordEmbeddings", "path": ""}]),
        ("modules.json", [{"type": f"{ST}.models.Dense", "path": "../other"}]),
        ("modules.json", [{"type": f"{ST}.models.Dense", "path": ".hidden"}]),
        ("router_config.json", {"types": {"a": "os.path"}}),
        ("router_config.json", {"types": {"../a": f"{ST}.models.Dense"}}),
        ("tokenizer_config.json", {"tokenizer_class": "AutoModel"}),
        ("tokenizer_config.json", {"tokenizer_class": "evil.Tokenizer"}),
        ("tokenizer_config.json", {"processor_class": "CLIPProcessor"}),
        ("tokenizer_config.json", {"init_inputs": ["/etc/passwd"]}),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}),
        ("config.json", {"model_type": "rag"}),
        ("config.json", {"architectures": ["os.system"]}),
        ("config.json", {"attn_implementation": "someone/kernel"}),
        ("config.json", {"_attn_implementation": {"": "someone/kernel"}}),
        ("config.json", {"quantization_config": {"quant_method": "bitsandbytes"}}),
        ("config.json", {"transformers_weights": "adapter_model.bin"}),
        ("config.json", {"custom_pipelines": {"a": {"impl": "evil.Pipeline"}}}),
        ("generation_config.json", {"custom_generate": "someone/code"}),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "someone/tokenizer"}),
        ("sentence_bert_config.json", {"model_args": {"use_kernels": True}}),
        ("sentence_bert_config.json", {"transformer_task": "retrieval"}),
        ("sentence_bert_config.json", {"modality_config": {"text": {"method": "save_pretrained"}}}),
        ("adapter_config.json", {"megatron_core": "os"}),
        ("adapter_config.json", {"megatron_config": {"a": 1}}),
        ("adapter_config.json", {"corda_config": {"cache_file": "x.pt"}}),
        ("adapter_config.json", {"auto_mapping": {"base_model_class": "system", "parent_library": "os"}}),
        ("adapter_config.json", {"target_modules": "(([a-z]+)+)+!"}),
        ("adapter_config.json", {"peft_type": "XLORA"}),
        ("adapter_config.json", {"unheard_of": 1}),
        ("model.safetensors.index.json", {"weight_map": {"a": "pytorch_model.bin"}}),
        ("model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}}),
    ],
)
def test_nothing_that_is_imported_called_or_read_from_elsewhere(tmp_path, file, settings):
    with pytest.raises(InputError) as caught:
        check(tmp_path, file, settings)
    assert f"{tmp_path / file}: " in caught.value.message and "expected" in caught.value.message


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        *(("sentence_bert_config.json", {"max_seq_length": value}) for value in (-5, "abc", [1], 1, True)),
        ("tokenizer_config.json", {"model_max_length": -1}),
        ("config.json", {"num_hidden_layers": 100_000}),
        ("2_Dense/config.json", {"in_features": 60_000}),
        ("adapter_config.json", {"r": 10**7}),
        ("config_sentence_transformers.json", {"prompts": ["a"]}),
        ("config_sentence_transformers.json", {"prompts": {"title_separator": ["a"]}}),
        ("config_sentence_transformers.json", {"truncate_dim": -1}),
    ],
)
def test_numbers_and_texts_that_make_no_sense(tmp_path, file, settings):
    with pytest.raises(InputError, match="expected"):
        check(tmp_path, file, settings)


@pytest.mark.parametrize(
    "data",
    [b"{", b" " * (16 << 20) + b"{}", b'{"a":' * 100_000, b'{"p": "\\ud800"}', b"\xff\xfe{\x00}\x00", b"5"],
)
def test_damaged_settings_are_named(tmp_path, data):
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(InputError, match=r"config\.json"):
        check_only_data(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "2_Dense/pytorch_model.bin", "adapter_model.bin"])
def test_only_safetensors_are_read(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="pickled"):
        check_only_data(tmp_path)
    path.with_name(path.stem.removeprefix("pytorch_") + ".safetensors").write_bytes(b"")
    check_only_data(tmp_path)  # then that is read


def test_pipes_and_links_to_other_folders(tmp_path):
    folder, other = tmp_path / "model", tmp_path / "other"
    folder.mkdir(), other.mkdir()
    (folder / "vocab.txt").symlink_to(other / "vocab.txt")  # as in the Hub's cache
    check_only_data(folder)
    (folder / "1_Pooling").symlink_to(other)
    with pytest.raises(InputError, match="1_Pooling: neither a file nor a folder"):
        check_only_data(folder)
    (folder / "1_Pooling").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(InputError, match=r"config\.json: neither"):
        check_only_data(folder)


@pytest.mark.parametrize("name", [DEFAULT_ENCODER, *shipped_models()])
def test_our_own_models_are_only_data(name):
    check_only_data(find_model(name))


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("config_sentence_transformers.json", {"activation_fn": "torch.nn.modules.activation.Sigmoid"}),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Tanh"}),
        ("config.json", {"activation_function": "gelu_new", "torch_dtype": "float16", "auto_map": None}),
        ("modules.json", [{"type": f"{ST}.models.Transformer", "path": ""}]),
        ("tokenizer_config.json", {"model_max_length": 10**30, "tokenizer_class": "XLMRobertaTokenizer"}),
        ("vocab.json", {"auto_map": 5, "type": 6}),
        ("model.safetensors.index.json", {"weight_map": {"a.b": "model-00001-of-00002.safetensors"}}),
        ("adapter_config.json", {"peft_type": "LORA", "target_modules": "all-linear", "loftq_config": {}}),
    ],
)
def test_what_models_of_the_hub_hold(tmp_path, file, settings):
    check(tmp_path, file, settings)


def calls() -> list[tuple[str, ast.Call, ast.AST]]:
    """(file, call, call around it) of all programs of the project."""
    found = []
    for part in ("indexer", "retriever", "reranker", "app", "benchmarks", "experiments", "docs", "samples"):
        for path in (ROOT / part).rglob("*.py"):
            for outer in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(outer, ast.Call):
                    found.append((str(path.relative_to(ROOT)), outer, outer.func))
    return found


def test_every_door_goes_through_one_function():
    """No library reads a model's folder except through `retriever.models.library.from_folder`.

    Names of readers may be passed to it; a call of one is a door beside it. Models that are put together from
    modules read nothing.
    """
    beside, pickles = [], []
    for file, call, function in calls():
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
        if name in ("from_pretrained", "load_pretrained"):
            beside.append((file, ast.unparse(call)))
        if name in ("SentenceTransformer", "CrossEncoder", "SparseEncoder", "Transformer") and call.args:
            beside.append((file, ast.unparse(call)))
        if name in ("load", "loads") and owner in ("torch", "pickle", "joblib", "dill", "numpy", "np"):
            pickles.append((file, ast.unparse(call)))
        for keyword in call.keywords:
            assert keyword.arg != "trust_remote_code" or ast.unparse(keyword.value) == "False", file
    assert beside == [  # both in a reader that is passed to `from_folder`, by `read_adapters`
        ("retriever/models/bases.py", "PeftModel.from_pretrained(transformer, path)"),
        ("reranker/models/bases.py", "LoraConfig.from_pretrained(path)"),
    ]
    assert pickles == [("experiments/pickled.py", "torch.load(path, map_location='cpu', weights_only=True)")]
