#include "search/verification/test_inputs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>

#include "base/hash.h"
#include "base/memory.h"
#include "base/page_pool.h"
#include "graph/data_input.h"
#include "luminal/quantized.h"

namespace luminal::search {
namespace {

/// A stream of random bits, a few instructions each: inputs have millions of elements.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64).
class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>((*this)() >> 11) * 0x1p-53;
  }
  /// Of either sign, in magnitude from 2^low to 2^high: each power of two is as likely.
  double power(double low, double high) {
    return std::copysign(std::exp2(uniform(low, high)), uniform(-1, 1));
  }
  int64_t integer(int64_t low, int64_t high) {  // short ranges: what the remainder prefers is nothing
    return low + static_cast<int64_t>((*this)() % static_cast<uint64_t>(high - low + 1));
  }
  template <size_t n>
  double one_of(const std::array<double, n>& values) {
    return values[(*this)() % n];
  }

 private:
  uint64_t state_;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Numbers at which formulas change: zeros, subnormals and the ends of each format, ones and halves, the
/// bounds of exponentials in f32 and f64, the greatest odd integers of f32 and f16.
constexpr std::array kNotable{
    0.0,   -0.0,   1e-45,  -1e-45,  1e-40,      -1e-40,     1.1754944e-38, 6e-8,
    -6e-8, 1e-7,   0.5,    -0.5,    1.0,        -1.0,       2.0,           -2.0,
    3.0,   10.0,   -10.0,  88.7,    -87.5,      104.0,      -104.0,        127.0,
    128.0, -126.0, 255.0,  256.0,   709.8,      -745.2,     1024.0,        65504.0,
    1e5,   -1e5,   1.1e5,  -3e6,    16777215.0, 16777216.0, -16777217.0,   2147483648.0,
    1e10,  -1e10,  1.8e19, -1.8e19, 3.14159265, 1.57079633, 3.4028234e38,  -3.4028234e38};
constexpr std::array kNonFinite{kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};

/// Leaves subnormal numbers of f32 out: all of them, or in long runs all but a few.
class SubnormalFilter {
 public:
  SubnormalFilter(Subnormals subnormals, Bits random) : subnormals_(subnormals), random_(random) {}
  double operator()(double x, bool in_long_run) {
    constexpr double kLeastNormal = 0x1p-126;
    constexpr int64_t kOneIn = 64;
    if (x == 0 || std::abs(x) >= kLeastNormal) return x;
    const bool stays = subnormals_ == Subnormals::Some && (!in_long_run || random_.integer(1, kOneIn) == 1);
    return stays ? x : std::copysign(0.0, x);
  }

 private:
  Subnormals subnormals_;
  Bits random_;
};

/// Products of two magnitudes are normal numbers, but for one in 64 that may be further off.
void draw_extreme(Dtype dtype, Bits random, Subnormals subnormals, std::span<double> out) {
  constexpr int64_t kNotableOneIn = 16, kFarOneIn = 64;
  constexpr size_t kLong = 4096;
  const bool is_half = dtype == Dtype::F16;
  const double low = is_half ? -20 : -100, high = is_half ? 15.9 : 100;
  const double near_low = is_half ? low : -60, near_high = is_half ? high : 60;
  const double greatest = std::exp2(high);
  SubnormalFilter filter(subnormals, random);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool cancels = i % 4 == 3;
    if (cancels) {
      out[i] = -out[i - 1] * (1 + 0x1p-8 * random.uniform(-1, 1));
      continue;
    }
    const bool is_far = subnormals == Subnormals::Some && random.integer(1, kFarOneIn) == 1;
    out[i] = is_far ? random.power(low, high) : random.power(near_low, near_high);
    if (random.integer(1, kNotableOneIn) > 1) continue;
    if (const double notable = random.one_of(kNotable); std::abs(notable) <= greatest)
      out[i] = filter(notable, i >= kLong);
  }
}

