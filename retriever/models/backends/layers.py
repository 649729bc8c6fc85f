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
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, BertForSequenceClassification, PreTrainedModel


@dataclass(frozen=True)
class Packing:
    """The places of a batch's tokens.

    places: int64 [T] in a flat [B * L]. bounds: int32 [B + 1], the beginnings and ends of sequences in T.
    blocks: number n and length l of the sequences of each block, and what is added to scores of their keys,
    float32 [n, 1, 1, l]; None if no key is padding.
    """

    places: Tensor
    attend: Attend
    bounds: Tensor | None = None
    shortest: int = 0
    longest: int = 0
    blocks: tuple[tuple[int, int, Tensor | None], ...] = ()

    def to(self, device: Any, *, non_blocking: bool = False) -> Packing:
        """The same on a device."""
        assert self.bounds is not None
        places, bounds = (x.to(device, non_blocking=non_blocking) for x in (self.places, self.bounds))
        return replace(self, places=places, bounds=bounds)

    def pin_memory(self) -> Packing:
        """The same in memory that a GPU copies while Python runs ahead."""
        assert self.bounds is not None
        return replace(self, places=self.places.pin_memory(), bounds=self.bounds.pin_memory())


Attend = Callable[[Tensor, Tensor, Tensor, Packing, float, float], Tensor]
"""(query, key, value, packing, scale, dropout): [T, heads, size] each -> [T, heads, size]."""


def tokens_back_to_back(mask: Tensor, attend: Attend) -> Packing:
    """The packing of a mask's tokens and nothing else; mask: [B, L] on the CPU."""
    lengths = (mask != 0).sum(dim=1)  # [B]
    bounds = functional.pad(lengths.cumsum(0), (1, 0)).int()  # [B + 1]
    places = mask.flatten().nonzero()[:, 0]
    return Packing(places, attend, bounds, int(lengths.min()), int(lengths.max()))


_MIN_STEP = 8  # tokens


def tokens_in_blocks(mask: Tensor) -> Packing:
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
    """Flash attention for sequences of any length (Dao 2023), of torch 2.10 and later."""
    bounds, longest = packing.bounds, packing.longest
    assert bounds is not None
    if dropout:  # which the public function lacks: the call is that of torch's nested tensors
        flash: Any = torch.ops.aten._flash_attention_forward
        lengths = bounds, bounds, longest, longest
        attended: Tensor = flash(query, key, value, *lengths, dropout, False, False, scale=scale)[0]
        return attended
    from torch.nn.attention.varlen import varlen_attn

    if abs(scale * query.shape[-1] ** 0.5 - 1) > 1e-6:
        raise ValueError(f"attention scaled by {scale}")  # the first version had no such argument
    return varlen_attn(query, key, value, bounds, bounds, longest, longest)  # type: ignore[return-value]


def _attend_nested(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, dropout: float
) -> Tensor:
    """torch's attention on nested tensors, on any device."""

    def nested(x: Tensor) -> Tensor:
        """[T, heads, size] -> [B, heads, lengths, size]."""
        assert packing.bounds is not None
        jagged = torch.nested.nested_tensor_from_jagged(
            x.contiguous(), packing.bounds, min_seqlen=packing.shortest, max_seqlen=packing.longest
        )
        return jagged.transpose(1, 2)

    attended = functional.scaled_dot_product_attention(
        nested(query), nested(key), nested(value), dropout_p=dropout, scale=scale
    )
    return attended.transpose(1, 2).values()


