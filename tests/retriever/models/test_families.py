"""The contract of model types: every allowed one, in every family, against the library."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Dense as TokenDense
from sentence_transformers.base.modules import Normalize as TokenNormalize
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentencepiece import SentencePieceTrainer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as HEADED

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.encoding.impacts import terms_and_impacts
from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.models.checks.families import ALLOWED, Way, way_of
from linkseek.retriever.models.late import LateEncoder, open_late
from linkseek.retriever.models.sparse import open_sparse
from tests.support.tiny.models import save

WORDS = 60
LENGTHS = (1, 50, 3, 30, 80)  # the last is longer than the model reads
TEXTS = [" ".join(f"w{(i * j * 7 + j) % WORDS}" for j in range(n)) for i, n in enumerate(LENGTHS)]
MAX_TOKENS = 62

SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "emb_dim", "n_embd", "dim", "embedding_dim"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "d_inner", "hidden_dim", "ffn_dim"), 32),
    **dict.fromkeys(("embedding_size", "input_embedding_size", "output_embedding_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"), 2),
    **dict.fromkeys(("head_dim", "d_head", "d_kv", "query_pre_attn_scalar"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 64),
    **dict.fromkeys(("sliding_window", "local_attention", "attention_window", "window_size"), 16),
    **dict.fromkeys(("pooler_hidden_size", "word_embed_proj_dim", "hidden_size_per_layer_input"), 32),
    **dict.fromkeys(("prediction_head_size", "true_hidden_size", "intra_bottleneck_size"), 32),
    **dict.fromkeys(("pad_token_id", "pad_index", "mem_len"), 0),
    **dict.fromkeys(("bos_token_id", "cls_token_id", "max_window_layers"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    **dict.fromkeys(("segment_means_seq_len", "original_max_position_embeddings"), 64),
    "vocab_size": 300,
    "local_radius": 7,
    "num_hash": 8,
    "conv_kernel_size": 3,
}
OWN = {
    "squeezebert": {f"{part}_groups": 1 for part in "q k v intermediate output post_attention".split()},
    "funnel": {
        "block_sizes": [1, 1],
        "num_hidden_layers": None,
        "num_decoder_layers": 1,
        "architectures": ["FunnelModel"],
    },
    "t5": {"decoder_start_token_id": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "longformer": {"attention_window": [16, 16]},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "gemma3_text": {"use_bidirectional_attention": False},
    "qwen2": {"use_sliding_window": True},
    "qwen3": {"use_sliding_window": True},
}


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{n}" for n in range(WORDS))]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        cls_token="<s>", sep_token="</s>", model_input_names=["input_ids", "attention_mask"],
        model_max_length=MAX_TOKENS,
    )  # fmt: skip


def tokenizer_of(kind: str) -> PreTrainedTokenizerBase:
    """Of words; of bytes for a type whose tokenizers transformers makes ones of bytes, whatever they are."""
    if kind != "qwen2":
        return tokenizer()
    letters = ["</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    return Qwen2Tokenizer(
        {letter: n for n, letter in enumerate(letters)}, [], unk_token="</s>", eos_token="</s>",
        pad_token="</s>", model_max_length=MAX_TOKENS,
    )  # fmt: skip


def save_transformer(folder: Path, kind: str, make, **options) -> Path:
    """A transformer of one type, tiny and random, next to a tokenizer of words."""
    known = CONFIG_MAPPING[kind]().to_dict()
    sizes = {name: size for name, size in SIZES.items() if name in known} | OWN.get(kind, {})
    sizes = {name: size for name, size in sizes.items() if size is not None}
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**sizes, **options)
    config.architectures = config.architectures or []
    model = make.from_config(config).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith("weight") and "norm" not in name.lower() and weights.dim() > 1:
                weights.mul_(4)  # so that it matters what a token looks at
    model.save_pretrained(folder)
    tokenizer_of(kind).save_pretrained(folder)
    return folder


def save_encoder(folder: Path, kind: str, *more: torch.nn.Module, **options) -> Path:
    """A bi-encoder of mean pooling and further modules. options: as of SentenceTransformer."""
    bare = save_transformer(folder.with_name(f"{folder.name}-bare"), kind, AutoModel)
    modules = [Transformer(str(bare)), Pooling(32, pooling_mode="mean"), *more]
    save(SentenceTransformer(modules=modules, device="cpu", **options), folder)
    return folder


def edit(path: Path, **settings) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def check_encoder(folder: Path, max_tokens: int = MAX_TOKENS) -> BiEncoder:
    """That queries and passages in one batch have the library's vectors of each text alone."""
    library = SentenceTransformer(str(folder), device="cpu")
    library.max_seq_length = max_tokens
    encoder = open_biencoder(str(folder), device="cpu", precision="float32", threads=1)
    assert max(map(len, encoder.tokenize_queries(TEXTS))) == max_tokens
    passages = encode_texts(encoder, encoder.tokenize_passages([""] * len(TEXTS), TEXTS))
    for found, encode in (
        (passages, library.encode_document),
        (encoder.encode_queries(TEXTS), library.encode_query),
    ):
        expected = np.stack([encode(text) for text in TEXTS])
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    return encoder


