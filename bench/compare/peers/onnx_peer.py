"""ONNX Runtime: onnx_peer.py THREADS. Convolutions as graphs of one node, networks as PyTorch exports them."""
import io
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from worker import serve

THREADS = int(sys.argv[1])
RANDOM = np.random.default_rng(0)


def session(model_bytes, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    made = onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])
    return lambda: made.run(None, feeds)


def conv(batch, channels, side, out, kernel, stride, groups, grad):
    if grad:
        return None
    x = RANDOM.standard_normal((batch, channels, side, side), dtype=np.float32)
    w = RANDOM.standard_normal((out, channels // groups, kernel, kernel), dtype=np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                            pads=[kernel // 2] * 4, group=groups)
    graph = helper.make_graph([node], "conv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return session(model.SerializeToString(), {"x": x})


def exported(name, batch):
    """Through PyTorch's exporter, in evaluation mode."""
    import torch
    import torch_models
    model, x = torch_models.evaluation(name, batch)
    file = io.BytesIO()
    torch.onnx.export(model, (x,), file, input_names=["x"], opset_version=17, dynamo=False)
    return session(file.getvalue(), {"x": x.numpy()})


def build(case):
    if case["op"] == "conv":
        return conv(*case["args"])
    if case["suite"] == "model" and "dims" in case and case["dims"] and not case["op"].endswith("-step"):
        return exported(case["op"], **case["dims"])
    return None


serve(build)
