"""A BLAS through its C interface: blas_peer.py THREADS LIBRARY. Threads are set by the library's environment."""
import ctypes
import sys

import numpy as np
from worker import serve

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
RANDOM = np.random.default_rng(0)
SGEMM = ctypes.CDLL(sys.argv[2]).cblas_sgemm
POINTER = ctypes.POINTER(ctypes.c_float)
SGEMM.argtypes = [ctypes.c_int] * 6 + [ctypes.c_float, POINTER, ctypes.c_int, POINTER, ctypes.c_int, ctypes.c_float,
                                       POINTER, ctypes.c_int]
SGEMM.restype = None


def build(case):
    if case["op"] != "gemm":
        return None
    m, n, k, transposed = case["args"]
    a, b = (RANDOM.standard_normal(count, dtype=np.float32) for count in (m * k, k * n))
    c = np.zeros(m * n, np.float32)
    at, bt = "a" in transposed, "b" in transposed
    pointers = [x.ctypes.data_as(POINTER) for x in (a, b, c)]

    def run(keep=(a, b, c)):
        SGEMM(ROW_MAJOR, TRANSPOSED if at else PLAIN, TRANSPOSED if bt else PLAIN, m, n, k, 1.0, pointers[0],
              m if at else k, pointers[1], k if bt else n, 0.0, pointers[2], n)
    return run


serve(build)
