"""A BERT-like transformer's layers without padding, and a cross-encoder's last one for [CLS] alone.

After the embeddings the tokens of a batch are packed back to back, attention stays inside each sequence, and
before pooling the tokens return to their places. A GPU has kernels for sequences of any length. On a CPU
sequences of about the same length form a block, padded to the longest of the block, whose attention is two
batched products; nothing is gathered between layers.

A cross-encoder's score reads [CLS] alone. In the last layer only keys and values need the other tokens; its
queries, its projection and its feed-forward part do not, which for six layers saves a seventh of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only
from transformers import AttentionInterface, BertForSequenceClassification, PreTrainedModel

_NO_BOUNDS = torch.empty(0, dtype=torch.int32)


class Packing(NamedTuple):
    """The places of a batch's tokens, int64 [T] in a flat [B * L], and how they attend to each other.

    bounds: int32 [B + 1], the beginnings and ends of sequences in T. longest: of their lengths. Or blocks:
    the number n and the length l of the sequences of each, and what is added to the scores of their keys,
    float32 [n, 1, 1, l]; None if no key is padding.
    """

    places: Tensor
    attend: Attend
    bounds: Tensor = _NO_BOUNDS
    longest: int = 0
    blocks: tuple[tuple[int, int, Tensor | None], ...] = ()


def copied(packing: Packing, device: torch.device) -> Packing:
    """The same on a device, for which nothing waits."""

    def copy(x: Tensor) -> Tensor:
        return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)

    return cast(Packing, tree_map_only(Tensor, copy, packing))


Attend = Callable[[Tensor, Tensor, Tensor, Packing, float, float], Tensor]
"""(query, key, value, packing, scale, dropout): [T, heads, size] each -> [T, heads, size]."""


def back_to_back(mask: Tensor, attend: Attend) -> Packing:
    """The packing of a mask's tokens and nothing else; mask: [B, L] on the CPU."""
    lengths = (mask != 0).sum(dim=1)  # [B]
    bounds = functional.pad(lengths.cumsum(0), (1, 0)).int()  # [B + 1]
    return Packing(mask.flatten().nonzero()[:, 0], attend, bounds, int(lengths.max()))


_MIN_STEP = 8  # tokens


def in_blocks(mask: Tensor) -> Packing:
    """The packing of a mask [B, L] on the CPU in blocks of sequences of about the same length."""
    width = mask.shape[1]
    numbers = torch.arange(1, width + 1)
    ends = ((mask != 0) * numbers).amax(dim=1).clamp(min=1)  # [B], the last token of each sequence
    order = ends.argsort(stable=True)
    ordered = ends[order].tolist()
    places, blocks, start = [], [], 0
    while start < len(ordered):
        limit = ordered[start] + max(_MIN_STEP, ordered[start] // 8)
        stop = next((n for n in range(start, len(ordered)) if ordered[n] > limit), len(ordered))
        rows, length = order[start:stop], ordered[stop - 1]
        hidden = mask[rows, :length] == 0  # [n, l]
        places.append((rows[:, None] * width + numbers[:length] - 1).flatten())
        added = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)
        blocks.append((stop - start, length, added[:, None, None] if hidden.any() else None))
        start = stop
    return Packing(torch.cat(places), _attend_blocks, blocks=tuple(blocks))


def _attend_blocks(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, dropout: float
) -> Tensor:
    """Plain products, block by block, in the type of the query."""
    attended, sizes = [], [count * length for count, length, _ in packing.blocks]
    pieces = (torch.split(x, sizes) for x in (query, key, value))
    with torch.autocast(query.device.type, enabled=False):
        for (count, length, added), *own in zip(packing.blocks, *pieces, strict=True):
            # [n, heads, l, size] each
            q, k, v = (x.view(count, length, *x.shape[1:]).transpose(1, 2) for x in own)
            scores = q * scale @ k.transpose(2, 3)
            weights = torch.softmax(scores if added is None else scores + added.to(scores.dtype), dim=-1)
            attended.append((functional.dropout(weights, dropout) @ v).transpose(1, 2).flatten(0, 1))
    return torch.cat(attended)


def _attend_flash(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, dropout: float
) -> Tensor:
    """Flash attention for sequences of any length (Dao 2023), as torch's nested tensors call it."""
    flash: Any = torch.ops.aten._flash_attention_forward
    lengths = packing.bounds, packing.bounds, packing.longest, packing.longest
    attended: Tensor = flash(query, key, value, *lengths, dropout, False, False, scale=scale)[0]
    return attended


Pack = Callable[[Tensor], Packing]
"""The mask of a batch [B, L] on the CPU -> its packing."""

