"""A cross-encoder in pre-training: an encoder with a head for scores and one for masked tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models.bases import find_start
from linkseek.reranker.models.mlm_heads import MlmHead, open_mlm_head, save_mlm_head
from linkseek.reranker.training.config import PretrainConfig
from linkseek.reranker.training.contrast_data import LABELS, MASKED_IDS
from linkseek.reranker.training.masks import Masks
from linkseek.reranker.training.trainable_cross_encoder import Trainable, open_trainable_cross_encoder
from linkseek.retriever.training.masked_training import masked_loss

TOKEN_WEIGHT = "token_weight"
"""Among the features: the weight of one masked token's loss in the loss of the step, []."""


class TwoHeads(nn.Module):
    """A transformer that scores pairs, and the head of masked tokens on the same vectors.

    transformer: the library's model with the scoring head. mlm: None if no token is predicted. head_alone:
    whether only that is trained; then nothing is scored.
    """

    def __init__(self, transformer: Any, mlm: nn.Module | None, *, head_alone: bool = False) -> None:
        super().__init__()
        self.transformer, self.mlm, self._head_alone = transformer, mlm, head_alone
        if head_alone:
            transformer.requires_grad_(False)

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """int64 [P, L] each -> {"scores": [P, 1], "added": []}; the latter with labels and gradients."""
        inputs = {name: features[name] for name in features if name not in (LABELS, MASKED_IDS, TOKEN_WEIGHT)}
        is_predicting = LABELS in features and torch.is_grad_enabled()
        in_one_pass = is_predicting and MASKED_IDS not in features
        vectors = None  # [P, L, H]
        if self._head_alone:
            scores = torch.zeros(len(inputs["input_ids"]), device=inputs["input_ids"].device)
        else:
            scored = self.transformer(**inputs, output_hidden_states=in_one_pass)
            scores = scored.logits
            vectors = scored.hidden_states[-1] if in_one_pass else None
        if not is_predicting:
            return {"scores": scores}
        if vectors is None:
            inputs["input_ids"] = features.get(MASKED_IDS, inputs["input_ids"])
            vectors = self.transformer.base_model(**inputs).last_hidden_state
        assert self.mlm is not None
        added = masked_loss(self.mlm, vectors, features[LABELS])[0] * features[TOKEN_WEIGHT]
        return {"scores": scores, "added": added}


@dataclass(frozen=True)
class Pretrainable(Trainable):
    """A model of two heads as training starts. head, masks: None if no token is predicted."""

    head: MlmHead | None
    masks: Masks | None


def open_pretrainable(config: PretrainConfig, *, head_alone: bool = False) -> Pretrainable:
    """The model that the settings name; new weights are drawn from torch's generator.

    Raises `InputError` as `open_trainable_cross_encoder`, and for a base that cannot predict masked tokens.
    """
    start = open_trainable_cross_encoder(config.model, config.texts)
    cross_encoder: Any = start.model
    transformer, tokenizer = cross_encoder[0].model, cross_encoder.tokenizer
    head = masks = None
    if config.mlm.weight:
        head = open_mlm_head(transformer, find_start(config.model.base))
        if tokenizer.mask_token_id is None:
            reason = f"{config.model.base}: its tokenizer has no token for masks"
            raise InputError(reason, "Set mlm.weight = 0.")
        shares, alike = (config.mlm.share, config.mlm.anchors), config.mlm.passes == "one"
        masks = Masks(tokenizer.mask_token_id, len(tokenizer), *shares, alike=alike)

    def save(folder: Path) -> None:
        start.save(folder)
        if head is not None:
            save_mlm_head(head, folder)

    model = TwoHeads(transformer, head.module if head else None, head_alone=head_alone)
    return Pretrainable(model, start.facts, start.text_format, start.base_sha256, save, head, masks)
