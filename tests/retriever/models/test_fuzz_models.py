"""Altered settings in a model's folder: it is opened and used, or refused by name; nothing else happens.

The examples are the same in every run. A longer search: `make fuzz`. What it finds becomes a case
of `test_only_data.py`, or stands below.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.indexer.program.errors import LinkseekError
from linkseek.reranker.models.bases import CROSS_ENCODER
from linkseek.retriever.models import library as library_module
from linkseek.retriever.models.backends.static_engine import load_static
from linkseek.retriever.models.biencoder import PassageTokenizer, TextFormat, load_tower
from linkseek.retriever.models.checks import only_data
from linkseek.retriever.models.facts import open_tokenizer
from linkseek.retriever.models.library import load_library_model, max_tokens, model_facts
from linkseek.retriever.models.locations import BI_ENCODER, PASSAGES
from tests.support.fuzzing import altered, examples
from tests.support.tiny.models import save_model2vec, save_tiny, save_tiny_reranker

STATIC = replace(BI_ENCODER, word="static encoder")
SAVE = {
    BI_ENCODER.word: partial(save_tiny, prompts={"query": "q: ", "document": "d: "}),
    CROSS_ENCODER.word: save_tiny_reranker,
    STATIC.word: save_model2vec,
}
CODE = "evil_module_of_a_folder"
EVENTS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"}
EVENTS |= {"socket.connect", "socket.getaddrinfo"}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.sampled_from(
        [
            f"{CODE}.Model", f"os.system--{CODE}.Model", "torch.hub.list", "torch.distributed.run.main",
            "os.system", "torch.nn.modules.activation.Tanh", "../x", "/etc/passwd", "pytorch_model.bin",
            "a/b", "a\0b", "Transformer", "BertModel", "bert", "t5", "model2vec", "left", "cosine",
            "manhattan", "query", ".", "CLIPModel", "float16", "mean", "[CLS]",
            "", "\ud800",
        ]
    ),
    st.sampled_from(
        [
            {"AutoConfig": f"{CODE}.Model", "AutoTokenizer": [None, f"{CODE}.Model"]},
            {"AutoModel": f"{CODE}.Model"},
            {"load_in_4bit": True, "quant_method": "bitsandbytes"}, {"": "sdpa"}, {"0": "a"},
        ]
    ),
    st.lists(st.integers(-2, 99), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
_KEYS = st.sampled_from(
    [
        *only_data._RULES, "name", "path", "idx", "pooling_mode", "hidden_size", "vocab_size", "modules",
        "do_lower_case", "router", "query_encode", "layer_types", "rope_scaling", "id2label", "pad_token",
        "unk_token", "added_tokens_decoder", "extra_special_tokens", "modality_config",
        "max_position_embeddings", "include_prompt", "similarity_fn_name", "truncation_side", "padding_side",
        "normalize", "embedding_dimension", "bias", "use_residual",
    ]
)  # fmt: skip
_CODE_AT_ITS_PLACE = st.sampled_from(
    [
        ("type", f"{CODE}.Model"),
        ("auto_map", {"AutoConfig": f"{CODE}.Model", "AutoModel": f"{CODE}.Model"}),
        ("activation_fn", "torch.distributed.run.main"),
        ("activation_function", f"{CODE}.Model"),
        ("tokenizer_class", f"{CODE}.Model"),
    ]
)
events: list[str] = []
watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and (event in EVENTS or (event == "import" and CODE in str(arguments[:2]))):
        events.append(f"{event} {arguments[:2]}")


KINDS = {"bi-encoder": BI_ENCODER, "cross-encoder": CROSS_ENCODER, "model2vec": STATIC}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """(kind, folder), with a module in the folder that no library may import."""
    folder = tmp_path_factory.mktemp("models") / "model"
    SAVE[request.param.word](folder)
    (folder / f"{CODE}.py").write_text("raise SystemExit('code of a folder ran')")
    (folder / "__main__.py").write_text("raise SystemExit('code of a folder ran')")
    sys.addaudithook(_watch)
    sys.path.append(str(folder))  # so that any import of it succeeds
    yield request.param, folder
    sys.path.remove(str(folder))


def use(kind: Any, folder: Path) -> None:
    """As far as every command goes before it encodes."""
    if kind is CROSS_ENCODER:
        assert max_tokens(load_library_model(kind, folder, "x")) > 0
    else:
        facts = load_static(folder, "x", PASSAGES).facts if kind is STATIC else load_tower(folder, "x")[1]
        [tokens] = PassageTokenizer(open_tokenizer(facts), TextFormat())([""], ["abc " * 100])
        assert len(tokens) <= facts.max_tokens and facts.dimension > 0


@examples(25)
@given(
    st.integers(0, 99),
    st.lists(st.integers(0, 99), max_size=3),
    st.one_of(st.tuples(st.one_of(st.just(""), _KEYS), VALUES), _CODE_AT_ITS_PLACE),
)
def test_any_setting_of_a_model_is_used_or_refused(model, which, way, change):
    """change: a key that every table gets, and its value; without a key, the value at the end of the way."""
    kind, folder = model
    key, new = change
    files = sorted(
        path for path in folder.rglob("*.json") if path.name not in ("tokenizer.json", "vocab.json")
    )
    path = files[which % len(files)]
    settings = json.loads(path.read_text())
    settings = planted(settings, key, new) if key else altered(settings, way, new, False)
    with changed(path, settings):
        try:
            use(kind, folder)
        except LinkseekError as error:
            assert error.hint, error.message
    assert not events


@pytest.mark.parametrize("model", [CROSS_ENCODER], ids=["cross-encoder"], indirect=True)
def test_without_the_check_code_would_run_and_be_seen(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, folder = model
    monkeypatch.setattr(library_module, "check_only_data", lambda folder: None)
    monkeypatch.setattr("torch.utils.collect_env.get_pretty_env_info", lambda: subprocess.run("true"))
    path = folder / "config_sentence_transformers.json"
    settings = json.loads(path.read_text()) | {"activation_fn": "torch.utils.collect_env.main"}
    with changed(path, settings), suppress(LinkseekError):
        use(kind, folder)
    assert any("subprocess" in event for event in events)
    events.clear()


def planted(settings: Any, key: str, new: Any) -> Any:
    """The same JSON with a key in every table."""
    if isinstance(settings, list):
        return [planted(item, key, new) for item in settings]
    if isinstance(settings, dict):
        return {name: planted(value, key, new) for name, value in settings.items()} | {key: new}
    return settings


@contextmanager
def changed(path: Path, settings: Any) -> Iterator[None]:
    """Other settings for a while, watched."""
    global watching
    whole = path.read_bytes()
    path.write_text(json.dumps(settings))
    watching = True
    try:
        yield
    finally:
        watching = False
        path.write_bytes(whole)


@pytest.mark.parametrize("named", ["a text", 64])
def test_the_dimension_is_that_of_the_vectors(tmp_path: Path, named: Any) -> None:
    path = save_tiny(tmp_path / "model") / "1_Pooling" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"embedding_dimension": named}))
    library = load_library_model(BI_ENCODER, tmp_path / "model", "x")
    assert model_facts(library, "x").dimension == 32
