"""What preprocessors are."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Preprocessor:
    """Turns rows into trajectories. A class says how in `preprocess(row)`; one that defines `__call__` itself gets a row, or columns."""

    @staticmethod
    def map_col_to_row(rows: Mapping[str, Sequence[Any]] | list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Columns as rows."""
        return rows if isinstance(rows, list) else [dict(zip(rows, values)) for values in zip(*rows.values())]

    @staticmethod
    def map_row_to_col(rows: list[dict[str, Any]] | Mapping[str, Any], keys: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """Rows as columns."""
        if isinstance(rows, Mapping):
            return dict(rows)
        names = list(keys or (rows[0] if rows else ()))
        return {name: [row[name] for row in rows] for name in names}

    def preprocess(self, row: Mapping[str, Any]) -> Mapping[str, object] | None:
        """A row's trajectory; None leaves the row out."""
        raise NotImplementedError(f"{type(self).__name__} has no preprocess(row)")

    def __call__(self, row: Mapping[str, Any]) -> Mapping[str, object] | None:
        return self.preprocess(row)


class DataFilter:
    """Says which rows stay."""

    def __call__(self, row: Mapping[str, Any]) -> bool:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(row)")
