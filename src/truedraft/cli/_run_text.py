"""`truedraft run` for a reader: contract in short, outputs, acceptance, speed, losslessness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truedraft.contract import Acceptance, Contract, Deployment, format_value

if TYPE_CHECKING:
    from truedraft.measure import RunReport

SHORT = (
    "taps.layers",
    "block.width",
    "block.proposals",
    "block.first_slot",
    "block.mask_token_id",
    "chain.steps",
    "chain.norm_before_residual",
    "chain.feedback",
    "attention.window",
    "attention.causal",
    "rope.theta",
    "embedding.source",
    "head.source",
    "head.vocabulary",
    "markov.kind",
    "confidence.input",
)
"""Axes of the short contract: those that differ most between checkpoints."""

FULL_TEXTS = 3
"""Up to so many outputs are printed whole."""


def render(report: RunReport) -> str:
    """The report as text: contract in short, outputs, acceptance, speed, losslessness."""
    from truedraft.measure.lossless import METHODS

    parts = [contract_in_short(report.contract), ""]
    for output in report.outputs:
        text = output.text if output.text is not None else " ".join(map(str, output.tokens))
        if len(report.outputs) > FULL_TEXTS:
            line = " ".join(text.split())
            text = line if len(line) <= 88 else line[:87] + "…"
        parts.append(f"{output.prompt_id} ({len(output.tokens)} tokens, {output.finish}): {text}")
    parts += [
        "",
        *sampling_lines(report.deployment),
        *tree_lines(report),
        *acceptance_lines(report.acceptance),
    ]
    speed = report.speed
    parts.append(
        f"speed        plain {speed.plain_tokens_per_s:.0f} tokens/s, speculative "
        f"{speed.spec_tokens_per_s:.0f} tokens/s: {speed.ratio:.2f}x (same process, prefill included)"
    )
    parts += cost_lines(report)
    lossless = report.lossless
    verdict = "lossless    " if lossless.ok else "NOT LOSSLESS"
    parts.append(
        f"{verdict} {lossless.identical} of {lossless.of} outputs {METHODS[lossless.method]}, "
        f"{lossless.ties} tie(s)"
    )
    for d in lossless.divergences:
        kind = "tie" if d.tie else "difference"
        numbers = "" if d.gap is None else f", top-2 gap {d.gap:.2g}, epsilon {d.epsilon:.2g}"
        parts.append(f"  {kind} in {d.prompt_id} at output token {d.position}{numbers}")
    return "\n".join(parts)


def contract_in_short(contract: Contract) -> str:
    """A heading and one line per axis of `SHORT` that applies."""
    target = contract.target
    lines = [
        f"contract {contract.hash}  {contract.family} ({contract.dialect}) on {target.model_type}, "
        f"{target.layers} layers"
    ]
    width = max(20, *(len(name) for name in SHORT if contract.axes[name].state == "value"))
    for name in SHORT:
        sourced = contract.axes[name]
        if sourced.state == "value" and sourced.source is not None:
            value = format_value(sourced.value)
            lines.append(f"  {name:{width}} {value:18} {sourced.source.kind}: {sourced.source.where}")
    return "\n".join(lines)


def sampling_lines(how: Deployment) -> list[str]:
    """How the output was sampled and verified; nothing for greedy decoding."""
    if how.verification == "greedy" and how.proposal == "greedy":
        return []

    def settings(temperature: float, top_k: int, top_p: float) -> str:
        return f"temperature {temperature:g}, top-k {top_k or 'off'}, top-p {top_p:g}"

    drafts = "greedy"
    if how.proposal == "sampled":
        drafts = settings(how.draft_temperature, how.draft_top_k, how.draft_top_p)
    rule = how.verification.replace("_", "-")
    target = settings(how.temperature, how.top_k, how.top_p)
    return [f"sampling     target {target}; drafts {drafts}; {rule} verification; seed {how.seed}"]


def tree_lines(report: RunReport) -> list[str]:
    """How large the trees were; nothing for chains."""
    how, figures = report.deployment, report.acceptance
    if how.tree_budget is None or not figures.rounds:
        return []
    mean, deepest = figures.nodes / figures.rounds, how.tree_depth
    return [
        f"tree         up to {how.tree_budget} nodes per round, {mean:.1f} on average; up to {deepest} deep"
    ]


def cost_lines(report: RunReport) -> list[str]:
    """What a round costs beside a one-row pass, and whether speculation pays; nothing without rounds."""
    cost, tau = report.cost, report.acceptance.tau
    if cost is None or tau is None:
        return []
    needed, expected = cost.break_even_tau, cost.expected_ratio(tau)
    verdict = "pays" if expected > 1 else "does not pay"
    shared = f" (a sequence's share; {cost.sequences:.1f} a pass)" if cost.sequences > 1 else ""
    return [
        f"cost         one row {1e3 * cost.plain_s:.1f} ms; draft {1e3 * cost.draft_s:.1f} ms and "
        f"{cost.verify_rows:.1f} rows {1e3 * cost.verify_s:.1f} ms: {needed:.2f} plain rounds{shared}",
        f"             tau {tau:.2f} / {needed:.2f}: {expected:.2f}x expected; speculation {verdict} here "
        f"(from tau {needed:.2f} on)",
    ]


def acceptance_lines(figures: Acceptance) -> list[str]:
    """τ with its definition, then survival and conditional rates by position, or by depth of a tree."""
    if figures.tau is None:
        return ["acceptance   no verification round"]
    cells = range(len(figures.survival))
    conditional = ["  -  " if rate is None else f"{rate:5.3f}" for rate in figures.conditional]
    return [
        f"acceptance   tau {figures.tau:.3f} over {figures.rounds} rounds",
        *(f"             {part.strip()}" for part in figures.definition.split(";")),
        *([] if figures.nodes else ["position     " + " ".join(f"{i:5d}" for i in cells)]),
        *(["depth        " + " ".join(f"{i + 1:5d}" for i in cells)] if figures.nodes else []),
        "survival     " + " ".join(f"{rate:5.3f}" for rate in figures.survival),
        "conditional  " + " ".join(conditional),
    ]
