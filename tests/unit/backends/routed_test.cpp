#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "../kernel/one_term_specs.h"
#include "backends/device.h"
#include "backends/host/device.h"
#include "codegen/schedules/families.h"
#include "unit/backends/launch.h"

namespace luminal::backends {
namespace {

/// Y[b,o] = sum e: e == C[b] ? (sum i: W[e,o,i] * X[i]) : 0. The pages of W whose terms nobody names may not be read.
TEST(Routed, TermsThatNobodyNamesAreNotRead) {
  constexpr int64_t kTerms = 6, kPlaces = 3, kOut = 32;
  const size_t page = 8 * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const int64_t in = static_cast<int64_t>(page / sizeof(float)) / kOut;
  kernel::test::SpecBuilder s;
  const Expression b = s.axis(kPlaces), o = s.axis(kOut), e = s.axis(kTerms), i = s.axis(in);
  const int w = s.slot(kTerms * kOut * in), x = s.slot(kPlaces * in), c = s.slot(kPlaces, Dtype::I64);
  const int product =
      s.value({0, 1, 2}, {3}, Monoid::Add, {s.load(w, (e * kOut + o) * in + i), s.load(x, b * in + i)},
              [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(v[0], v[1]); });
  const int sum = s.value(
      {0, 1}, {2}, Monoid::Add, {s.load(c, b), kernel::test::SpecBuilder::number(e), s.read(product)},
      [](ScalarBuilder& f, std::span<const Scalar> v) { return kernel::test::chosen(f, v[1], v[0], v[2]); });
  s.output(sum, b * kOut + o, kPlaces * kOut);
  const kernel::KernelSpec spec = s.plain();

  const size_t bytes = kTerms * page;
  auto* const weights =
      static_cast<float*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(weights, MAP_FAILED);
  std::fill_n(weights, bytes / sizeof(float), 1.0F);
  int64_t names[kPlaces] = {4, -7, 1};
  for (size_t k = 0; k < kTerms; ++k) {
    std::byte* const term = reinterpret_cast<std::byte*>(weights) + k * page;
    ASSERT_EQ(::mprotect(term, page, k == 1 || k == 4 ? PROT_READ : PROT_NONE), 0);
  }

  const auto device = make_cpu_device();
  const auto candidates = codegen::routed_schedule().candidates(spec, {}, device->target());
  ASSERT_FALSE(candidates.empty());
  for (const codegen::Candidate& candidate : candidates) {
    const auto compiled =
        device->compile(codegen::routed_schedule().lower(spec, candidate.parameters, {}, device->target()));
    const HostKernel& kernel = on_host(*compiled);
    std::vector<float> ones(static_cast<size_t>(kPlaces * in), 1.0F), made(kPlaces * kOut, -1.0F);
    void* buffers[] = {weights, ones.data(), names, made.data()};
    const test::Fenced shared(kernel.shared_bytes({}), 64), local(kernel.local_bytes({}), 64),
        prepared(kernel.prepared_bytes({}), 64);
    const LaunchArguments arguments{.buffers = buffers,
                                    .dims = nullptr,
                                    .shared = shared.data(),
                                    .local = local.data(),
                                    .prepared = prepared.data()};
    for (int stage = 0; stage < kernel.stage_count(); ++stage)
      kernel.run(stage, arguments, 0, kernel.tasks(stage, {}));
    for (size_t k = 0; k < made.size(); ++k)
      EXPECT_EQ(made[k], k / kOut == 1 ? 0.0F : static_cast<float>(in))
          << codegen::to_string(candidate.parameters);
  }
  ::munmap(weights, bytes);
}

}  // namespace
}  // namespace luminal::backends
