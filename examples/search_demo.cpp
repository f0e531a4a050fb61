// A search as it goes: a small network becomes an e-graph, laws make it grow, it is cut into kernels, these
// are timed, among them one written by hand, and the fastest plan runs.
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "luminal/luminal.h"

using namespace luminal;

/// What one writes first: rows of x @ w. It competes with what the search makes of the product.
void product(const KernelCall& call) {
  const auto *x = static_cast<const float*>(call.inputs[0]), *w = static_cast<const float*>(call.inputs[1]);
  for (int64_t row = call.begin; row < call.end; ++row) {
    float* y = static_cast<float*>(call.output) + row * 512;
    std::fill_n(y, 512, 0.0F);
    for (int64_t k = 0; k < 256; ++k)
      for (int64_t j = 0; j < 512; ++j) y[j] += x[row * 256 + k] * w[k * 512 + j];
  }
}

/// How the e-graph grew, how many fusion candidates there were, what each round of timing found, how the
/// kernel by hand fared, what was taken and what not.
void tell(const CompileReport& report) {
  std::cout << "\n" << to_text(report);
  for (const KernelReport& kernel : report.kernels)
    for (const auto& other : kernel.rejected)
      if (other.measured_us > 0)
        std::cout << "  not taken for " << kernel.name << ": " << other.schedule << " " << other.parameters
                  << ", " << other.measured_us << " us\n";
}

std::vector<float> run(const CompilationMode& mode) {
  Graph cx;
  std::vector<float> data(256 * 512);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 13) * 0.1F - 0.6F;
  const GraphTensor weights = cx.tensor({256, 512}).set(data);
  const GraphTensor x = cx.tensor({64, 256}).set(std::span(data).first(64 * 256));
  GraphTensor y = with_kernel({.name = "by_hand", .run = product, .tasks = 64}, {x, weights},
                              [](auto in) { return in[0].matmul(in[1]); });
  y = y.relu().softmax(1).retrieve();
  Compiled compiled = cx.compile(mode);
  tell(compiled.details());
  std::cout << "\nas loops:\n" << compiled.details().kernels[0].loops().substr(0, 800) << "...\n";
  std::chrono::duration<double, std::micro> best(1e9);
  for (int i = 0; i < 30; ++i) {
    const auto start = std::chrono::steady_clock::now();
    compiled();
    best = std::min<decltype(best)>(best, std::chrono::steady_clock::now() - start);
  }
  std::cout << best.count() << " us a run\n";
  return y.data<float>();
}

int main() {
  ::setenv("LUMINAL_CACHE", "off", 1);  // nothing is remembered: each run of this program searches
  const auto near = [](float a, float b) { return std::abs(a - b) < 1e-5F; };
  return std::ranges::equal(run(Fast{}), run(Optimal{}), near) ? 0 : 1;
}
