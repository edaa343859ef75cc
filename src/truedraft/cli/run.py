"""`truedraft run`: the main job on one pair."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truedraft import __version__
from truedraft.cli._architecture import import_architecture
from truedraft.cli._deployment import deploy, sampling_options
from truedraft.cli._progress import bar, engine_imports, set_threads, status
from truedraft.cli._prompts import gather, tokenize
from truedraft.cli._records import check_records, write_records
from truedraft.cli._run_text import render
from truedraft.cli._tree_options import tree_options
from truedraft.formats import Resolution, read_measured, resolve

if TYPE_CHECKING:
    from truedraft.models import Pair
    from truedraft.models.kernels import KernelChoice


@click.command("run")
@click.argument("target")
@click.argument("draft", required=False)
@click.option("--prompt", "texts", multiple=True, metavar="TEXT", help="A prompt; may be repeated.")
@click.option(
    "--prompt-file",
    "--prompts",
    type=click.Path(path_type=Path),
    help="A text (one prompt), or .jsonl with text or tokens.",
)
@click.option("--max-new-tokens", type=click.IntRange(min=1), help="Tokens to generate per prompt.")
@click.option(
    "--set", "overrides", multiple=True, metavar="AXIS=VALUE", help="Override an axis of the contract."
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    help="A report of `truedraft probe --json`: run what it decided.",
)
@click.option("--k", "speculative_tokens", type=click.IntRange(min=0), help="Drafts to verify per round.")
@tree_options
@sampling_options
@click.option(
    "--confidence-threshold",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Verify only drafts before the first one rated below this (0: all).",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    help="CPU threads (default: torch's, 1 for a small target).",
)
@click.option(
    "--kernels",
    type=click.Choice(["auto", "torch", "onnxruntime"]),
    default="auto",
    show_default=True,
    help="What multiplies by the weights on the CPU (docs/cpu-speed.md); auto: ONNX Runtime if it is there.",
)
@click.option("--records", type=click.Path(path_type=Path), help="Write acceptance records here, as JSONL.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(
    target: str,
    draft: str | None,
    texts: tuple[str, ...],
    prompt_file: Path | None,
    max_new_tokens: int | None,
    overrides: tuple[str, ...],
    measured: Path | None,
    speculative_tokens: int | None,
    confidence_threshold: float,
    tree_budget: int | None,
    tree_depth: int | None,
    batch_size: int,
    threads: int | None,
    kernels: KernelChoice,
    records: Path | None,
    as_json: bool,
    quiet: bool,
    **sampling: Any,
) -> int:
    """Decode with TARGET and its drafter DRAFT, check that the output is lossless, report acceptance.

    TARGET and DRAFT are directories or a bundled pair (`tiny`, `tiny/dspark`, …). A bundled pair without
    prompts takes its stated evaluation prompts. Exit code 1: an output differs from plain decoding. Sampled
    output cannot be compared with a plain run (but with --verification exact-match, which repeats it token by
    token): the same prompts are then decoded greedily too, and those outputs are compared.
    """
    deployment = deploy(
        sampling,
        speculative_tokens=speculative_tokens,
        confidence_threshold=confidence_threshold,
        tree_budget=tree_budget,
        tree_depth=tree_depth,
        batch_size=batch_size,
    )
    resolution = resolve(target, draft, overrides)
    if measured is not None:
        resolution = resolve(target, draft, overrides, read_measured(measured, resolution.contract))
    entries, stated_tokens = gather(texts, prompt_file, target, draft)
    if records is not None:
        check_records(records, prompt_file)
    pair, used = _load(resolution, speculative_tokens, threads, kernels, quiet)
    prompts = tokenize(entries, pair.tokenizer, pair.contract.target)
    decode_text = None
    if pair.tokenizer is not None:
        decode_text = partial(pair.tokenizer.decode, skip_special_tokens=True)
    from truedraft import measure

    with bar("decoding, plain and speculative", quiet) as step:
        report = measure.run_pair(
            pair.contract,
            pair.target,
            pair.drafter,
            prompts,
            max_new_tokens or stated_tokens,
            deployment=deployment,
            decode_text=decode_text,
            on_progress=None if step is None else partial(step, total=len(prompts)),
        )
    if records is not None:
        write_records(records, report.records)
    if as_json:
        settings = {"overrides": list(overrides), "versions": _versions(used)}
        click.echo(json.dumps(report.to_json() | settings, allow_nan=False))
    else:
        click.echo(render(report))
    return 0 if report.lossless.ok else 1


def _versions(kernels: str) -> dict[str, str]:
    import torch
    import transformers

    versions = {
        "truedraft": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": str(torch.get_num_threads()),
        "kernels": kernels,
    }
    if kernels == "onnxruntime":
        import onnxruntime

        versions[kernels] = onnxruntime.__version__
    return versions


def _load(
    resolution: Resolution,
    speculative_tokens: int | None,
    threads: int | None,
    kernels: KernelChoice,
    quiet: bool,
) -> tuple[Pair, str]:
    """Import torch, load the pair, choose its kernels, warn of guesses."""
    with engine_imports("run"):
        from truedraft.models import load_pair
        from truedraft.models.kernels import use_kernels

        import_architecture(resolution.contract.target.model_type)
    with status("loading target and drafter", quiet):
        pair = load_pair(resolution, speculative_tokens=speculative_tokens)
    set_threads(pair.target.model, threads)
    with status("packing weights", quiet):
        used = use_kernels(pair, kernels)
    for name in pair.contract.inferred:
        source = pair.contract.axes[name].source
        _say(quiet, f"warning: {name} is inferred, not stated: {source.where if source else ''}")
    return pair, used


def _say(quiet: bool, line: str) -> None:
    if not quiet:
        click.echo(f"truedraft: {line}", err=True)