ATTENTIONS: dict[str, Attend] = {"flash, packed": _attend_flash, "nested, packed": _attend_nested}
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

    def __init__(self, base: Any, pack: Callable[[Tensor], Packing]) -> None:
        """base: without a head. pack: the mask of a batch [B, L] -> its packing."""
        self._base, self._pack, self._own = base, pack, base.config._attn_implementation
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
        self.packing, self._shape = packing or self._pack(mask), mask.shape
        return self._read(*inputs, **options)

    def embed(self, input_ids: Tensor, token_type_ids: Tensor | None = None, **_: Any) -> Any:
        """int64 [B, L] each -> [1, T, H]."""
        embeddings = self._base.embeddings
        if hasattr(embeddings, "create_position_ids_from_input_ids"):  # RoBERTa's begin after the padding's
            positions = embeddings.create_position_ids_from_input_ids(input_ids, embeddings.padding_idx)
        else:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        packed = (x.flatten()[self.packing.places][None] for x in (input_ids, types, positions))
        return self._embed(**dict(zip(("input_ids", "token_type_ids", "position_ids"), packed, strict=True)))

    def encode(self, hidden: Tensor, attention_mask: None = None, **options: Any) -> Any:
        """[1, T, H] -> transformers' output, whose `last_hidden_state` is float32 [B, L, H].

        It stays [1, T, H] for `pool_packed`.
        """
        output = self._encode(hidden, attention_mask=self.packing, **options)
        vectors = output.last_hidden_state.float()
        if self._pooling is None:
            flat = vectors.new_zeros(self._shape.numel(), vectors.shape[2])
            vectors = flat.index_copy(0, self.packing.places, vectors[0]).view(*self._shape, -1)
        output.last_hidden_state = vectors
        return output

    def pool_packed(self, pooling: Any = None) -> None:
        """Let sentence-transformers' pooling read packed tokens, if it takes a mean or the first one."""
        if type(pooling) is not Pooling or pooling.pooling_mode not in ("cls", "mean"):
            return

        def forward(features: dict[str, Any]) -> dict[str, Any]:
            tokens, bounds = features["token_embeddings"][0], self.packing.bounds  # [T, H], [B + 1]
            assert bounds is not None
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


@cache
def training_packing(device: str) -> Callable[[Tensor], Packing] | None:
    """How batches are packed in training on a type of device; None if no attention works there."""
    if device == "cpu":
        return tokens_in_blocks
    attend = next((attend for attend in ATTENTIONS.values() if is_exact(attend, device)), None)
    return attend and (lambda mask: tokens_back_to_back(mask.cpu(), attend))


def join_products(base: Any) -> None:
    """Compute the queries, keys and values of each layer as one product, if the model is a BERT."""
    for module in base.encoder.modules() if packable(base) else ():
        if all(hasattr(module, name) for name in ("query", "key", "value")):
            _Joined(module)


class _Joined:
    def __init__(self, attention: Any) -> None:
        parts = attention.query, attention.key, attention.value
        self._weight, self._bias = (
            torch.cat([getattr(p, n).data for p in parts]) for n in ("weight", "bias")
        )
        for number, part in enumerate(parts):
            part.forward = partial(self._part, number)
            part.weight.data = self._weight.chunk(3)[number]  # in memory once

    def _part(self, number: int, hidden: Tensor) -> Tensor:
        if number == 0:
            self._products = functional.linear(hidden, self._weight, self._bias).chunk(3, dim=-1)
        return self._products[number]


def is_exact(attend: Attend, device: str) -> bool:
    """Whether an attention has the outputs and gradients of plain products, and can drop weights."""
    lengths = 3, 40, 17
    bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
    packing = Packing(bounds, attend, bounds, min(lengths), max(lengths))

    def plain(*parts: Tensor) -> Tensor:
        texts = zip(*(x.split(lengths) for x in parts), strict=True)  # type: ignore[no-untyped-call]
        results = (
            functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in own)) for own in texts
        )
        return torch.cat([x.transpose(0, 1) for x in results])

    def attended(read: Callable[..., Tensor], own: Tensor) -> list[Tensor]:
        own = own.detach().requires_grad_()
        output = read(*own)
        output.float().square().sum().backward()  # type: ignore[no-untyped-call]
        assert own.grad is not None
        return [output.detach().float().cpu(), own.grad.float().cpu()]

    numbers = torch.randn((3, sum(lengths), 4, 32), generator=torch.Generator().manual_seed(0))
    moved = numbers.to(device, torch.bfloat16)
    try:
        attend(moved[0], moved[1], moved[2], packing, 32**-0.5, 0.1)
        found = attended(lambda q, k, v: attend(q, k, v, packing, 32**-0.5, 0.0), moved)
    except Exception:  # torch raises anything for a kernel without this device or type
        return False
    pairs = zip(found, attended(plain, numbers), strict=True)
    return all(float((own - exact).norm() / exact.norm()) < 0.05 for own, exact in pairs)


def pack_layers(model: nn.Module, device: str) -> Callable[[Tensor], Packing] | None:
    """Let the transformers of a model in training compute no padding; None if none of them can."""
    pack, bases = training_packing(device), packable(model)
    if pack is None or not bases:
        return None
    for base in bases:
        PackedTransformer(base, pack)
    return pack


def with_packings(inputs: Any, pack: Callable[[Tensor], Packing]) -> Any:
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