PACKINGS: dict[str, Pack] = {
    "flash, packed": partial(back_to_back, attend=_attend_flash),
    "blocks, packed": in_blocks,
}
PADDED = "padded"

PACKED = "linkseek_packed"
"""The name of our attention among transformers'."""


def _attend_packed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, None]:
    """The function that transformers calls, with the packing as mask: [1, heads, T, size] each."""
    packed = [x[0].transpose(0, 1) for x in (query, key, value)]  # [T, heads, size]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packing.attend(packed[0], packed[1], packed[2], packing, scale, dropout)[None], None


AttentionInterface.register(PACKED, _attend_packed)


def layered(model: nn.Module) -> PreTrainedModel | None:
    """The BERT-like model in a model, one with `embeddings` before an `encoder`; else None."""
    found = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    parts = [getattr(getattr(found, "base_model", None), name, None) for name in ("embeddings", "encoder")]
    return found if all(isinstance(part, nn.Module) for part in parts) else None


_TRAINED_PACKED = frozenset("bert camembert electra roberta xlm-roberta".split())
"""Types whose layers see positions in the embeddings alone, and call transformers' attention."""

PACKING = "packing"
"""Among the features of a model: the `Packing` of its mask, where making it would make a GPU wait."""


class PackedTransformer:
    """A transformer that computes no padding. It keeps its modules, so checkpoints stay the same."""

    def __init__(self, base: Any, pack: Pack) -> None:
        """base: without a head. pack: for batches that come without a packing."""
        self._base, self.pack, self._own = base, pack, base.config._attn_implementation
        self.given: Packing | None = None
        self._pooling: Any = None
        self._read, self._embed, self._encode = base.forward, base.embeddings.forward, base.encoder.forward
        base.forward, base.embeddings.forward, base.encoder.forward = self.read, self.embed, self.encode
        base.set_attn_implementation(PACKED)

    def read(self, *inputs: Any, packing: Packing | None = None, **options: Any) -> Any:
        """The model's forward pass, by a packing of its mask [B, L]."""
        mask = options.get("attention_mask")
        names = "inputs_embeds", "position_ids", "output_hidden_states", "output_attentions"
        if mask is None or mask.dim() > 2 or any(options.get(name) is not None for name in names):
            self.undo()  # all places are needed
            return self._base.forward(*inputs, **options)
        self._packing = packing or self.given or copied(self.pack(mask.cpu()), mask.device)
        self._shape = mask.shape
        return self._read(*inputs, **options)

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None, **_: Any) -> Any:
        """int64 [B, L] each -> [1, T, H]."""
        embeddings = self._base.embeddings
        if hasattr(embeddings, "create_position_ids_from_input_ids"):  # RoBERTa's begin after the padding's
            positions = embeddings.create_position_ids_from_input_ids(input_ids, embeddings.padding_idx)
        else:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        packed = (x.flatten()[self._packing.places][None] for x in (input_ids, types, positions))
        return self._embed(**dict(zip(("input_ids", "token_type_ids", "position_ids"), packed, strict=True)))

    def encode(self, hidden: Tensor, attention_mask: None = None, **options: Any) -> Any:
        """[1, T, H] -> transformers' output, whose `last_hidden_state` is float32 [B, L, H].

        For `pool_packed` it stays [1, T, H].
        """
        output = self._encode(hidden, attention_mask=self._packing, **options)
        vectors = output.last_hidden_state.float()
        if self._pooling is None or self._packing.blocks:
            flat = vectors.new_zeros(self._shape.numel(), vectors.shape[2])
            vectors = flat.index_copy(0, self._packing.places, vectors[0]).view(*self._shape, -1)
        output.last_hidden_state = vectors
        return output

    def pool_packed(self, pooling: Any = None) -> None:
        """Let sentence-transformers' pooling read packed tokens, if it takes a mean or the first one."""
        if type(pooling) is not Pooling or pooling.pooling_mode not in ("cls", "mean"):
            return

        pool = pooling.forward

        def forward(features: dict[str, Any]) -> dict[str, Any]:
            if self._packing.blocks:
                return dict(pool(features))
            tokens, bounds = features["token_embeddings"][0], self._packing.bounds  # [T, H], [B + 1]
            if pooling.pooling_mode == "cls":
                return features | {"sentence_embedding": tokens[bounds[:-1]]}
            # Unlike sums by index, with the same bits each time on a GPU.
            means = torch.segment_reduce(tokens, "mean", lengths=bounds.diff().long(), axis=0)
            return features | {"sentence_embedding": means}

        pooling.forward, self._pooling = forward, pooling

    def undo(self) -> None:
        """Let the model compute padding again."""
        base = self._base
        base.forward, base.embeddings.forward, base.encoder.forward = self._read, self._embed, self._encode
        base.set_attn_implementation(self._own)
        if self._pooling is not None:
            del self._pooling.forward


