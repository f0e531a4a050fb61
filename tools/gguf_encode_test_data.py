#!/usr/bin/env python3
"""Stores blocks of floats and what GGML's Python package makes of them.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0
    venv/bin/python tools/gguf_encode_test_data.py tests/unit/formats/data/encoded.gguf

The file holds f32 tensor "values" and, for each format that the package quantises, the bytes as a tensor of its type.
"""
import argparse

import gguf
import numpy as np

FORMATS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "TQ1_0", "TQ2_0", "MXFP4"]


def values():
    """Rows of 256: of several scales and spreads, with zeros, ties, steps, one sign, outliers."""
    rng = np.random.default_rng(7)
    rows = [rng.normal(size=256) * 10.0 ** rng.integers(-6, 4) for _ in range(20)]
    rows += [np.zeros(256), np.ones(256), -np.ones(256), np.arange(256) - 128.0, np.abs(rng.normal(size=256)),
             rng.integers(-8, 9, 256) / 4.0, np.where(np.arange(256) % 32 == 5, 100.0, rng.normal(size=256))]
    return np.stack(rows).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    writer = gguf.GGUFWriter(parser.parse_args().file, "test")
    x = values()
    writer.add_tensor("values", x)
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
