"""What a verify pass costs: k rows against the best pass over one row, by route.

    python benchmarks/verify_cost.py [TARGET] [--rows 1 2 4 6 8 16] [--repetitions 7] [--threads 1] [--json]

TARGET: a directory or bundled name of a dense target (default: smollm2, after `truedraft fetch smollm2`).
First all products of one pass (layers and head) by every route, then the whole forward of `Target` by the two
that `truedraft run` offers. Routes take turns in every repetition; medians are reported, and as ratios to the
smallest one-row median in fp32. For each route two checks that say whether it may verify drafts: `alone`, the
largest change of a row when it runs without the others; `neighbours`, when the others are a thousand times
larger. `error`: against fp32. All three relative to the largest output. Needs the extra `cpu`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from truedraft.decode.protocols import Batch
from truedraft.formats import locate
from truedraft.models.load_target import load_target_model
from truedraft.models.onnx_kernels import IR_VERSION, OPSET, OnnxKernels
from truedraft.models.target import HFTarget

Route = Callable[[list[Tensor]], list[Tensor]]
"""One input [k, in] per weight to one output [k, out] per weight."""


def linear(weights: Sequence[Tensor]) -> Route:
    """torch, as checkpoints store weights."""
    return lambda xs: [F.linear(x, w) for x, w in zip(xs, weights, strict=True)]


def transposed(weights: Sequence[Tensor]) -> Route:
    """torch, weights stored the other way round."""
    turned = [w.T.contiguous() for w in weights]
    return lambda xs: [x @ w for x, w in zip(xs, turned, strict=True)]


def packed(weights: Sequence[Tensor]) -> Route:
    """ONNX Runtime, fp32 (`--kernels onnxruntime`)."""
    kernels = list(map(OnnxKernels(torch.get_num_threads()), weights))
    return lambda xs: [kernel(x) for kernel, x in zip(kernels, xs, strict=True)]


def int8_bf16(weights: Sequence[Tensor]) -> Route:
    """torch, int8 weights with a scale per output, bf16 activations."""
    scales = [w.abs().amax(1) / 127 for w in weights]
    eights = [(w / s[:, None]).round().to(torch.int8) for w, s in zip(weights, scales, strict=True)]
    halves = [s.bfloat16() for s in scales]
    product = torch.ops.aten._weight_int8pack_mm
    return lambda xs: [
        product(x.bfloat16(), w, s).float() for x, w, s in zip(xs, eights, halves, strict=True)
    ]


def int8_dynamic(weights: Sequence[Tensor]) -> Route:
    """torch, int8 weights and activations with one scale for all rows (`quantize_dynamic`)."""
    modules = []
    for weight in weights:
        module = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        module.weight = nn.Parameter(weight, requires_grad=False)
        stack = nn.Sequential(module)
        modules.append(torch.ao.quantization.quantize_dynamic(stack, {nn.Linear}, dtype=torch.qint8))
    return lambda xs: [module(x) for module, x in zip(modules, xs, strict=True)]


def int4(weights: Sequence[Tensor]) -> Route:
    """ONNX Runtime, int4 weights in blocks of 32, int8 activations with a scale per row and block."""
    sessions = [_int4_session(w.numpy()) for w in weights]
    return lambda xs: [
        torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
        for session, x in zip(sessions, xs, strict=True)
    ]


def _int4_session(weight: np.ndarray[Any, Any]) -> Any:
    outputs, inputs = weight.shape
    blocks = weight.reshape(outputs, inputs // 32, 32)
    low = blocks.min(-1)
    scale = (blocks.max(-1) - low) / 15
    zero = np.clip(np.round(-low / scale), 0, 15)
    codes = np.clip(np.round(blocks / scale[..., None] + zero[..., None]), 0, 15).astype(np.uint8)
    zeros = zero.astype(np.uint8)
    if zeros.shape[1] % 2:
        zeros = np.pad(zeros, ((0, 0), (0, 1)))
    tensors = {
        "q": codes[..., ::2] | codes[..., 1::2] << 4,
        "s": scale.astype(np.float32),
        "z": zeros[:, ::2] | zeros[:, 1::2] << 4,
    }
    node = helper.make_node(
        "MatMulNBits", ["x", *tensors], ["y"], domain="com.microsoft",
        K=inputs, N=outputs, bits=4, block_size=32, accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", outputs])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = IR_VERSION
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.use_per_session_threads = torch.get_num_threads() == 1  # else the pool of `OnnxKernels`
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


ROUTES: dict[str, Callable[[Sequence[Tensor]], Route]] = {
    "torch F.linear": linear,
    "torch transposed": transposed,
    "onnxruntime fp32": packed,
    "torch int8 weights, bf16": int8_bf16,
    "torch int8 dynamic": int8_dynamic,
    "onnxruntime int4, int8": int4,
}


def examined(route: Route, weights: Sequence[Tensor]) -> dict[str, float]:
    """`alone`, `neighbours` and `error`, relative to each product's largest output; the largest of all."""
    xs = [torch.randn(5, w.shape[1]) for w in weights]
    loud = [torch.cat([x[:1], 1000 * x[1:]]) for x in xs]
    together, alone, beside = route(xs), route([x[:1].contiguous() for x in xs]), route(loud)
    out = {"alone": 0.0, "neighbours": 0.0, "error": 0.0}
    for x, w, a, b, c in zip(xs, weights, together, alone, beside, strict=True):
        exact = F.linear(x, w)
        size = float(exact.abs().max())
        changes = {"alone": a[0] - b[0], "neighbours": a[0] - c[0], "error": a - exact}
        out = {name: max(out[name], float(change.abs().max()) / size) for name, change in changes.items()}
    return out


