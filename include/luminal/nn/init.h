#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"
#include "luminal/tensor_data.h"

/// Seeded initial weights: the same numbers on every machine. Each call draws its own stream from the
/// graph's seed, so only the order of calls matters. A stream that is taken now may be drawn from later:
///
///   w.set_lazily([stream = nn::init::Stream(cx)] { return nn::init::normal(stream, {256, 64}, 0, 0.02); });
namespace luminal::nn::init {

/// A graph's next stream of random numbers: who draws from it later draws what they would draw now. A Graph
/// becomes one where it is passed. Thread safety: as any value.
class Stream {
 public:
  Stream(Graph& graph);
  Stream(const GraphSite& cx) : Stream(*cx.graph) {}
  [[nodiscard]] uint64_t seed() const { return seed_; }
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  uint64_t seed_, number_;
};

/// Values of f32[dims] drawn from a distribution. Formulas and defaults as torch.nn.init.
[[nodiscard]] TensorData uniform(Stream stream, std::vector<int64_t> dims, double low, double high);
[[nodiscard]] TensorData normal(Stream stream, std::vector<int64_t> dims, double mean, double stddev);
/// Normal, drawn again while outside [low, high] (absolute bounds, as in PyTorch).
[[nodiscard]] TensorData truncated_normal(Stream stream, std::vector<int64_t> dims, double mean = 0,
                                          double stddev = 1, double low = -2, double high = 2);
[[nodiscard]] TensorData constant(std::vector<int64_t> dims, double value);

/// fan_in = dims[1] * rest, fan_out = dims[0] * rest, for weights [out, in, kernel...]. Errors: ShapeError
/// below rank 2.
struct Fans {
  int64_t in = 0, out = 0;
};
[[nodiscard]] Fans fans(std::span<const int64_t> dims);

/// What keeps a signal's deviation through a nonlinearity, by torch.nn.init.calculate_gain's names: "linear",
/// "conv2d" (and 1d, 3d), "sigmoid": 1; "tanh": 5/3; "relu": sqrt(2); "leaky_relu": sqrt(2 / (1 + a^2));
/// "selu": 3/4. Errors: Error for another name.
[[nodiscard]] double gain(std::string_view nonlinearity, double a = 0.01);

enum class Fan { In, Out };
/// U(-b, b), b = gain * sqrt(3 / fan), gain = sqrt(2 / (1 + a^2)). Source: He et al. 2015.
[[nodiscard]] TensorData kaiming_uniform(Stream stream, std::vector<int64_t> dims, double a = 0,
                                         Fan fan = Fan::In);
[[nodiscard]] TensorData kaiming_normal(Stream stream, std::vector<int64_t> dims, double a = 0,
                                        Fan fan = Fan::In);
/// U(-b, b), b = gain * sqrt(6 / (fan_in + fan_out)). Source: Glorot and Bengio 2010.
[[nodiscard]] TensorData xavier_uniform(Stream stream, std::vector<int64_t> dims, double gain = 1);
[[nodiscard]] TensorData xavier_normal(Stream stream, std::vector<int64_t> dims, double gain = 1);
/// Rows (or columns, if there are fewer) of length `gain`, at right angles to each other; axes behind the
/// first count as one. Source: Saxe et al. 2014. Errors: ShapeError below rank 2.
[[nodiscard]] TensorData orthogonal(Stream stream, std::vector<int64_t> dims, double gain = 1);
/// Ones on the diagonal of a matrix. Errors: ShapeError unless of rank 2.
[[nodiscard]] TensorData eye(std::vector<int64_t> dims);

}  // namespace luminal::nn::init