def check_way(way: Way, execution: dict) -> None:
    assert execution["backend"].startswith("openvino" if way is Way.OPENVINO else "torch")
    assert (execution.get("attention") == "one text at a time") == (way is Way.ALONE)


@pytest.fixture(autouse=True)
def only_float32(tmp_path, monkeypatch):
    """Nothing is kept between tests. Precisions are tried elsewhere: each takes the time of another model."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        "linkseek.retriever.models.backends.openvino_engine.cpu_multiplies_bfloat16", lambda: False
    )


@pytest.mark.parametrize("kind", sorted(ALLOWED))
def test_bi_encoders(tmp_path, kind):
    encoder = check_encoder(save_encoder(tmp_path / "encoder", kind))
    check_way(way_of(kind, scores=False), encoder.execution)


def save_late(folder: Path, kind: str, *more: torch.nn.Module, **options) -> Path:
    """A late-interaction model of 16 dimensions, which leaves two words of passages out."""
    bare = save_transformer(folder.with_name(f"{folder.name}-bare"), kind, AutoModel)
    reader = Transformer(str(bare), **options)
    dense = TokenDense(32, 16, bias=False, activation_function=None, module_input_name="token_embeddings")
    modules = [reader, dense, MultiVectorMask(["w3", "w5"]), TokenNormalize("token_embeddings")]
    prompts = {"query": "w1 w2 : ", "document": "w4 : "}
    save(MultiVectorEncoder(modules=modules, device="cpu", prompts=prompts), folder)
    return folder


def check_late(folder: Path) -> LateEncoder:
    """That token vectors of passages and queries are the library's, and that codes rank as it does."""
    library = MultiVectorEncoder(str(folder), device="cpu")
    encoder = open_late(str(folder), device="cpu", precision="float32")
    tokens = encoder.tokenize_passages([""] * len(TEXTS), TEXTS)
    passages = [library.encode_document(text, convert_to_numpy=True) for text in TEXTS]
    queries = [library.encode_query(text, convert_to_numpy=True) for text in TEXTS[:3]]
    for text, expected in zip(encoder.token_vectors(tokens), passages, strict=True):
        np.testing.assert_allclose(text, expected, atol=2e-3)
    for found, expected in zip(encoder.encode_queries(TEXTS[:3]), queries, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-3)
    codes = encoder.encode_rows(tokens, lambda rows: None, 0)
    for query in queries:
        expected = library.similarity([query], passages)[0].numpy()
        found = encoder.quantizer.scores([query], codes, mean=encoder.mean)[0]
        np.testing.assert_allclose(found, expected, atol=0.15 * np.abs(expected).max())
    return encoder