def packable(model: nn.Module) -> list[PreTrainedModel]:
    """The transformers of a model, without heads, that `PackedTransformer` can pack."""
    bases = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m.base_model is m]
    return [base for base in bases if base.config.model_type in _TRAINED_PACKED]


def join_products(base: Any) -> None:
    """Compute the queries, keys and values of each layer as one product, if the model is a BERT."""
    for module in base.encoder.modules() if packable(base) else ():
        if all(hasattr(module, name) for name in ("query", "key", "value")):
            parts = module.query, module.key, module.value
            weight, bias = (torch.cat([getattr(p, n).data for p in parts]) for n in ("weight", "bias"))
            for number, part in enumerate(parts):
                part.forward = partial(_part, module, weight, bias, number)
                part.weight.data = weight.chunk(3)[number]  # in memory once


def _part(module: Any, weight: Tensor, bias: Tensor, number: int, hidden: Tensor) -> Any:
    if number == 0:  # the first that a layer asks for
        module.products = functional.linear(hidden, weight, bias).chunk(3, dim=-1)
    return module.products[number]


def is_exact(attend: Attend, device: str) -> bool:
    """Whether an attention has the outputs and gradients of plain products, and can drop weights."""
    bounds = torch.tensor([0, 3, 23, 43], dtype=torch.int32, device=device)
    packing = Packing(bounds, attend, bounds, 20, ((1, 3, None), (2, 20, None)))
    numbers = torch.randn((3, 43, 4, 32), generator=torch.Generator().manual_seed(0))
    results = []
    try:
        for way, dropout in ((attend, 0.1), (attend, 0.0), (_attend_blocks, 0.0)):
            q, k, v = parts = [x.to(device, torch.bfloat16).requires_grad_() for x in numbers]
            output = way(q, k, v, packing, 32**-0.5, dropout)
            results.append([output, *torch.autograd.grad(output.square().sum(), parts)])
    except Exception:  # torch raises anything for a kernel without this device or type
        return False
    pairs = zip(*results[1:], strict=True)
    return all(float((own - plain).norm() / plain.norm()) < 0.05 for own, plain in pairs)


def pack_layers(model: nn.Module, device: str) -> Pack | None:
    """Let the transformers of a model in training compute no padding; None if there are none that can."""
    is_flash = device != "cpu" and is_exact(_attend_flash, device)
    bases, pack = packable(model), PACKINGS["flash, packed" if is_flash else "blocks, packed"]
    for base in bases:
        PackedTransformer(base, pack)
    return pack if bases else None


def with_packings(inputs: Any, pack: Pack) -> Any:
    """Inputs of a step, in which all features of texts have their `PACKING`."""
    if isinstance(inputs, list):
        return [with_packings(piece, pack) for piece in inputs]
    if not isinstance(inputs, dict):
        return inputs
    added = {PACKING: pack(inputs["attention_mask"])} if "attention_mask" in inputs else {}
    return {name: with_packings(value, pack) for name, value in inputs.items()} | added


def read_first_token(model: nn.Module) -> None:
    """Shortens the last layer if the model is a BERT with a head; other models stay unchanged."""
    if isinstance(model, BertForSequenceClassification):
        layers = model.bert.encoder.layer
        layers[-1] = _FirstTokenLayer(layers[-1])


class _FirstTokenLayer(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, hidden: Tensor, attention_mask: Any = None, *rest: Any, **options: Any) -> Tensor:
        """[B, L, H] -> [B, 1, H]; for packed sequences, whose mask is a packing, all tokens."""
        if not isinstance(attention_mask, Tensor | None):
            packed: Tensor = self.layer(hidden, attention_mask, *rest, **options)
            return packed
        first = hidden[:, :1]
        own = self.layer.attention.self

        def heads(x: Tensor) -> Tensor:
            """[B, n, H] -> [B, heads, n, size]."""
            return x.view(x.shape[0], -1, own.num_attention_heads, own.attention_head_size).transpose(1, 2)

        attended = functional.scaled_dot_product_attention(
            heads(own.query(first)),
            heads(own.key(hidden)),
            heads(own.value(hidden)),
            attn_mask=None if attention_mask is None else attention_mask[:, :, :1],
            scale=own.scaling,
        )  # [B, heads, 1, size]
        output = self.layer.attention.output(attended.transpose(1, 2).flatten(2), first)
        finished: Tensor = self.layer.feed_forward_chunk(output)
        return finished