def whole_forward(target: HFTarget, context: int, rows: int) -> Callable[[], object]:
    """A pass over `rows` rows behind `context` committed ones, which is not committed."""
    cache = target.new_cache()
    sequence = cache.open()
    tokens = torch.arange(context + rows) % target.embedding.shape[0]
    prompt = Batch(tokens[:context], torch.arange(context), (0, context), (sequence,))
    target.forward(prompt, cache)
    cache.commit(sequence, range(context))
    batch = Batch(tokens[context:], torch.arange(context, context + rows), (0, rows), (sequence,))
    return lambda: target.forward(batch, cache)


def timed(runs: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median milliseconds of each, taking turns; a first call of each is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repetition in range(repetitions + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if repetition:
                seconds[name].append(time.perf_counter() - begin)
    return {name: 1e3 * statistics.median(taken) for name, taken in seconds.items()}


def table(title: str, rows: Sequence[int], found: dict[str, dict[int, float]]) -> list[str]:
    """Milliseconds, then ratios to the best one-row cost."""
    best = min(cells[rows[0]] for name, cells in found.items() if "int" not in name)
    lines = [f"{title}; ms", "", "| k = | " + " | ".join(map(str, rows)) + " |", "|---|" + "---|" * len(rows)]
    lines += [f"| {n} | " + " | ".join(f"{c[k]:.0f}" for k in rows) + " |" for n, c in found.items()]
    lines += ["", f"{title}; against the best one-row cost in fp32", "", *lines[2:4]]
    lines += [f"| {n} | " + " | ".join(f"{c[k] / best:.2f}" for k in rows) + " |" for n, c in found.items()]
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?", default="smollm2")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8, 16])
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.rows = sorted({1, *options.rows})
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    directory, _ = locate(options.target)
    if directory is None:
        sys.exit(f"{options.target}: found no target, expected a directory or `truedraft fetch smollm2`")
    target = HFTarget(load_target_model(directory, dtype=torch.float32, device="cpu"), ())
    weights = [product.weight.detach() for product in target.products()]
    products: dict[str, dict[int, float]] = {name: {} for name in ROUTES}
    forward: dict[str, dict[int, float]] = {"torch": {}, "onnxruntime": {}}
    with torch.inference_mode():
        routes = {name: make(weights) for name, make in ROUTES.items()}
        checks = {name: examined(route, weights) for name, route in routes.items()}
        for k in options.rows:
            xs = [torch.randn(k, w.shape[1]) for w in weights]
            runs = {name: (lambda route=route, xs=xs: route(xs)) for name, route in routes.items()}
            for name, cost in timed(runs, options.repetitions).items():
                products[name][k] = cost
            print(f"{k} rows: products done", file=sys.stderr)
        del routes
        packed_weights = list(map(OnnxKernels(options.threads), weights))
        found = {"torch": [None] * len(weights), "onnxruntime": packed_weights}
        for k in options.rows:
            one = whole_forward(target, options.context, k)

            def by(name: str, one: Callable[[], object] = one) -> object:
                for product, kernel in zip(target.products(), found[name], strict=True):
                    product.kernel = kernel
                return one()

            runs = {name: partial(by, name) for name in found}
            for name, cost in timed(runs, options.repetitions).items():
                forward[name][k] = cost
            print(f"{k} rows: forward done", file=sys.stderr)
    size = sum(w.numel() for w in weights) / 1e6
    if options.json:
        print(json.dumps({"weights": size, "products": products, "forward": forward, "checks": checks}))
        return 0
    names = " ".join(f"{name} {version(name)}" for name in ("torch", "onnxruntime"))
    print(f"{options.target}: {size:.1f} M weights, {options.threads} thread(s), {names}\n")
    print("\n".join(table("products", options.rows, products)))
    print("\n".join(table(f"forward behind {options.context} rows", options.rows, forward)))
    print("| route | error | alone | neighbours |\n|---|---|---|---|")
    for name, found in checks.items():
        print(f"| {name} | {found['error']:.1e} | {found['alone']:.1e} | {found['neighbours']:.1e} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
