"""Writes a trace file, chunk by chunk."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tierkv.errors import TraceError, say
from tierkv.trace.chunk import Chunk, Ints
from tierkv.trace.layout import FORMAT, ROWS, VERSION, make_head, member, steps_of

_MOST_STEPS = 1 << 20


class TraceWriter:
    """Writes steps as they come; the file appears under its name once it is complete.

    Use it as a context manager: one that ends with an error leaves nothing behind.
    """

    def __init__(
        self,
        path: str | Path,
        shape: tuple[int, int, int, int],
        *,
        meta: Mapping[str, Any] | None = None,
        compress: bool = False,
    ) -> None:
        """Open a file.

        Parameters
        ----------
        shape
            Groups, lanes, Q, K.
        meta
            What JSON can hold; may be replaced until :meth:`close`.

        Raises
        ------
        TraceError
            If the file cannot be written.
        """
        self.path, self.shape = Path(path), shape
        self.meta = dict(meta or {})
        self.steps = 0
        """Steps written."""
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        try:
            self._zip = zipfile.ZipFile(self._partial, "w", method)
        except OSError as error:
            raise TraceError(say(str(path), f"cannot be written, {error.strerror}")) from None
        length = steps_of(4 * int(np.prod(shape)), _MOST_STEPS)
        self._ids: Ints = np.empty((length, *shape), np.int32)
        self._filled = 0
        self._chunks = 0
        self._rows: dict[str, list[Ints]] = {name: [] for name in ROWS}

    def write(self, chunk: Chunk) -> None:
        """Add steps; the arrays are copied.

        Raises
        ------
        TraceError
            If the shape is another, or the disk is full.
        """
        if chunk.ids.shape[1:] != self.shape:
            wrong = f"each step must be {list(self.shape)}"
            raise TraceError(say(str(self.path), wrong, got=list(chunk.ids.shape[1:])))
        for name in ROWS:
            self._rows[name].append(np.array(getattr(chunk, name), np.int32))
        done = 0
        while done < len(chunk):
            count = min(len(chunk) - done, len(self._ids) - self._filled)
            self._ids[self._filled : self._filled + count] = chunk.ids[done : done + count]
            self._filled += count
            done += count
            if self._filled == len(self._ids):
                self._flush()
        self.steps += len(chunk)

    def close(self) -> None:
        """Complete the file.

        Raises
        ------
        TraceError
            If no step was written, or what was written makes no trace; nothing is left then.
        """
        try:
            rows = {name: np.concatenate(blocks) for name, blocks in self._rows.items() if blocks}
            make_head(str(self.path), (self.steps, *self.shape), rows, self.meta)
            self._flush()
            for name, array in rows.items():
                self._put(name, array)
            self._put("format", np.array(FORMAT))
            self._put("version", np.array(VERSION, np.int32))
            self._put("meta", np.array(json.dumps(self.meta)))
            self._zip.close()
            os.replace(self._partial, self.path)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close without a file."""
        self._zip.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _flush(self) -> None:
        if self._filled:
            self._put(member(self._chunks), self._ids[: self._filled])
            self._chunks += 1
            self._filled = 0

    def _put(self, name: str, array: np.ndarray[Any, Any]) -> None:
        info = zipfile.ZipInfo(f"{name}.npy")  # its fixed date keeps equal traces equal files
        info.compress_type = self._zip.compression
        try:
            with self._zip.open(info, "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
        except OSError as error:
            raise TraceError(say(str(self.path), f"cannot be written, {error}")) from None
