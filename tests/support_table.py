"""What runs, cell by cell, with the test that proves it; `docs/support.md` is made from this table.

A cell: drafter family, dialect (who wrote the files), target, and `file::test` below `tests/`.
"""

from __future__ import annotations

from truedraft.formats._registry import READERS
from truedraft.models.stateful_types import STATEFUL_TYPES
from truedraft.models.target import MODEL_TYPES

DENSE = "Qwen3 (packed)"
GOLDENS = "models/test_goldens.py::test_features_hidden_and_logits"

PAIRS: tuple[tuple[str, str, str, str], ...] = (
    ("DFlash", "z-lab", DENSE, "pairs/test_tiny.py::test_greedy_output_is_that_of_transformers"),
    (
        "DFlash",
        "z-lab",
        "Qwen3.5/3.6 hybrid, dense and MoE",
        "models/test_founding_targets.py::test_qwen_hybrid_with_the_mixed_dflash_drafter",
    ),
    (
        "DFlash",
        "z-lab",
        "DeepSeek-V4",
        "models/test_founding_targets.py::test_deepseek_v4_with_a_drafter_beside_it",
    ),
    ("DFlash", "speculators", DENSE, "pairs/test_tiny.py::test_golden_proposals_on_unseen_text"),
    ("DSpark", "DeepSpec", DENSE, "pairs/test_tiny.py::test_golden_proposals_on_unseen_text"),
    (
        "DSpark",
        "speculators, anchor-first and bonus anchor",
        DENSE,
        "pairs/test_tiny.py::test_golden_proposals_on_unseen_text",
    ),
    (
        "DSpark",
        "speculators, anchor-first and bonus anchor",
        "GLM-5 (glm_moe_dsa)",
        "models/test_glm_pairs.py::test_speculators_dspark_of_both_conventions",
    ),
    (
        "DSpark",
        "inside DeepSeek-V4",
        "DeepSeek-V4",
        "models/test_deepseek_v4_pair.py::test_run_is_lossless_with_a_full_contract",
    ),
    ("EAGLE-3", "speculators", DENSE, "pairs/test_tiny.py::test_golden_proposals_on_unseen_text"),
    ("EAGLE-3", "speculators", "GLM-5 (glm_moe_dsa)", "models/test_glm_pairs.py::test_an_eagle3_chain"),
    (
        "DDTree over DFlash, DSpark",
        "z-lab, DeepSpec, speculators",
        DENSE,
        "pairs/test_tiny_trees.py::test_greedy_output_is_that_of_transformers",
    ),
    (
        "DDTree over DSpark",
        "speculators, anchor-first",
        "GLM-5 (glm_moe_dsa)",
        "models/test_glm_pairs.py::test_draft_trees",
    ),
    (
        "DDTree",
        "any",
        "recurrent and compressed: refused by name, once loaded",
        "models/test_stateful_trees.py::test_states_without_rows_refuse_trees_by_name",
    ),
    (
        "DDTree over a scripted drafter",
        "any",
        "GLM-5, gpt-oss, Gemma 4, Qwen3-MoE",
        "models/test_stateful_trees.py::test_scripted_trees_through_the_decoder",
    ),
    (
        "DSpark",
        "inside DeepSeek-V4, on the target of another checkpoint",
        "drafter only",
        "models/test_deepseek_v4_drafter.py::test_stages_on_the_target_of_another_checkpoint",
    ),
    (
        "DSpark",
        "inside DeepSeek-V4.1: refused by name",
        "-",
        "models/test_deepseek_v4_drafter.py::test_v41_is_refused_by_name",
    ),
    (
        "any",
        "quantised weights: refused by name, `contract` and `check` read them",
        "any",
        "cli/test_run_quantised.py::test_a_target_whose_config_states_it",
    ),
    (
        "DSpark",
        "inside DeepSeek-V4, quantised stages as published: refused by name",
        "DeepSeek-V4",
        "models/test_deepseek_v4_pair.py::test_quantised_stages_are_refused_in_one_line",
    ),
)
"""Pairs of a drafter and a target that are decoded as a whole."""

TARGETS: tuple[tuple[str, str, str], ...] = (
    ("llama, qwen2, qwen3", "packed", "decode/test_lossless.py::test_every_accepted_length"),
    ("qwen3_moe", "packed", "models/test_stateful_targets.py::test_qwen3_moe_runs_packed_too"),
    (
        "deepseek_v4, gemma4_text, glm_moe_dsa, gpt_oss, "
        "qwen3_5_moe_text, qwen3_5_text, qwen3_moe, qwen3_next",
        "one sequence at a time",
        "models/test_stateful_targets.py::test_every_accepted_length_in_a_ragged_batch",
    ),
)
"""Targets with a scripted drafter that reaches every accepted length."""

DIALECTS: tuple[tuple[str, str], ...] = (
    ("zlab", "models/test_goldens.py"),
    ("speculators", "models/test_speculators_goldens.py"),
    ("deepspec", "models/test_goldens.py"),
    ("deepspec_eagle3", "models/test_chain_goldens.py"),
    ("eagle3", "formats/test_eagle3.py"),
    ("specforge", "formats/test_specforge.py"),
    ("assistant", "formats/test_assistant.py"),
    ("laguna", "formats/test_laguna.py"),
    ("deepseek_v4", "models/test_deepseek_v4_drafter.py"),
)
"""Reader module -> the tests that hold its contracts and drafters to an oracle."""


def page() -> str:
    """The whole of `docs/support.md`."""
    lines = [
        "# What runs, and which test proves it",
        "",
        "Made from `tests/support_table.py`; a test holds the two equal and looks every named test up.",
        "What is in no table is refused by name. Everything was run on small models of the",
        "real architectures, on CPU in fp32; published weights and GPUs were not.",
        "",
        "## Pairs",
        "",
        "| drafter | files of | target | proved by |",
        "|---|---|---|---|",
        *(f"| {family} | {dialect} | {target} | `tests/{test}` |" for family, dialect, target, test in PAIRS),
        "",
        "A drafter is built from its contract and runs on every target below whose sizes fit; the pairs",
        "above are those that a test decodes from files.",
        "",
        "## Targets",
        "",
        "| model_type | how | proved by |",
        "|---|---|---|",
        *(f"| {types} | {how} | `tests/{test}` |" for types, how, test in TARGETS),
        "",
        "## Dialects",
        "",
        "| reader | files | proved by |",
        "|---|---|---|",
    ]
    names = {reader: str(getattr(reader, "__name__", "")).rpartition(".")[2] for reader in READERS}
    descriptions = {name: reader.DESCRIPTION for reader, name in names.items()}
    lines += [f"| `{name}` | {descriptions[name]} | `tests/{test}` |" for name, test in DIALECTS]
    return "\n".join(lines) + "\n"


def target_types() -> set[str]:
    """Every model type that a target adapter takes."""
    return set(MODEL_TYPES) | set(STATEFUL_TYPES)
