"""What each broken convention costs a bundled pair: the pair's sensitivity table.

    python benchmarks/sensitivity.py tiny/dflash [tiny/dspark …] [--json TABLES.json] [--output PAGE.md]

`--json` keeps the tables: a pair that is measured again replaces its own, and the page is made of all.

For every fault: τ on the stated evaluation prompts, the paired mean difference to the contract with a 95 %
interval (t over prompts), prompts lower/equal/higher, and the share of proposals that change on text that the
drafter has not seen (golden text; without one, the prompts' continuations). Decoding is replayed along the
plain greedy output (`measure.accepted_along`), which gives the rounds of the real loop.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from faults import LastRowMissing, RowsUnwritten, with_cache
from truedraft import Contract, Decoder, InputError, Pair, replay, resolve, use_kernels
from truedraft.contract import CHAIN_FAMILIES
from truedraft.formats import evaluation_prompts, locate
from truedraft.measure import accepted_along
from truedraft.measure.teacher_forced import features
from truedraft.models import BlockDrafter, ChainDrafter, HFTarget
from truedraft.models.load import load_tensors, load_tokenizer, make_drafter
from truedraft.models.load_target import load_target_model


@dataclass(frozen=True)
class Fault:
    """A name, overrides of the contract, and a cache that misbehaves."""

    name: str
    overrides: tuple[str, ...] = ()
    cache: type[Any] | None = None


def faults(contract: Contract, target_theta: float, masks: dict[str, int]) -> list[Fault]:
    """Every fault that this contract can suffer."""
    own = _chain_faults() if contract.family in CHAIN_FAMILIES else _block_faults(contract, masks)
    every = [*_tap_faults(contract), *own, *_rope_faults(contract, target_theta), *_window_faults(contract)]
    if contract["head.vocabulary_map"] == "offset":
        every.append(Fault("d2t offsets read as target ids", ("head.vocabulary_map=absolute",)))
    every += [
        Fault("last context row missing", cache=LastRowMissing),
        Fault("first 64 context rows unwritten", cache=RowsUnwritten),
    ]
    return [fault for fault in every if not _is_no_change(contract, fault)]


def _listed(values: Sequence[object]) -> str:
    return ",".join(str(value).lower() for value in values)


def _tap_faults(contract: Contract) -> list[Fault]:
    taps = [int(k) for k in contract["taps.layers"]]
    return [
        Fault("taps +1", (f"taps.layers={_listed([k + 1 for k in taps])}",)),
        Fault("taps -1", (f"taps.layers={_listed([k - 1 for k in taps])}",)),
        Fault("taps reversed", (f"taps.layers={_listed(taps[::-1])}",)),
    ]


def _rope_faults(contract: Contract, target_theta: float) -> list[Fault]:
    return [
        Fault("rope theta of the target", (f"rope.theta={target_theta}",)),
        Fault("rope theta doubled", (f"rope.theta={2 * contract['rope.theta'][0]}",)),
        Fault("rope layout interleaved", ("rope.layout=interleaved",)),
    ]


def _chain_faults() -> list[Fault]:
    return [
        Fault("feature paired with its own token", ("chain.token=same",)),
        Fault("residual starts from the normed feature", ("chain.norm_before_residual=true",)),
        Fault("residual starts from the raw feature", ("chain.norm_before_residual=false",)),
        Fault("normed state fed back", ("chain.feedback=post_norm",)),
        Fault("raw state fed back", ("chain.feedback=residual",)),
        Fault("positions +1", ("chain.position_offset=2",)),
    ]


def _block_faults(contract: Contract, masks: dict[str, int]) -> list[Fault]:
    other_slot = "predicts_next" if contract["block.first_slot"] == "unused" else "unused"
    causal = contract["attention.causal"]
    out = [
        Fault("slot convention of the other family", (f"block.first_slot={other_slot}",)),
        Fault("block three tokens shorter", (f"block.proposals={contract['block.proposals'] - 3}",)),
        Fault("block position +1", ("block.position_offset=1",)),
        Fault("block position -1", ("block.position_offset=-1",)),
        Fault("anchor slot embeds the mask", ("block.anchor_fill=mask",)),
        *(Fault(f"mask id: {name}", (f"block.mask_token_id={id_}",)) for name, id_ in masks.items()),
        Fault("no norm after fc", ("fusion.output_norm=false",)),
        Fault("input norm on context rows", ("fusion.input_norm_on_context=true",)),
        Fault("anchor's own features visible", ("context.end=through_anchor",)),
        Fault("causal in every layer", ("attention.causal=true",)),
        Fault("causal in no layer", ("attention.causal=false",)),
    ]
    if len(set(causal)) > 1:
        out.append(Fault("causality swapped", (f"attention.causal={_listed([not c for c in causal])}",)))
    if contract.get("markov.kind") not in (None, "none"):
        out += [
            Fault("Markov head fed the anchor", ("markov.previous=anchor",)),
            Fault("Markov head dropped", ("markov.kind=none", "confidence.input=none")),
        ]
    return out


def _window_faults(contract: Contract) -> list[Fault]:
    windows = contract["attention.window"]
    if not any(windows):
        return []
    width = next(w for w in windows if w)
    other = "query" if contract["attention.window_rule"][0] == "anchor" else "anchor"
    reach = "each query" if other == "query" else "the anchor"
    out = [
        Fault("window dropped", ("attention.window=none",)),
        Fault("window on every layer", (f"attention.window={width}",)),
        Fault(f"window counted from {reach}", (f"attention.window_rule={other}",)),
    ]
    for name, change in (("W+1", width + 1), ("W-1", width - 1), ("2W", 2 * width)):
        changed = [None if w is None else change for w in windows]
        out.append(Fault(f"window {name}", (f"attention.window={_listed(changed)}",)))
    return out


def _is_no_change(contract: Contract, fault: Fault) -> bool:
    """Whether the contract says already what the fault would set."""
    if not fault.overrides:
        return False
    given = [override.partition("=") for override in fault.overrides]
    return all(_same(contract[name], value) for name, _, value in given)


def _same(found: Any, value: str) -> bool:
    entries = found if isinstance(found, tuple) else (found,)
    return "," not in value and all(str(entry).lower() == value for entry in entries)


def _golden(draft: Path) -> Any:
    """The drafter's golden proposals: its own file, or the pair's; `None` if neither is there."""
    for folder in (draft, draft.parent):
        if (path := folder / "golden" / "proposals.json").exists():
            return json.loads(path.read_text())
    return None


class Bench:
    """One pair: features of all layers once, then any drafter wiring on top."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contract = resolve(name).contract
        directory, draft = locate(name)
        assert directory is not None
        assert draft is not None
        self.layers = tuple(range(-1, self.contract.target.layers))
        model = load_target_model(directory, dtype=torch.float32, device="cpu")
        self.target_theta = float(model.config.rope_parameters["rope_theta"])
        self.target = HFTarget(model, self.layers)
        self.tokenizer = load_tokenizer(directory)
        entries, count = evaluation_prompts(name)
        prompts = [self.tokenizer(entry["text"]).input_ids for entry in entries]
        outputs = Decoder(self.target).generate(prompts, count)
        self.texts = [(len(ids), ids + run.tokens) for ids, run in zip(prompts, outputs, strict=True)]
        self.masks = MASKS[name.split("/")[0]]
        longest = self.texts
        if (golden := _golden(draft)) is not None:
            unseen = [entry["tokens"] for entry in golden["drafters"][draft.name]]
            longest = [(16, a) for a in unseen if not any(b != a and b[: len(a)] == a for b in unseen)]
        self.unseen = [(text, list(range(start, len(text), 3))) for start, text in longest]
        with torch.inference_mode():
            self.features = [features(self.target, text) for _, text in self.texts]
            self.unseen_features = [features(self.target, text) for text, _ in self.unseen]

    def drafter(self, fault: Fault | None) -> tuple[BlockDrafter | ChainDrafter, list[int]]:
        """The drafter under a fault, and the feature columns that its taps select."""
        resolution = resolve(self.name, overrides=fault.overrides if fault else ())
        weights = load_tensors(resolution.tensors, dtype=torch.float32, device="cpu")
        drafter = make_drafter(resolution.contract, weights, self.target.embedding, self.target.head)
        use_kernels(Pair(resolution.contract, self.target, drafter, self.tokenizer))
        if fault is not None and fault.cache is not None:
            drafter = with_cache(drafter, fault.cache)
        hidden = self.contract.target.hidden_size
        starts = [(self.layers.index(k)) * hidden for k in resolution.contract["taps.layers"]]
        return drafter, [c for s in starts for c in range(s, s + hidden)]

    def tau_by_prompt(self, fault: Fault | None) -> np.ndarray[Any, Any]:
        """Rows (rounds, accepted) per evaluation prompt."""
        drafter, columns = self.drafter(fault)
        counts = []
        for (start, text), taps in zip(self.texts, self.features, strict=True):
            _, accepted = accepted_along(drafter, text, start, taps[:, columns])
            counts.append((len(accepted), sum(accepted)))
        return np.array(counts, dtype=float)

    def proposals(self, fault: Fault | None) -> list[list[int]]:
        """Proposals at many positions of unseen text."""
        drafter, columns = self.drafter(fault)
        out = []
        for (text, anchors), taps in zip(self.unseen, self.unseen_features, strict=True):
            out += [
                p.tokens[0].tolist() for p in replay(self.target, drafter, text, anchors, taps[:, columns])
            ]
        return out


