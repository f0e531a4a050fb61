#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/interpreter.h"
#include "codegen/schedule.h"
#include "codegen/schedules/nest.h"
#include "kernel/evaluate.h"
#include "luminal/block_format.h"
#include "luminal/quantized.h"
#include "specs.h"

/// Data for specs, and the comparison of schedules with the specs' own definition.
namespace luminal::codegen::test_cases {

inline std::vector<Dtype> block_dtypes() {
  std::vector<Dtype> all;
  for (const BlockFormat& format : block_formats()) all.push_back(format.dtype);
  return all;
}

/// Small whole numbers: sums of their products are exact in any order. Of blocks, not so small ones.
inline TensorData numbers(Dtype dtype, int64_t count, uint64_t seed) {
  if (is_quantized(dtype)) return random_blocks(dtype, {count}, seed, true);
  std::mt19937_64 random(seed);
  TensorData data(dtype, {count});
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (T& x : data.as<T>()) x = static_cast<T>(static_cast<float>(static_cast<int>(random() % 9) - 4));
  });
  return data;
}

inline std::vector<TensorData> inputs_of(const KernelSpec& spec, const DimMap& dims) {
  std::vector<TensorData> slots;
  for (const kernel::Slot& s : spec.slots())
    slots.push_back(numbers(s.dtype, s.elements.exec(dims), slots.size() + 1));
  return slots;
}

/// Equal up to `tolerance` (relative to the greater of 1 and the value; 0: bit for bit but for -0).
inline void expect_equal(const TensorData& got, const TensorData& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.dtype, want.dtype) << what;
  ASSERT_EQ(got.element_count(), want.element_count()) << what;
  visit_dtype(want.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < want.as<T>().size(); ++i) {
      const auto g = static_cast<double>(got.as<T>()[i]), w = static_cast<double>(want.as<T>()[i]);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      ASSERT_LE(std::abs(g - w), tolerance * std::max(1.0, std::abs(w)))
          << what << "\nelement " << i << ": " << g << " for " << w;
    }
  });
}

inline std::string text_of(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) text += name + "=" + std::to_string(value) + " ";
  return text;
}

/// Lowers the spec with these parameters and runs the loops in the interpreter.
inline void check_loops(const Schedule& schedule, const KernelSpec& spec, const Parameters& parameters,
                        const Bucket& bucket, const Target& target, const std::vector<DimMap>& sizes,
                        double tolerance = 0) {
  const Program program = schedule.lower(spec, parameters, bucket, target);
  verify(program);
  uint64_t seed = 0;
  for (const DimMap& dims : sizes) {
    const auto slots = inputs_of(spec, dims);
    const auto want = kernel::evaluate(spec, slots, dims);
    std::vector<TensorData> got;
    const std::string what = spec.to_string() + text_of(parameters);
    try {
      got = interpret(program, slots, dims, seed++);
    } catch (const std::exception& e) {
      FAIL() << e.what() << "\n" << what << "\n" << program.to_string().substr(0, 20000);
    }
    for (size_t o = 0; o < want.size(); ++o) expect_equal(got[o], want[o], tolerance, what);
  }
}

/// All points of a family that ever run.
inline std::vector<Candidate> points_of(const Schedule& schedule, const KernelSpec& spec,
                                        const Bucket& bucket, const Target& target) {
  return schedule.name == "nest" ? plain_loops(spec, bucket, target)
                                 : schedule.candidates(spec, bucket, target);
}

inline void check_candidates(const Schedule& schedule, const KernelSpec& spec, const Bucket& bucket,
                             const Target& target, const std::vector<DimMap>& sizes, double tolerance = 0) {
  const auto candidates = points_of(schedule, spec, bucket, target);
  ASSERT_FALSE(candidates.empty()) << spec.to_string();
  for (const Candidate& c : candidates)
    check_loops(schedule, spec, c.parameters, bucket, target, sizes, tolerance);
}

inline Target avx512() {
  return {.features = "+avx512f", .vector_bytes = 64, .vector_registers = 32, .threads = 2};
}
inline Target avx2() {
  return {.features = "+avx2,+fma", .vector_bytes = 32, .vector_registers = 16, .threads = 2};
}

}  // namespace luminal::codegen::test_cases
