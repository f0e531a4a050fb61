#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "luminal/autograd.h"
#include "luminal/nn/module.h"
#include "luminal/safetensors.h"

namespace luminal::test {

inline constexpr Dtype kF64 = Dtype::F64;

/// What tools/pytorch_modules.py wrote.
inline const SafetensorsFile& expectations() {
  static const SafetensorsFile file(std::string(LUMINAL_SOURCE_DIR) +
                                    "/tests/unit/nn/data/pytorch.safetensors");
  return file;
}

/// One case of that file: inputs and weights put in, outputs, gradients and buffers compared.
class PyTorchCase {
 public:
  explicit PyTorchCase(std::string name) : name_(std::move(name)) {
    for (int i = 0; expectations().contains(key("in", i)); ++i) {
      TensorData data = expectations().read(key("in", i));
      inputs_.push_back(
          cx.tensor(Shape(data.dims.begin(), data.dims.end()), data.dtype).set(std::move(data)));
    }
  }

  Graph cx;
  [[nodiscard]] const GraphTensor& in(size_t i) const { return inputs_.at(i); }

  /// Tolerances: both sides compute in f64, in another order.
  template <class M>
  void expect(const M& module, std::vector<GraphTensor> outputs, double tolerance = 1e-11) {
    SCOPED_TRACE(name_);
    nn::load_state_dict(module, below("state"));
    std::vector<GraphTensor> wanted, weights;
    std::vector<std::string> names;
    GraphTensor loss = cx.constant(0.0, Dtype::F64);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const GraphTensor angle =
          cx.iota(Expression::flat_index(), outputs[i].dims()).cast(Dtype::F64) * 0.7 + 0.3;
      loss = loss + (outputs[i] * angle.cos()).sum();
      names.push_back(key("out", static_cast<int>(i)));
      wanted.push_back(outputs[i]);
    }
    EXPECT_FALSE(expectations().contains(key("out", static_cast<int>(outputs.size()))))
        << "an output is missing";
    const size_t first_gradient = names.size();
    for (const auto& entry : nn::entries(module))
      if (entry.trainable) add_gradient(entry.name, entry.tensor, names, weights);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_float(inputs_[i].dtype())) add_gradient("in/" + std::to_string(i), inputs_[i], names, weights);
    for (const GraphTensor& gradient : cx.run_pass(Autograd(weights, loss))) wanted.push_back(gradient);
    EXPECT_GT(names.size(), first_gradient) << "nothing to compare gradients with";
    retrieve(wanted);
    cx.execute();
    for (size_t i = 0; i < names.size(); ++i) compare(names[i], wanted[i].data(), tolerance);
    for (const auto& [buffer, data] : below("after")) {
      bool found = false;
      for (const auto& [name, value] : nn::state_dict(module))
        if (name == buffer) {
          found = true;
          compare(name_ + "/after/" + buffer, value, tolerance);
        }
      EXPECT_TRUE(found) << buffer;
    }
  }

 private:
  [[nodiscard]] std::string key(const char* kind, int i) const {
    return name_ + "/" + kind + "/" + std::to_string(i);
  }

  [[nodiscard]] std::map<std::string, TensorData> below(const std::string& kind) const {
    const std::string prefix = name_ + "/" + kind + "/";
    std::map<std::string, TensorData> found;
    for (const std::string& name : expectations().names())
      if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), expectations().read(name));
    return found;
  }

  void add_gradient(std::string path, const GraphTensor& tensor, std::vector<std::string>& names,
                    std::vector<GraphTensor>& weights) const {
    if (!path.starts_with("in/")) std::ranges::replace(path, '/', '.');
    names.push_back(name_ + "/grad/" + path);
    weights.push_back(tensor);
  }

  static void compare(const std::string& name, const TensorData& got, double tolerance) {
    const TensorData expected = expectations().read(name);
    ASSERT_EQ(got.dims, expected.dims) << name;
    ASSERT_EQ(got.dtype, expected.dtype) << name;
    if (got.dtype != Dtype::F64) {
      EXPECT_EQ(got.bytes, expected.bytes) << name;
      return;
    }
    double largest = 1;
    for (const double value : expected.as<double>()) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < expected.as<double>().size(); ++i)
      ASSERT_NEAR(got.as<double>()[i], expected.as<double>()[i], tolerance * largest)
          << name << " element " << i;
  }

  std::string name_;
  std::vector<GraphTensor> inputs_;
};

}  // namespace luminal::test