/// Four stretches of one length after the other, in any order: ordinary numbers, some notable ones, many, and some that
/// are not finite. Each next four are twice as long, so that short tensors have all of them. In long stretches one
/// element is not finite: of sums over thousands of elements some are finite still, and show what should not be there.
void draw_special(Bits random, Subnormals subnormals, std::span<double> out) {
  constexpr size_t kShortest = 16, kDense = 128, kLongest = 4096;
  SubnormalFilter filter(subnormals, random);
  for (size_t first = 0, length = kShortest; first < out.size(); length = std::min(2 * length, kLongest)) {
    std::array number{0, 1, 2, 3};
    for (size_t i = number.size(); i-- > 1;)
      std::swap(number[i], number[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
    for (const int what : number) {
      std::vector<double> stretch(length);
      for (double& x : stretch) x = random.uniform(-2, 2);
      const auto put = [&](int64_t one_in, const auto& values) {
        for (double& x : stretch)
          if (random.integer(1, one_in) == 1) x = filter(random.one_of(values), length > kDense);
      };
      if (what == 1) put(24, kNotable);
      if (what == 2) put(4, kNotable);
      if (what == 3) {
        if (length <= kDense) put(8, kNonFinite);
        stretch[static_cast<size_t>(random.integer(0, static_cast<int64_t>(length) - 1))] =
            random.one_of(kNonFinite);
      }
      const size_t count = std::min(length, out.size() - first);
      std::copy_n(stretch.begin(), count, out.begin() + static_cast<std::ptrdiff_t>(first));
      first += count;
    }
  }
}

/// Stretches of random numbers, and between them rising and falling ones: an element too many is seldom greater than the
/// maximum of a long row, but always where the row rises or falls. Each next four stretches are twice as long, so that
/// short tensors have all of them and rows of every length lie within some.
void draw_plain(Bits random, std::span<double> out) {
  constexpr size_t kShortest = 16, kLongest = size_t{1} << 16;
  constexpr double kReach = 2;
  size_t first = 0;
  const auto stretch = [&](size_t length) {
    length = std::min(length, out.size() - first);
    first += length;
    return out.subspan(first - length, length);
  };
  const auto any = [&](size_t length) {
    for (double& x : stretch(length)) x = random.uniform(-kReach, kReach);
  };
  const auto ordered = [&](size_t length, double sign) {
    const double begin = random.uniform(-kReach, 0), end = random.uniform(0, kReach),
                 step = (end - begin) / static_cast<double>(length);
    double x = begin;
    for (double& to : stretch(length)) to = sign * x, x += step;
  };
  for (size_t length = kShortest; first < out.size(); length = std::min(2 * length, kLongest)) {
    any(length);
    ordered(length, 1);
    any(length);
    ordered(length, -1);
  }
}

void draw_from(const ValueRange& range, Dtype dtype, Bits random, std::span<double> out) {
  const bool is_whole = !is_float(dtype) || range.is_whole();
  for (double& x : out) {
    x = range.at(random.uniform(0, 1));
    if (is_whole) x = std::rint(x);
  }
}

/// Numbers for a tensor of `dtype`.
void draw(std::string_view kind, Dtype dtype, const ValueRange& range, Bits random, Subnormals subnormals,
          std::span<double> out) {
  const auto fill = [&](auto&& next) {
    for (double& x : out) x = next();
  };
  if (!range.quantiles.empty()) return draw_from(range, dtype, random, out);
  if (dtype == Dtype::Bool) return fill([&] { return static_cast<double>(random.integer(0, 1)); });
  if (kind == "positive" && !is_float(dtype))
    return fill([&] { return static_cast<double>(random.integer(0, 1)); });
  if (kind == "positive") return fill([&] { return random.uniform(0.01, 0.1); });
  if (kind == "integers") return fill([&] { return static_cast<double>(random.integer(-3, 3)); });
  if (!is_float(dtype)) return fill([&] { return static_cast<double>(random.integer(-100, 100)); });
  if (kind == "wide") {
    const double reach = dtype == Dtype::F16 ? 4 : 12;
    return fill([&] { return random.power(-reach, reach); });
  }
  if (kind == "extreme") return draw_extreme(dtype, random, subnormals, out);
  if (kind == "special") return draw_special(random, subnormals, out);
  if (kind == "constant") {
    const double value = random.one_of(std::array{1.0, 0.5, -1.0, 3.0, 0.0});
    return fill([&] { return value; });
  }
  draw_plain(random, out);
}

/// Long tensors repeat their beginning, after a prime number of elements: what is shifted by the length of a
/// tile or a row is another number. Plain numbers have long stretches, of which there are several kinds.
int64_t period_of(std::string_view kind) { return kind == "plain" ? 262'139 : 65'521; }

/// What is longer than this repeats it, whatever it holds: it need be in memory once. A prime number of huge pages, so that
/// what is shifted by rows or tiles is another number here as well.
constexpr size_t kStretchBytes = 13 * kHugePageBytes, kLongestStretchBytes = 32 * kHugePageBytes;

/// Again and again, as often as it fits.
void repeat(std::span<const std::byte> part, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += part.size())
    std::memcpy(&out[at], part.data(), std::min(part.size(), out.size() - at));
}

/// Numbers with which a tensor begins, at least `count` of them. Tensors of many kernels begin with the same ones: each
/// thread keeps what it drew.
std::span<const std::byte> beginning(std::string_view kind, Dtype dtype, uint64_t seed, size_t tensor,
                                     const ValueRange& range, Subnormals subnormals, int64_t count) {
  constexpr size_t kMostKept = size_t{64} << 20;  // bytes
  using Key = std::tuple<std::string, Dtype, uint64_t, size_t, std::vector<double>, Subnormals>;
  thread_local std::map<Key, TensorData> kept;
  thread_local size_t kept_bytes = 0;
  if (kept_bytes >= kMostKept) kept.clear(), kept_bytes = 0;
  TensorData& known = kept[{std::string(kind), dtype, seed, tensor, range.quantiles, subnormals}];
  if (known.bytes.empty() || known.element_count() < count) {
    // Every kind draws one element after the other, or what is cut off whole: a longer tensor begins with the same.
    thread_local std::map<int64_t, TensorData> scratch;  // by elements: fresh memory takes as long as numbers
    const auto drawn = static_cast<int64_t>(std::bit_ceil(static_cast<size_t>(count)));
    TensorData& numbers = scratch.try_emplace(drawn, Dtype::F64, std::vector{drawn}).first->second;
    draw(kind, dtype, range, Bits(combine(combine(seed, tensor), hash_bytes(kind))), subnormals,
         numbers.as<double>());
    kept_bytes -= known.bytes.size();
    known = convert(numbers, dtype);
    kept_bytes += known.bytes.size();
  }
  return std::span(known.bytes).first(static_cast<size_t>(size_bytes(dtype, count)));
}

}  // namespace

