#include "luminal/nn/init.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/fail.h"
#include "base/philox.h"
#include "base/suggest.h"
#include "base/team.h"

namespace luminal::nn::init {
namespace {

/// Uniform numbers in (0, 1), 53 bits each.
class Draws {
 public:
  /// From number 2 * pair of the stream on.
  explicit Draws(const Stream& stream, uint64_t pair = 0)
      : seed_(stream.seed()), stream_(stream.number()), count_(pair) {}
  double next() {
    if (used_ == 2) {
      words_ = philox4x32({static_cast<uint32_t>(count_), static_cast<uint32_t>(count_ >> 32),
                           static_cast<uint32_t>(stream_), kPurpose},
                          {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
      ++count_;
      used_ = 0;
    }
    const uint64_t word = (uint64_t{words_[2 * used_]} << 32) | words_[2 * used_ + 1];
    ++used_;
    return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53;
  }
  /// Box and Muller 1958; the second value of each pair is not used, so that one draw is one pair.
  double next_normal() {
    const double radius = std::sqrt(-2 * std::log(next()));
    return radius * std::cos(2 * std::numbers::pi * next());
  }

 private:
  static constexpr uint32_t kPurpose = 0x696e6974;  // apart from the Random nodes of the same graph
  uint64_t seed_, stream_, count_;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 2;
};

template <class Draw>
TensorData filled(std::vector<int64_t> dims, Draw draw) {
  TensorData data(Dtype::F32, std::move(dims));
  for (float& value : data.as<float>()) value = static_cast<float>(draw());
  return data;
}

/// Each element takes `numbers` (1 or 2) of the stream, whose place says which: threads share the elements out.
template <class Draw>
TensorData drawn(const Stream& stream, std::vector<int64_t> dims, uint64_t numbers, Draw draw) {
  constexpr size_t kPiece = size_t{1} << 16;  // even
  TensorData data(Dtype::F32, std::move(dims));
  const auto values = data.as<float>();
  const size_t pieces = (values.size() + kPiece - 1) / kPiece;
  std::atomic<size_t> next{0};
  Team& team = Team::shared();
  team.run(static_cast<int>(std::clamp<size_t>(pieces, 1, static_cast<size_t>(team.size()))), [&](int) {
    for (size_t piece = next++; piece < pieces; piece = next++) {
      Draws draws(stream, piece * kPiece * numbers / 2);
      for (float& value : values.subspan(piece * kPiece, std::min(kPiece, values.size() - piece * kPiece)))
        value = static_cast<float>(draw(draws));
    }
  });
  return data;
}

}  // namespace

Stream::Stream(Graph& graph)
    : seed_(graph.seed()), number_(static_cast<uint64_t>(graph.next_random_stream())) {}

TensorData uniform(Stream stream, std::vector<int64_t> dims, double low, double high) {
  return drawn(stream, std::move(dims), 1, [=](Draws& draws) { return low + (high - low) * draws.next(); });
}

TensorData normal(Stream stream, std::vector<int64_t> dims, double mean, double stddev) {
  return drawn(stream, std::move(dims), 2, [=](Draws& draws) { return mean + stddev * draws.next_normal(); });
}

TensorData truncated_normal(Stream stream, std::vector<int64_t> dims, double mean, double stddev, double low,
                            double high) {
  const double chance = 0.5 * (std::erf((high - mean) / (stddev * std::numbers::sqrt2)) -
                               std::erf((low - mean) / (stddev * std::numbers::sqrt2)));
  if (!(chance > 1e-4))
    fail(
        "[truncated_normal] [{}, {}] covers almost nothing of a normal distribution with mean {} and "
        "deviation {}; widen the bounds",
        low, high, mean, stddev);
  Draws draws(stream);
  return filled(std::move(dims), [&] {
    while (true) {
      const double value = mean + stddev * draws.next_normal();
      if (value >= low && value <= high) return value;
    }
  });
}

TensorData constant(std::vector<int64_t> dims, double value) {
  return filled(std::move(dims), [&] { return value; });
}

Fans fans(std::span<const int64_t> dims) {
  if (dims.size() < 2)
    fail<ShapeError>("[init] a weight of [{}] has no fan-in and fan-out; give one of rank 2 or more",
                     fmt::join(dims, ", "));
  int64_t kernel = 1;
  for (const int64_t size : dims.subspan(2)) kernel *= size;
  return {dims[1] * kernel, dims[0] * kernel};
}

double gain(std::string_view nonlinearity, double a) {
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::numbers::sqrt2;
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + a * a));
  if (nonlinearity == "selu") return 0.75;
  for (const std::string_view linear : {"linear", "sigmoid", "conv1d", "conv2d", "conv3d"})
    if (nonlinearity == linear) return 1;
  const std::vector<std::string> names{"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"};
  fail("[init] no gain is known for the nonlinearity '{}'; choose one of {}{}", nonlinearity,
       fmt::join(names, ", "), did_you_mean(nonlinearity, names));
}

namespace {

double kaiming_deviation(std::span<const int64_t> dims, double a, Fan fan) {
  const Fans f = fans(dims);
  return gain("leaky_relu", a) / std::sqrt(static_cast<double>(fan == Fan::In ? f.in : f.out));
}

double xavier_deviation(std::span<const int64_t> dims, double gain) {
  const Fans f = fans(dims);
  return gain * std::sqrt(2 / static_cast<double>(f.in + f.out));
}

TensorData uniform_of_deviation(Stream stream, std::vector<int64_t> dims, double deviation) {
  const double bound = std::sqrt(3.0) * deviation;
  return uniform(stream, std::move(dims), -bound, bound);
}

}  // namespace

TensorData kaiming_uniform(Stream stream, std::vector<int64_t> dims, double a, Fan fan) {
  const double deviation = kaiming_deviation(dims, a, fan);
  return uniform_of_deviation(stream, std::move(dims), deviation);
}
TensorData kaiming_normal(Stream stream, std::vector<int64_t> dims, double a, Fan fan) {
  const double deviation = kaiming_deviation(dims, a, fan);
  return normal(stream, std::move(dims), 0, deviation);
}
TensorData xavier_uniform(Stream stream, std::vector<int64_t> dims, double gain) {
  const double deviation = xavier_deviation(dims, gain);
  return uniform_of_deviation(stream, std::move(dims), deviation);
}
TensorData xavier_normal(Stream stream, std::vector<int64_t> dims, double gain) {
  const double deviation = xavier_deviation(dims, gain);
  return normal(stream, std::move(dims), 0, deviation);
}

namespace {

/// Makes each of `count` vectors of `length` a unit vector at right angles to those before it. Twice, since
/// one pass of Gram and Schmidt leaves what rounding made of nearly parallel ones (Giraud et al. 2005).
void orthonormalise(std::vector<double>& rows, size_t count, size_t length) {
  for (size_t i = 0; i < count; ++i) {
    double* row = rows.data() + i * length;
    for (int pass = 0; pass < 2; ++pass)
      for (size_t j = 0; j < i; ++j) {
        const double* other = rows.data() + j * length;
        const double overlap = std::inner_product(row, row + length, other, 0.0);
        for (size_t k = 0; k < length; ++k) row[k] -= overlap * other[k];
      }
    const double norm = std::sqrt(std::inner_product(row, row + length, row, 0.0));
    for (size_t k = 0; k < length; ++k) row[k] /= norm;
  }
}

}  // namespace

TensorData orthogonal(Stream stream, std::vector<int64_t> dims, double scale) {
  (void)fans(dims);  // for its error
  const auto rows = static_cast<size_t>(dims[0]);
  size_t columns = 1;
  for (size_t axis = 1; axis < dims.size(); ++axis) columns *= static_cast<size_t>(dims[axis]);
  const bool wide = rows <= columns;
  const size_t count = std::min(rows, columns), length = std::max(rows, columns);
  Draws draws(stream);
  std::vector<double> vectors(count * length);
  for (double& value : vectors) value = draws.next_normal();
  orthonormalise(vectors, count, length);
  TensorData data(Dtype::F32, std::move(dims));
  const auto values = data.as<float>();
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      values[i * columns + j] =
          static_cast<float>(scale * (wide ? vectors[i * length + j] : vectors[j * length + i]));
  return data;
}

TensorData eye(std::vector<int64_t> dims) {
  if (dims.size() != 2)
    fail<ShapeError>("[init] a weight of [{}] has no diagonal; give one of rank 2", fmt::join(dims, ", "));
  TensorData data(Dtype::F32, std::move(dims));
  for (int64_t i = 0; i < std::min(data.dims[0], data.dims[1]); ++i)
    data.as<float>()[static_cast<size_t>(i * data.dims[1] + i)] = 1;
  return data;
}

}  // namespace luminal::nn::init