ARCHITECTURES = {*"albert bert deberta-v2 gemma2 gpt2 llama modernbert roberta t5 xlnet".split()}
NOT_IN_OPENVINO = {kind for kind in ALLOWED if way_of(kind, scores=False) is not Way.OPENVINO}


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES | NOT_IN_OPENVINO))
def test_late_interaction(tmp_path, kind):
    """The models are those above: of each architecture, and all whose batches torch takes apart."""
    encoder = check_late(save_late(tmp_path / "late", kind))
    check_way(way_of(kind, scores=False), encoder.execution)


@pytest.mark.parametrize(
    "options",
    [
        {"query_length": 6, "document_length": 20},
        {"query_expansion": {"strategy": "fixed", "attend": True, "length": 12, "token": "<unk>"}},
        {"query_expansion": {"strategy": "fixed", "attend": False, "length": 12, "token": "<unk>"}},
    ],
)
def test_lengths_and_expansion_of_late_interaction(tmp_path, options):
    check_late(save_late(tmp_path / "late", "bert", **options))


def test_an_encoder_of_one_vector_is_read_for_its_tokens(tmp_path):
    """Its hidden states of length 1, and the mean over the question's tokens."""
    folder = save_encoder(tmp_path / "encoder", "bert", Normalize())
    library, encoder = SentenceTransformer(str(folder), device="cpu"), open_late(str(folder), device="cpu")
    states = library.encode(TEXTS, output_value="token_embeddings")
    tokens = encoder.tokenize_passages([""] * len(TEXTS), TEXTS)
    for found, expected in zip(encoder.token_vectors(tokens), states, strict=True):
        expected = torch.nn.functional.normalize(expected[: len(found)], dim=1).numpy()
        np.testing.assert_allclose(found, expected, atol=2e-2)
    assert encoder.mean


# Heads of the two others are called WithLMHeadModel, and the library reads them as no SPLADE.
@pytest.mark.parametrize("kind", sorted((ALLOWED & MASKED.keys()) - {"flaubert", "xlm"}))
def test_learned_sparse_models(tmp_path, kind):
    """Weights of passages and queries are the library's up to rounding, and so is the ranking."""
    folder = str(save_transformer(tmp_path / "model", kind, AutoModelForMaskedLM))
    library, encoder = SparseEncoder(folder, device="cpu"), open_sparse(folder, precision="float32")
    codes = encoder.encode_rows(encoder.tokenize_passages([""] * len(TEXTS), TEXTS), lambda rows: None, 0)
    alone = [library.encode(text, convert_to_sparse_tensor=False).numpy() for text in TEXTS]
    scores = np.zeros((len(TEXTS), len(TEXTS)))
    for row, (own, expected) in enumerate(zip(codes, alone, strict=True)):
        terms, impacts = terms_and_impacts(own)
        found = np.zeros_like(expected)
        found[terms] = impacts / encoder.scale
        np.testing.assert_allclose(found, expected, atol=0.51 / encoder.scale + 1e-3 * expected.max())
        for query, weights in enumerate(encoder.encode_queries(TEXTS)):
            scores[query, row] = sum(weights.get(t, 0) * i for t, i in zip(terms, impacts, strict=True))
    np.testing.assert_allclose(scores, np.array(alone) @ np.array(alone).T, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("kind", sorted(ALLOWED & HEADED.keys()))
def test_cross_encoders(tmp_path, kind):
    make = AutoModelForSequenceClassification
    folder = str(save_transformer(tmp_path / "model", kind, make, num_labels=1))
    settings = json.loads((tmp_path / "model/config.json").read_text())
    library = CrossEncoder(folder, device="cpu")
    pairs = [("w1 w2 w3", text) for text in TEXTS]
    expected = np.array([library.predict([pair])[0] for pair in pairs])
    scorer = open_scorer(folder, "cpu", "float32")
    found = scorer.score([query for query, _ in pairs], [text for _, text in pairs])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert settings["model_type"] == kind
    check_way(way_of(kind, scores=True), scorer.execution)


@pytest.mark.parametrize(("kind", "positions"), [("gpt2", 64), ("opt", 64), ("mpnet", 63)])
def test_a_text_is_cut_where_learned_positions_end(tmp_path, kind, positions):
    folder = save_encoder(tmp_path / "encoder", kind)
    edit(folder / "sentence_bert_config.json", max_seq_length=200)
    edit(folder / "tokenizer_config.json", model_max_length=200)
    check_encoder(folder, positions)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_layout_of_embeddinggemma(tmp_path, monkeypatch, bidirectional):
    monkeypatch.setitem(OWN, "gemma3_text", {"use_bidirectional_attention": bidirectional})
    dense = [
        Dense(*sizes, bias=False, activation_function=torch.nn.Identity()) for sizes in ((32, 48), (48, 32))
    ]
    prompts = {"query": "w1 w2 : ", "document": "w3 w4 : "}
    check_encoder(save_encoder(tmp_path / "model", "gemma3_text", *dense, Normalize(), prompts=prompts))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_cross_encoders_of_decoders_without_padding(tmp_path, kind):
    """Their library refuses batches; the score of a pair must not depend on the others of a batch."""
    folder = save_transformer(tmp_path / "model", kind, AutoModelForSequenceClassification, num_labels=1)
    edit(folder / "tokenizer_config.json", pad_token="</s>")
    edit(folder / "config.json", pad_token_id=None)
    library = CrossEncoder(str(folder), device="cpu")
    scorer = open_scorer(str(folder), "cpu", "float32")
    found = scorer.score(["w1 w2"] * len(TEXTS), TEXTS)
    np.testing.assert_allclose(found, [library.predict([("w1 w2", t)])[0] for t in TEXTS], atol=1e-5)
    np.testing.assert_allclose(found, [scorer.score(["w1 w2"], [text])[0] for text in TEXTS], atol=1e-6)
    edit(folder / "tokenizer_config.json", pad_token=None)
    with pytest.raises(InputError, match="the library cannot score") as caught:
        open_scorer(str(folder), "cpu", "float32")
    assert '"pad_token"' in caught.value.hint


@cache
def sentencepiece() -> bytes:
    """A model of sentencepiece that knows the words of the texts."""
    made = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 40), model_writer=made, vocab_size=30, hard_vocab_limit=False,
        bos_id=0, pad_id=1, eos_id=2, unk_id=3, minloglevel=2,
    )  # fmt: skip
    return made.getvalue()


