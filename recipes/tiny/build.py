"""Rebuild the whole tiny pair offline with one command (README.md).

Stages already finished (work/*.done) are skipped; an interrupted training continues from its
last checkpoint. Remove work/ to start over. Uses at most two single-thread processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import corpus
from golden import write_golden
from prompts import write_prompts
from settings import DRAFTERS, HERE, PAIR, WORK
from speculators_pairs.plan import PLANS

STATEMENT = """\
The models, tokenizer, prompts and golden proposals in this directory were trained on, or are
quoted from, docstrings of the Python 3.11 standard library. Changes: a selection of docstrings
was taken out of the source files and each was prefixed with its dotted name.

Copyright (c) 2001, 2002, 2003, 2004, 2005, 2006, 2007, 2008, 2009, 2010, 2011, 2012, 2013, 2014,
2015, 2016, 2017, 2018, 2019, 2020, 2021, 2022, 2023 Python Software Foundation;
All Rights Reserved

"""


def run(name: str, *command: str) -> None:
    """Run one training script in its own single-thread process, unless it is marked done."""
    marker = WORK / f"{name}.done"
    if marker.exists():
        print(f"{name}: done before", flush=True)
        return
    started = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *command], cwd=HERE, env=environment, check=True)
    print(f"{name}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    marker.touch()


def write_small_files() -> None:
    """Write pair.json and LICENSE-DATA."""
    names = [*DRAFTERS, *PLANS]
    pair = {"schema": 1, "default": "dflash", "drafters": names, "prompts": "prompts.json"}
    (PAIR / "pair.json").write_text(json.dumps(pair, indent=1) + "\n")
    licence = (HERE / "LICENSE-PSF.txt").read_text()
    (PAIR / "LICENSE-DATA").write_text(STATEMENT + licence)


def main() -> None:
    """Run all stages in order; the drafters two at a time."""
    WORK.mkdir(exist_ok=True)
    corpus.write_tokenizer(PAIR / "target")
    run("target", "train_target.py")
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(run, name, "train_drafter.py", name) for name in DRAFTERS]
    for job in jobs:
        job.result()
    write_prompts()
    write_golden()
    write_small_files()
    run("evaluation", "evaluate.py")


if __name__ == "__main__":
    main()