def table(bench: Bench) -> list[dict[str, Any]]:
    """One row per fault, the contract first."""
    base, base_proposals = bench.tau_by_prompt(None), bench.proposals(None)
    rows: list[dict[str, Any]] = [
        {
            "fault": "none (the contract)",
            "tau": 1 + base[:, 1].sum() / base[:, 0].sum(),
            "anchors": len(base_proposals),
        }
    ]
    for fault in faults(bench.contract, bench.target_theta, bench.masks):
        try:
            counts, proposals = bench.tau_by_prompt(fault), bench.proposals(fault)
        except InputError as error:
            print(f"{bench.name}: {fault.name}: {error}", file=sys.stderr)
            continue
        differences = counts[:, 1] / counts[:, 0] - base[:, 1] / base[:, 0]
        mean, error_ = differences.mean(), differences.std(ddof=1) / len(differences) ** 0.5
        changed = [a[: len(b)] != b[: len(a)] for a, b in zip(base_proposals, proposals, strict=True)]
        rows.append(
            {
                "fault": fault.name,
                "set": list(fault.overrides) or [f"cache: {fault.cache.__name__}" if fault.cache else ""],
                "tau": 1 + counts[:, 1].sum() / counts[:, 0].sum(),
                "difference": mean,
                "interval": [mean - T95 * error_, mean + T95 * error_],
                "lower_equal_higher": [
                    int((differences < 0).sum()),
                    int((differences == 0).sum()),
                    int((differences > 0).sum()),
                ],
                "proposals_changed": sum(changed) / len(changed),
            }
        )
        print(f"{bench.name}: {fault.name}: tau {rows[-1]['tau']:.2f}", file=sys.stderr)
    return rows