bool is_beyond_relaxed_math(std::string_view kind) { return kind == "extreme" || kind == "special"; }

bool rounds_one_way(std::string_view kind) { return kind == "constant"; }

namespace {

int64_t count_of(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

/// A tensor whose bytes nobody has written; in `memory` of the pool, if that is not null.
TensorData unwritten(Dtype dtype, std::vector<int64_t> dims, std::byte* memory) {
  TensorData data;
  data.dtype = dtype;
  data.dims = std::move(dims);
  const int64_t bytes = size_bytes(dtype, data.element_count());
  if (memory != nullptr) hand_out_next(memory);
  data.bytes =
      TensorData::Bytes(detail::Present{}, detail::Present{.number = static_cast<std::ptrdiff_t>(bytes)});
  return data;
}

/// What a tensor repeats, which is whole pages so that it may lie in memory once; its bytes where it lies there whole.
size_t stretch_bytes_of(size_t bytes, size_t period_bytes) {
  if (bytes <= kStretchBytes) return bytes;
  const size_t stretch = period_bytes == 0 ? kStretchBytes : std::lcm(period_bytes, kSmallPageBytes);
  return stretch <= kLongestStretchBytes ? std::min(stretch, bytes) : bytes;
}

/// Repeats what it begins with, and all of that again after a period, if there is one.
TensorData repeating(Dtype dtype, std::vector<int64_t> dims, std::span<const std::byte> beginning,
                     size_t period_bytes) {
  const auto fill = [&](std::span<std::byte> out) {
    const std::span<std::byte> first =
        out.first(period_bytes == 0 ? out.size() : std::min(period_bytes, out.size()));
    repeat(beginning, first);
    repeat(first, out.subspan(first.size()));
  };
  const auto bytes = static_cast<size_t>(size_bytes(dtype, count_of(dims)));
  const size_t stretch = stretch_bytes_of(bytes, period_bytes);
  if (PagePool* pool = PagePool::serving(); pool != nullptr && stretch < bytes)
    if (std::byte* memory =
            pool->take_repeated(static_cast<int64_t>(bytes), static_cast<int64_t>(stretch), fill))
      return unwritten(dtype, std::move(dims), memory);
  TensorData data = unwritten(dtype, std::move(dims), nullptr);
  const std::span<std::byte> all(data.bytes);
  fill(all.first(stretch));
  repeat(all.first(stretch), all.subspan(stretch));
  return data;
}

}  // namespace

std::shared_ptr<const TensorData> test_input(std::string_view kind, const TensorType& type,
                                             const DimMap& dims, uint64_t seed, size_t tensor,
                                             const ValueRange& range, Subnormals subnormals, int64_t period) {
  const Dtype dtype = type.dtype;
  std::vector<int64_t> sizes = exec(type.dims, dims);
  if (is_quantized(dtype))
    return std::make_shared<TensorData>(
        random_blocks(dtype, std::move(sizes), combine(seed, tensor), kind == "integers"));
  const auto numbers =
      beginning(kind, dtype, seed, tensor, range, subnormals, std::min(count_of(sizes), period_of(kind)));
  return std::make_shared<TensorData>(
      repeating(dtype, std::move(sizes), numbers, static_cast<size_t>(size_bytes(dtype, period))));
}

TensorData repeating(Dtype dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes) {
  return repeating(dtype, std::move(dims), bytes, bytes.size());
}

std::shared_ptr<const TensorData> repeated_input(std::string_view kind, Dtype dtype, int64_t elements,
                                                 uint64_t seed, size_t tensor) {
  const int64_t some = is_quantized(dtype) ? elements : std::min(elements, period_of(kind));
  return test_input(kind, {dtype, {some}}, {}, seed, tensor);
}

std::vector<int64_t> covering_positions(const std::vector<int64_t>& sizes, int random, size_t most,
                                        uint64_t seed, std::span<const int64_t> tiles) {
  const int64_t total = count_of(sizes);
  std::vector<int64_t> positions;
  if (total == 0) return positions;
  const size_t rank = sizes.size();
  std::mt19937_64 bits(seed);
  const auto any = [&](int64_t size) { return std::uniform_int_distribution<int64_t>(0, size - 1)(bits); };
  std::vector<int64_t> at(rank);
  const auto take = [&] {
    int64_t position = 0;
    for (size_t a = 0; a < rank; ++a) position = position * sizes[a] + at[a];
    positions.push_back(position);
  };
  for (size_t corner = 0; corner < (size_t{1} << std::min<size_t>(rank, 4)); ++corner) {
    for (size_t a = 0; a < rank; ++a) at[a] = (corner >> (a % 4) & 1) != 0 ? sizes[a] - 1 : 0;
    take();
  }
  // Place i of an axis is element (i * step + start) mod size, step and size without a common factor.
  std::vector<int64_t> steps(rank), starts(rank);
  for (size_t a = 0; a < rank; ++a) {
    starts[a] = any(sizes[a]);
    do steps[a] = 1 + any(sizes[a]);
    while (std::gcd(steps[a], sizes[a]) != 1);
  }
  const int64_t longest = rank == 0 ? 1 : *std::ranges::max_element(sizes);
  const int64_t covering = std::min(longest, static_cast<int64_t>(most));
  at = starts;
  for (int64_t i = 0; i < covering; ++i) {
    take();
    for (size_t a = 0; a < rank; ++a)
      if ((at[a] += steps[a]) >= sizes[a]) at[a] -= sizes[a];
  }
  const auto anywhere = [&] {
    for (size_t a = 0; a < rank; ++a) at[a] = any(sizes[a]);
  };
  const auto take_borders = [&](size_t axis, int64_t tile) {
    const int64_t size = sizes[axis];
    if (tile < 1 || tile > size) return;
    for (const int64_t border : {tile - 1, tile, size / tile * tile - 1, size / tile * tile}) {
      if (border >= size) continue;
      anywhere();
      at[axis] = border;
      take();
    }
  };
  for (size_t back = 1; back <= std::min<size_t>(rank, 2); ++back)
    for (int64_t tile = 4; tile <= 128; tile *= 2) take_borders(rank - back, tile);
  for (size_t axis = 0; axis < rank; ++axis)
    for (const int64_t tile : tiles) take_borders(axis, tile);
  for (int i = 0; i < random; ++i) positions.push_back(any(total));
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

}  // namespace luminal::search
