"""Tables of pandas, which is imported here, and only when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from linkseek.indexer.program.errors import MachineError


def data_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Rows as a DataFrame, which has its columns without rows too.

    Raises `MachineError` if pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MachineError(f"pandas cannot be loaded ({error})", "Install it: pip install pandas") from None
    return pandas.DataFrame(list(rows), columns=list(columns))