MASKS = {
    "tiny": {"reserved, never seen": 2, "end of text": 0, "a word piece": 300},
    "smollm2": {"end of the answer": 2, "a reserved token": 16, "a word piece": 300},
}
"""Ids that a mask may be taken for, by pair."""

PROMPTS = {
    "tiny": "The evaluation prompts are text that target and drafter have memorised; `changed` is "
    "measured on text that the drafter has not seen.",
    "smollm2": "The evaluation prompts are 12 tasks of HumanEval and 12 questions of GSM8K, answered by the "
    "target; no drafter was trained on them, and `changed` is measured on the same text.",
}
"""What the texts of a pair are."""

T95 = 2.069
"""97.5 % quantile of Student's t with 23 degrees of freedom: the bundled pairs have 24 prompts."""


def markdown(tables: dict[str, list[dict[str, Any]]]) -> str:
    """The tables as a page of the documentation."""
    pairs = dict.fromkeys(name.split("/")[0] for name in tables)
    lines = [
        f"# Sensitivity of the bundled pairs: {', '.join(pairs)}",
        "",
        "Generated by `benchmarks/sensitivity.py`; see its docstring for the method. τ is pooled over",
        "rounds, bonus token included; the difference is the mean over the 24 prompts of (accepted per",
        "round under the fault − under the contract), with a 95 % t interval over prompts. `changed` is the",
        "share of proposals that differ from the contract's.",
        *(PROMPTS[pair] for pair in pairs),
    ]
    for name, rows in tables.items():
        lines += [
            "",
            f"## {name}",
            "",
            f"τ under the contract: **{rows[0]['tau']:.2f}** ({rows[0]['anchors']} anchors for `changed`).",
            "",
        ]
        lines += [
            "| fault | `--set` | τ | difference [95 %] | lower/equal/higher | changed |",
            "|---|---|---|---|---|---|",
        ]
        for row in rows[1:]:
            low, high = row["interval"]
            settings = "<br>".join(f"`{entry}`" for entry in row["set"])
            counts = "/".join(map(str, row["lower_equal_higher"]))
            lines.append(
                f"| {row['fault']} | {settings} | {row['tau']:.2f} | {row['difference']:+.2f} "
                f"[{low:+.2f}, {high:+.2f}] | {counts} | {row['proposals_changed']:.0%} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tables: dict[str, Any] = {}
    if options.json and options.json.exists():
        tables = json.loads(options.json.read_text())["pairs"]
    for name in options.pairs:
        tables[name] = table(Bench(name))
        if options.json:
            options.json.write_text(json.dumps({"schema": 1, "pairs": tables}, indent=1) + "\n")
    if options.output:
        options.output.write_text(markdown(tables))
    else:
        print(markdown(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
