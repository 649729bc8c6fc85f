"""Encoders and re-rankers of pipelines: each is opened once, in whichever thread, also between indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.machine.once import Once
from linkseek.indexer.store.artifacts import kind_and_name
from linkseek.reranker.models import scoring
from linkseek.reranker.models.scoring import PairScorer
from linkseek.retriever.models.checks.only_data import model_files
from linkseek.retriever.models.locations import check_is_here, is_model_folder


class Models:
    """Encoders and re-rankers for the pipelines of any number of indexes, each opened once.

    One that no pipeline uses any more is closed. A folder that was written again is another model.
    """

    def __init__(
        self,
        open_encoder: Callable[..., Any] | None = None,
        open_scorer: Callable[[str, str, Precision], PairScorer] | None = None,
    ) -> None:
        """open_encoder, open_scorer: instead of the default ones, see `PipelineParts`."""
        self._open_encoder = open_encoder or (lambda name, **form: _open_encoder(name, **form))
        self._open_scorer = open_scorer or scoring.open_scorer
        # by what opens a model, the time of its newest change, and the rest of the arguments
        self._opened: Once[Any] = Once(
            lambda open_, change, of, form: open_(*of, **dict(form)), WeakValueDictionary()
        )

    def encoder(self, name: str, **form: Any) -> Any:
        """An encoder by name or path, as `open_encoder` opens it. form: title and prompts."""
        change = _newest_change(kind_and_name(name)[1])
        return self._opened(self._open_encoder, change, (name,), tuple(form.items()))

    def scorer(self, name: str, device: str, precision: Precision) -> PairScorer:
        """A re-ranker by name or path."""
        change = _newest_change(name.removeprefix(scoring.BI_ENCODER_PREFIX))
        scorer: PairScorer = self._opened(self._open_scorer, change, (name, device, precision), ())
        return scorer


def _newest_change(model: str) -> int:
    """When a file of a model's folder was last written, in nanoseconds; 0 for a name that is no such folder.

    An index of others may name any folder: one that contains no model is not searched, and opening it says
    why.
    """
    if not is_model_folder(Path(model)):
        return 0
    return max((path.stat().st_mtime_ns for path in model_files(Path(model))), default=0)


def _open_encoder(location: str, **form: Any) -> Any:
    from linkseek.retriever.models.encoders import open_encoder

    # the index names it, and may be a stranger's
    check_is_here(kind_and_name(location)[1], "the encoder of the index")
    return open_encoder(location, streams=1, **form)