def save_sentencepiece(folder: Path, kind: str, file: str, data: bytes) -> Path:
    """An encoder whose words are in a file of sentencepiece alone."""
    save_encoder(folder, kind)
    (folder / "tokenizer.json").unlink()
    (folder / file).write_bytes(data)
    edit(folder / "tokenizer_config.json", tokenizer_class=TOKENIZERS[kind])
    return folder


TOKENIZERS = {"xlm-roberta": "XLMRobertaTokenizer", "t5": "T5Tokenizer"}
FILES = {"xlm-roberta": "sentencepiece.bpe.model", "t5": "spiece.model"}


@pytest.mark.parametrize("kind", FILES)
def test_words_of_sentencepiece(tmp_path, kind):
    check_encoder(save_sentencepiece(tmp_path / "model", kind, FILES[kind], sentencepiece()))


@pytest.mark.parametrize("start", [0, 150])
def test_a_damaged_file_of_sentencepiece_is_refused(tmp_path, start):
    data = sentencepiece()[:start] or b"x" * 999
    folder = save_sentencepiece(tmp_path / "model", "xlm-roberta", FILES["xlm-roberta"], data)
    with pytest.raises(InputError, match="cannot be loaded"):
        open_biencoder(str(folder))


def test_a_file_of_sentencepiece_has_a_size(tmp_path):
    folder = save_sentencepiece(tmp_path / "model", "xlm-roberta", FILES["xlm-roberta"], b"")
    with (folder / FILES["xlm-roberta"]).open("wb") as file:
        file.truncate(1 << 30)  # a hole, which takes no space
    with pytest.raises(InputError, match=r"sentencepiece\.bpe\.model: 1,073,741,824 bytes"):
        open_biencoder(str(folder))
