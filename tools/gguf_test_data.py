"""Writes the test data of GGUF files with the `gguf` package, and the constants of block formats that are tables.

    python -m venv venv && venv/bin/pip install gguf==0.19.0
    venv/bin/python tools/gguf_test_data.py

- tests/unit/formats/data/from_python.gguf: all kinds of metadata, several tensor types
- tests/unit/formats/data/blocks.gguf: for each block format a tensor of random blocks, named after it, and what the
  package decodes them to, "<name>.values"
- src/scalar/block_codebooks.cpp: the codebooks of the IQ formats; run tools/format after it
"""
import os

import gguf
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type, GGUFValueType as Kind

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DATA = os.path.join(ROOT, "tests/unit/formats/data")
DECODED = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M "
           "IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4").split()
# Where each format keeps f16 numbers, in bytes: random bytes there could be infinities.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0],
          "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}


def write(name, fill):
    writer = gguf.GGUFWriter(os.path.join(DATA, name), "test")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def example(writer):
    for kind, value in [(Kind.UINT8, 200), (Kind.INT8, -100), (Kind.UINT16, 60000), (Kind.INT16, -30000),
                        (Kind.UINT32, 4000000000), (Kind.INT32, -2000000000), (Kind.FLOAT32, 0.5),
                        (Kind.BOOL, True), (Kind.UINT64, 2**63), (Kind.INT64, -2**62), (Kind.FLOAT64, 0.1)]:
        writer.add_key_value("test." + kind.name.lower(), value, kind)
    writer.add_string("test.text", "h\u00e9llo")
    writer.add_array("test.words", ["one", "two", ""])
    writer.add_array("test.nested", [[1, 2], [3]])
    writer.add_tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("b", np.arange(4, dtype=np.int16))
    weights = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)
    writer.add_tensor("c", quants.quantize(weights, Type.Q8_0), raw_dtype=Type.Q8_0)


def blocks(writer):
    random = np.random.default_rng(18)
    for name in DECODED:
        elements, size = GGML_QUANT_SIZES[Type[name]]
        raw = random.integers(0, 256, (3, size), dtype=np.uint8)
        for at in HALVES.get(name, []):
            raw[:, at:at + 2] = random.uniform(-2, 2, 3).astype(np.float16).view(np.uint8).reshape(3, 2)
        if name == "IQ1_M":  # the upper half of the last u16 is the sign and exponent of the f16
            raw[:, 55] = (raw[:, 55] & 0x0F) | 0x30
        writer.add_tensor(name, raw, raw_dtype=Type[name])
        writer.add_tensor(name + ".values", quants.dequantize(raw, Type[name]))


def codebooks():
    out = ['#include "scalar/block_codebooks.h"', "",
           "// Written by tools/gguf_test_data.py. Source: GGML, ggml-common.h.", "namespace luminal::blocks {", ""]
    for name in "IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S".split():
        quant = getattr(quants, name)
        quant.init_grid()
        grid = quant.grid.reshape(quant.grid_shape).astype(int)
        bits = 3 if len(quant.grid_map) > 4 else 2
        packed = [sum(quant.grid_map.index(v) << bits * j for j, v in enumerate(row)) for row in grid]
        title = "k" + "".join(part.capitalize() for part in name.split("_")) + "Grid"
        out.append(f"const std::array<int32_t, {len(packed)}> {title}{{")
        for i in range(0, len(packed), 16):
            out.append("    " + ", ".join(str(p) for p in packed[i:i + 16]) + ",")
        out += ["};", ""]
    out += ["}  // namespace luminal::blocks", ""]
    with open(os.path.join(ROOT, "src/scalar/block_codebooks.cpp"), "w") as file:
        file.write("\n".join(out))


os.makedirs(DATA, exist_ok=True)
write("from_python.gguf", example)
write("blocks.gguf", blocks)
codebooks()
