"""Tables of earlier versions, whose structures in lists lack the texts that were added since."""

from __future__ import annotations

import pyarrow as pa


def is_earlier(old: pa.Schema, new: pa.Schema) -> bool:
    """Whether only texts at the end of the structures in lists are missing."""
    return old.names == new.names and all(
        mine.type == other.type
        or (
            pa.types.is_list(mine.type)
            and pa.types.is_list(other.type)
            and pa.types.is_struct(mine.type.value_type)
            and pa.types.is_struct(other.type.value_type)
            and [*mine.type.value_type] == [*other.type.value_type][: mine.type.value_type.num_fields]
            and all(pa.types.is_string(field.type) for field in _missing(mine.type, other.type))
        )
        for mine, other in zip(old, new, strict=True)
    )


def _missing(old: pa.ListType, new: pa.ListType) -> list[pa.Field]:
    return [*new.value_type][old.value_type.num_fields :]


def completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with empty texts for the missing ones."""
    columns = list(batch.columns)
    for number, (column, field) in enumerate(zip(columns, schema, strict=True)):
        if column.type != field.type:
            values = column.values
            buffers = [None, _zeros(4 * (len(values) + 1)), pa.py_buffer(b"")]
            empty = pa.Array.from_buffers(pa.string(), len(values), buffers)
            fields = [*values.flatten(), *[empty] * len(_missing(column.type, field.type))]
            filled = pa.StructArray.from_arrays(fields, fields=[*field.type.value_type])
            columns[number] = pa.ListArray.from_arrays(column.offsets, filled, type=field.type)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


_zero_bytes = pa.py_buffer(b"")


def _zeros(size: int) -> pa.Buffer:
    """A buffer of zeros, shared by all batches."""
    global _zero_bytes
    if _zero_bytes.size < size:
        _zero_bytes = pa.py_buffer(bytes(max(size, 1 << 16)))
    return _zero_bytes.slice(0, size)
