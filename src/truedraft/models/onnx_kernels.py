"""Products by ONNX Runtime's fp32 kernels (MLAS): each weight packed once, in a session of its own.

A row's result depends neither on its neighbours nor on how many there are: `Product.adopt` looks, and
`tests/models/test_kernels.py` holds it. With several threads all sessions share one pool, whose size is that
of the first such call in the process.
"""

from __future__ import annotations

from typing import Any

import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import Tensor

from truedraft.contract import InputError
from truedraft.models.product import Kernel

OPSET, IR_VERSION = 17, 8
"""Of 2022: read by every release of ONNX Runtime from 1.12 on."""


class OnnxKernels:
    """Makes kernels of fp32 weights on the CPU; a weight that is used twice is packed once.

    Raises `InputError` for a number of threads that this process can no longer have.
    """

    pool: int | None = None

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise InputError(f"threads: found {threads}, expected at least 1")
        self._kernels: dict[tuple[int, torch.Size, tuple[int, ...]], tuple[Tensor, Kernel]] = {}
        self._threads = threads
        cls = type(self)
        if threads > 1 and cls.pool is None:
            onnxruntime.set_global_thread_pool_sizes(threads, 1)
            cls.pool = threads
        if cls.pool not in (None, threads):  # ONNX Runtime knows no way back, not even to one thread
            raise InputError(f"threads: found {threads}, expected {cls.pool} as before in this process")

    def _options(self) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if self._threads > 1:
            options.use_per_session_threads = False
        else:
            options.intra_op_num_threads = options.inter_op_num_threads = 1
        return options

    def __call__(self, weight: Tensor) -> Kernel:
        """The kernel of a weight [out, in]; it stands for the weight's values of now."""
        key = (weight.data_ptr(), weight.shape, weight.stride())
        if key not in self._kernels:
            # the weight is held, so that no other one comes to lie in its place
            self._kernels[key] = (weight, self._packed(weight.detach()))
        return self._kernels[key][1]

    def _packed(self, weight: Tensor) -> Kernel:
        outputs, inputs = weight.shape
        outside = TensorProto(
            name="w", data_type=TensorProto.FLOAT, dims=[outputs, inputs], data_location=TensorProto.EXTERNAL
        )
        outside.external_data.add(key="location", value="memory")
        graph = helper.make_graph(
            [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
            "product",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", inputs])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", outputs])],
            [outside],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        # the session reads the weight where it lies and keeps a packed copy
        values = onnxruntime.OrtValue.ortvalue_from_numpy(weight.contiguous().numpy())
        options = self._options()
        options.add_external_initializers(["w"], [values])
        session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

        def kernel(x: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {"x": x.detach().numpy()})[0])

        return kernel
