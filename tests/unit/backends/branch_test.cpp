#include "kernel/branch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "../kernel/spec_builder.h"
#include "backends/device.h"
#include "backends/host/device.h"
#include "codegen/schedules/families.h"
#include "unit/backends/launch.h"

namespace luminal::backends {
namespace {

/// Y[e,o] = where(C[e], sum i: W[e,o,i] * X[i], 5): the pages of W that hold places which are off may not be read.
TEST(Branch, PlacesThatAreOffAreNotRead) {
  constexpr int64_t kPlaces = 6, kOut = 32;
  const size_t page = 8 * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const int64_t in = static_cast<int64_t>(page / sizeof(float)) / kOut;
  kernel::test::SpecBuilder s;
  const Expression e = s.axis(kPlaces), o = s.axis(kOut), i = s.axis(in);
  const int w = s.slot(kPlaces * kOut * in), x = s.slot(in), c = s.slot(kPlaces, Dtype::Bool);
  const int sum = s.value({0, 1}, {2}, Monoid::Add, {s.load(w, (e * kOut + o) * in + i), s.load(x, i)},
                          [](ScalarBuilder& b, std::span<const Scalar> v) { return b.mul(v[0], v[1]); });
  const int all = s.value({0, 1}, {}, std::nullopt, {s.load(c, e), s.read(sum)},
                          [](ScalarBuilder& b, std::span<const Scalar> v) {
                            return b.select(v[0], v[1], b.constant(Dtype::F32, 5));
                          });
  s.output(all, e * kOut + o, kPlaces * kOut);
  const kernel::KernelSpec spec = s.plain();

  const size_t bytes = kPlaces * page;
  auto* const weights =
      static_cast<float*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(weights, MAP_FAILED);
  std::fill_n(weights, bytes / sizeof(float), 1.0F);
  const bool on[kPlaces] = {false, true, false, false, true, false};
  for (size_t k = 0; k < kPlaces; ++k) {
    std::byte* const place = reinterpret_cast<std::byte*>(weights) + k * page;
    ASSERT_EQ(::mprotect(place, page, on[k] ? PROT_READ : PROT_NONE), 0);
  }

  const auto device = make_cpu_device();
  const auto candidates = codegen::branch_schedule().candidates(spec, {}, device->target());
  ASSERT_FALSE(candidates.empty());
  for (const codegen::Candidate& candidate : candidates) {
    const auto compiled =
        device->compile(codegen::branch_schedule().lower(spec, candidate.parameters, {}, device->target()));
    const HostKernel& kernel = on_host(*compiled);
    std::vector<float> ones(static_cast<size_t>(in), 1.0F), made(kPlaces * kOut, -1.0F);
    std::vector<uint8_t> conditions(on, on + kPlaces);
    void* buffers[] = {weights, ones.data(), conditions.data(), made.data()};
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
      EXPECT_EQ(made[k], on[k / kOut] ? static_cast<float>(in) : 5.0F)
          << codegen::to_string(candidate.parameters);
  }
  ::munmap(weights, bytes);
}

}  // namespace
}  // namespace luminal::backends
