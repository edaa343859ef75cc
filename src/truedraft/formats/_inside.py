"""Files of a checkpoint directory, and no others: links that lead out of it and special files are refused.

A checkpoint is often somebody else's archive. A link in it may point at any file of the reader's machine,
whose contents would then stand in messages and reports; opening a fifo would wait for ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from truedraft.contract import InputError


def find_file(directory: Path, name: str) -> Path | None:
    """The regular file `name` in `directory`, or `None` if nothing is called so.

    The path is not resolved, so that messages say the name that the checkpoint uses. Raises `InputError`
    with one line for links that lead out of the directory or nowhere, and for whatever is no regular file.
    Links into the blobs of the same repository are followed in a Hugging Face cache.
    """
    path = directory / name
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        root, real = directory.resolve(strict=True), path.resolve(strict=True)
        kind = os.stat(real).st_mode
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, below Python 3.13
        reason = getattr(error, "strerror", None) or "a loop of links"
        what = "a link that leads nowhere" if os.path.islink(path) else "cannot be read"
        raise InputError(f"{path}: {what} ({reason})") from None
    if not real.is_relative_to(root) and not _is_blob(root, real):
        raise InputError(f"{path}: a link that leads out of the directory, expected a file inside it")
    if not stat.S_ISREG(kind):
        raise InputError(f"{path}: not a regular file")
    return path


def need_file(directory: Path, name: str) -> Path:
    """As `find_file`, and an `InputError` if nothing is called so."""
    path = find_file(directory, name)
    if path is None:
        raise InputError(f"{directory / name}: no such file")
    return path


def _is_blob(root: Path, real: Path) -> bool:
    """Whether `root` is a snapshot in a Hugging Face cache and `real` a blob of the same repository.

    Layout: `models--org--name/snapshots/REVISION/file -> ../../blobs/HASH` (huggingface_hub, "Understand
    caching").
    """
    snapshots, repository = root.parent, root.parent.parent
    cached = snapshots.name == "snapshots" and repository.name.startswith("models--")
    return cached and real.parent == repository / "blobs"
