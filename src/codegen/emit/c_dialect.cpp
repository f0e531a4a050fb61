#include "codegen/emit/c_dialect.h"

namespace luminal::codegen {

// The type-generic functions of C are those that OpenCL calls by the same names.
const Dialect& plain_c() {
  static constexpr Dialect kDialect{
      .name = "C",
      .preamble = R"(#include <stdint.h>
#include <string.h>
#include <tgmath.h>
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

struct arguments { void *const *buffers; const int64_t *dims; uint8_t *shared, *local, *prepared; };

static inline float as_float(uint32_t a) { float to; memcpy(&to, &a, sizeof to); return to; }
static inline uint32_t as_uint32_t(float a) { uint32_t to; memcpy(&to, &a, sizeof to); return to; }
static inline int32_t as_int32_t(float a) { int32_t to; memcpy(&to, &a, sizeof to); return to; }
static inline double as_double(uint64_t a) { double to; memcpy(&to, &a, sizeof to); return to; }
static inline uint64_t as_uint64_t(double a) { uint64_t to; memcpy(&to, &a, sizeof to); return to; }
static inline int64_t as_int64_t(double a) { int64_t to; memcpy(&to, &a, sizeof to); return to; }
)",
      .types = {"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
                "float", "double"},
      .function = "static inline",
      .table = "static const",
      .kernel = "void",
      .parameters = ParameterStyle::Record,
      .tasks = "for ({0} {1} = begin; {1} < end; ++{1})",
      .bits = "as_{0}({1})",
  };
  return kDialect;
}

const Dialect& opencl_c() {
  // A task is a work-group: of one work-item, as the threads of a CPU take tasks, or of a block's threads.
  static constexpr Dialect kDialect{
      .name = "OpenCL C",
      .preamble = R"(#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
)",
      .types = {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"},
      .function = "static inline",
      .table = "__constant",
      .kernel = "__kernel __attribute__((reqd_work_group_size({0}, 1, 1))) void",
      .parameters = ParameterStyle::Listed,
      .global = "__global ",
      .tasks = "const {0} {1} = begin + ({0})get_group_id(0);",
      .item = "get_global_id(0)",
      .thread = "get_local_id(0)",
      .block = "__local ",
      .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
      .most_private_bytes = 4096,
      .unroll = "#pragma unroll",
      .bits = "as_{0}({1})",
      .longest_vector = 16,
      .vector_type = "{0}{1}",
      .vector_value = "({0})({1})",
      .convert = "convert_{0}({1})",
      .select = "select({2}, {1}, {0})",
      .all = "all({0})",
      .load = "vload{0}(0, {1})",
      .store = "vstore{0}({2}, 0, {1})",
      .lane = "{0}.s{1:x}",
  };
  return kDialect;
}

}  // namespace luminal::codegen
