"""Products by ONNX Runtime's fp32 kernels (MLAS): each weight packed once, in a session of its own.

A row's result depends neither on its neighbours nor on how many there are; `tests/models/test_kernels.py`
holds that bit by bit. The sessions share one pool of threads, whose size is that of the first call in the
process.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import Tensor

from truedraft.contract import InputError
from truedraft.models.product import Kernel

OPSET, IR_VERSION = 17, 8
"""Of 2022: read by every release of ONNX Runtime from 1.12 on."""

LARGEST_BYTES = 2**31 - 2**20
"""A model in memory is one protobuf message."""


class OnnxKernels:
    """Makes kernels; a weight that is used twice is packed once."""

    threads: int | None = None

    def __init__(self, threads: int) -> None:
        self._kernels: dict[tuple[int, torch.Size], Kernel] = {}
        cls = type(self)
        if cls.threads is None and threads > 1:
            onnxruntime.set_global_thread_pool_sizes(threads, 1)
        if cls.threads not in (None, threads):
            raise InputError(f"threads: found {threads}, expected {cls.threads} as before in this process")
        cls.threads = threads
        self._options = onnxruntime.SessionOptions()
        if threads > 1:
            self._options.use_per_session_threads = False
        else:
            self._options.intra_op_num_threads = 1
            self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 3

    def __call__(self, weight: Tensor) -> Kernel:
        """The kernel of a weight [out, in], fp32 on the CPU."""
        key = (weight.data_ptr(), weight.shape)
        if key not in self._kernels:
            self._kernels[key] = self._packed(weight)
        return self._kernels[key]

    def _packed(self, weight: Tensor) -> Kernel:
        outputs, inputs = weight.shape
        if 4 * weight.numel() > LARGEST_BYTES:
            raise InputError(
                f"kernels onnxruntime: found a weight {tuple(weight.shape)} of {4 * weight.numel()} bytes, "
                f"expected at most {LARGEST_BYTES}"
            )
        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
            "product",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", inputs])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", outputs])],
            [
                helper.make_tensor(
                    "w", TensorProto.FLOAT, [outputs, inputs], weight.numpy().tobytes(), raw=True
                )
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = min(IR_VERSION, onnx.IR_VERSION)
        session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
        )

        def kernel(x: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])

        return kernel
