"""Tables of pandas, which is imported here, and only when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from linkseek.indexer.base.errors import MachineError


def data_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Rows as a DataFrame, with a column for each key. Raises `MachineError` if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise MachineError(f"pandas cannot be loaded ({error})", "Install it: pip install pandas") from None
    return pandas.DataFrame(list(rows))
