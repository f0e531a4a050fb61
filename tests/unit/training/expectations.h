#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/safetensors.h"

namespace luminal::test {

/// What tools/pytorch_training.py wrote.
inline const SafetensorsFile& expectations() {
  static const SafetensorsFile file(std::string(LUMINAL_SOURCE_DIR) +
                                    "/tests/unit/training/data/pytorch.safetensors");
  return file;
}

inline std::vector<double> expected(const std::string& name) {
  const TensorData data = expectations().read(name);
  const auto values = data.as<double>();
  return {values.begin(), values.end()};
}

/// An input of the given graph that holds one of its tensors.
inline GraphTensor input(Graph& cx, const std::string& name) {
  TensorData data = expectations().read(name);
  return cx.tensor(Shape(data.dims.begin(), data.dims.end()), data.dtype).set(std::move(data));
}

inline void expect_near(const std::vector<double>& got, const std::string& name, double tolerance = 1e-11) {
  const std::vector<double> wanted = expected(name);
  ASSERT_EQ(got.size(), wanted.size()) << name;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << name << " element " << i;
}

/// sin(rate * i + shift), as the script's problems are made of.
inline std::vector<double> wave(size_t count, double rate = 0.7, double shift = 0.3) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<double>(i) * rate + shift));
  return values;
}

}  // namespace luminal::test
