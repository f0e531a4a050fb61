#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/expression.h"
#include "luminal/op_def.h"
#include "luminal/tensor_data.h"
#include "search/verification/value_range.h"

/// On what kernels are tried, and where their results are looked at.
namespace luminal::search {

/// Kinds of inputs:
///   integers  -3 ... 3: sums and products are exact in any order
///   plain     -2 ... 2, uniform; in stretches of 16 to 65536 elements also rising or falling
///   wide      magnitudes from 2^-12 to 2^12, both signs
///   extreme   magnitudes from 1e-18 to 1e18, one in 64 from 1e-30 to 1e30 (f16: its whole range), both signs; every
///             fourth element nearly cancels the one before it; of the others one in 16 is a finite number of `special`
///   special   zeros of both signs, subnormals, the ends of the range, bounds of exponentials, infinities and
///             NaN: in stretches of 16 to 4096 elements none, a few, many, or some that are not finite
///   constant  one number everywhere
///   graph     spread as the numbers that the tensor holds in runs of the graph, where they are known (ValueRange)
///   positive  0.01 ... 0.1, for whole plans: deep networks of them neither overflow nor take roots of what
///             is below zero; integers are 0 or 1
/// Integer and boolean tensors get small numbers of all kinds: they may be indices.
/// Kernels are verified on all of them but the last, and on those of the graph if these are known.
inline constexpr std::string_view kInputKinds[] = {"integers", "plain",    "wide", "extreme",
                                                   "special",  "constant", "graph"};
inline constexpr std::string_view kGraphKind = "graph";

/// Whether results on such inputs are compared with the user's nodes in strict math alone: laws of relaxed math
/// may move an overflow or a NaN (docs/design.md, math modes).
[[nodiscard]] bool is_beyond_relaxed_math(std::string_view kind);

/// Whether the roundings of a long sum of such inputs may all go one way: of few different values they repeat.
[[nodiscard]] bool rounds_one_way(std::string_view kind);

/// Processors take some hundred cycles for an operation on a subnormal number. Among extreme and special numbers there
/// are some in short tensors and few in long ones, or none.
enum class Subnormals : uint8_t { Some, None };

/// A tensor of one kind: a function of the kind, the seed, the tensor's number and, for numbers of the graph, of their
/// range. Of an empty range they are plain ones. A long one repeats itself, and may lie in memory that is read-only.
/// `period`: after so many elements it repeats itself in any case; 0: nobody asks for that.
[[nodiscard]] std::shared_ptr<const TensorData> test_input(std::string_view kind, const TensorType& type,
                                                           const DimMap& dims, uint64_t seed, size_t tensor,
                                                           const ValueRange& range = {},
                                                           Subnormals subnormals = Subnormals::Some,
                                                           int64_t period = 0);

/// A tensor of these dims that repeats these bytes again and again. A long one may lie in memory that is read-only.
[[nodiscard]] TensorData repeating(Dtype dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes);

/// What such a tensor of so many elements repeats: its beginning if it is long, all of it if it is short or quantised.
[[nodiscard]] std::shared_ptr<const TensorData> repeated_input(std::string_view kind, Dtype dtype,
                                                               int64_t elements, uint64_t seed,
                                                               size_t tensor);

/// Flat positions at which a dense tensor of these sizes is looked at: the corners; a covering design (sample
/// i lies at place i of every axis, each axis in an order of its own, so that as many samples as the longest
/// axis is long see each row, each column and each other slice); both sides of the first and the last border of tiles
/// of 4, 8, ..., 128 along the last two axes and of `tiles` elements along each; `random` further ones. At most about
/// `most`, sorted, without repeats.
[[nodiscard]] std::vector<int64_t> covering_positions(const std::vector<int64_t>& sizes, int random,
                                                      size_t most, uint64_t seed,
                                                      std::span<const int64_t> tiles = {});

}  // namespace luminal::search
