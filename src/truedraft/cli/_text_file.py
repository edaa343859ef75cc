"""Text that the user hands over: a file, a pipe, or stdin for `-`; read line by line and within bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from truedraft.contract import InputError

FILE_BYTES = 64 * 2**20
LINE_BYTES = 2**20


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file of that name, or stdin for `-`; what fails is an `InputError`."""
    try:
        if str(path) != "-":
            with path.open("rb") as file:
                yield file
        elif sys.stdin is None:  # closed by the caller: `<&-`
            raise InputError("-: stdin is closed, expected a text file")
        else:
            yield sys.stdin.buffer
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}, expected a text file") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, from 1, without line ends and a leading byte order mark.

    Raises `InputError` for a line longer than `LINE_BYTES` and a file longer than `FILE_BYTES`.
    """
    count = number = 0
    with opened(path) as file:
        while line := file.readline(LINE_BYTES + 1):
            number, count = number + 1, count + len(line)
            if len(line) > LINE_BYTES:
                raise InputError(
                    f"{path}:{number}: found more than {LINE_BYTES} bytes, expected a shorter line"
                )
            if count > FILE_BYTES:
                raise InputError(f"{path}: found more than {FILE_BYTES} bytes, expected a smaller file")
            yield number, (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).rstrip(b"\r\n")
