"""What of a view is in the address of the page, so that it can be shared, and what may be read from it.

An address is anybody's text: what is not known is left out, what is out of range is brought back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_PIPELINES = 4
COUNTS = (5, 10, 20)
DEFAULT_COUNT = 10

_PREFERRED = ("bm25", "hybrid")
_MAX_QUESTION_IN_ADDRESS = 2_000  # characters; servers refuse far longer addresses

Params = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class View:
    """A question, the pipelines that answer it side by side, and how many passages each shows."""

    question: str = ""
    pipelines: tuple[str, ...] = ()
    k: int = DEFAULT_COUNT

    def to_params(self) -> dict[str, list[str]]:
        """The address's parameters. A question that is too long for an address is left out."""
        params = {"pipelines": list(self.pipelines), "k": [str(self.k)]}
        if self.question and len(self.question) <= _MAX_QUESTION_IN_ADDRESS:
            params["q"] = [self.question]
        return params


def read_view(params: Params, available: Sequence[str]) -> View:
    """The view that an address asks for, with the pipelines that the index can run."""
    question = [*params.get("q", ()), ""][0]
    asked = [name for name in dict.fromkeys(params.get("pipelines", ())) if name in available]
    return View(
        question=question,
        pipelines=tuple(asked[:MAX_PIPELINES]) or default_pipelines(available),
        k=_nearest_count([*params.get("k", ()), ""][0]),
    )


def default_pipelines(available: Sequence[str]) -> tuple[str, ...]:
    """What a visitor sees first: words alone beside words and vectors, or what there is."""
    preferred = tuple(name for name in _PREFERRED if name in available)
    return preferred if len(preferred) == len(_PREFERRED) else tuple(available[:2])


def _nearest_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return DEFAULT_COUNT
    return min(COUNTS, key=lambda count: (abs(count - int(text)), count))
