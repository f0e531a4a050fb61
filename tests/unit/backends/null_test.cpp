#include <gtest/gtest.h>

#include "backends/host/device.h"
#include "luminal/error.h"
#include "support/files.h"

namespace luminal::backends {
namespace {

using codegen::Program;
using codegen::Space;
using luminal::test::error_of;

/// Two stages over dims m and n, with both kinds of workspace.
Program two_stages() {
  Program program{.name = "two_stages", .dims = {"m", "n"}};
  const Expression m = "m", n = "n";
  const int in = add_buffer(program, {"X", Space::Slot, 0, Dtype::F32, m * n});
  const int out = add_buffer(program, {"Y", Space::Output, 0, Dtype::F32, m * n});
  const int shared = add_buffer(program, {"S", Space::Shared, 0, Dtype::F32, m * n});
  (void)add_buffer(program, {"L", Space::Local, 0, Dtype::F64, 5});
  codegen::StageBuilder first(program, m * n);
  first.store(shared, first.task(), first.load(in, first.task()));
  first.finish();
  codegen::StageBuilder second(program, m * n);
  second.store(out, second.task(), second.load(shared, second.task()));
  second.finish();
  return program;
}

TEST(NullDevice, CompilesAndPretendsToRun) {
  const auto backend = make_null_device();
  EXPECT_EQ(backend->target().name, "null");
  const auto compiled = backend->compile(two_stages());
  const HostKernel* const kernel = &on_host(*compiled);
  const std::vector<int64_t> dims{3, 7};
  EXPECT_EQ(kernel->dims(), (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ(kernel->stage_count(), 2);
  EXPECT_EQ(kernel->tasks(1, dims), 21);
  EXPECT_GE(kernel->shared_bytes(dims), 84);
  EXPECT_GE(kernel->local_bytes(dims), 40);
  float in = 1, out = 2;
  void* buffers[] = {&in, &out};
  kernel->run(0, {.buffers = buffers, .dims = dims.data()}, 0, 1);
  EXPECT_EQ(out, 2);
  EXPECT_EQ(backend->source(two_stages()), two_stages().to_string());
}

TEST(NullDevice, LoadsWhatItCompiled) {
  const auto backend = make_null_device();
  const auto compiled = backend->compile(two_stages()), again = backend->load(compiled->binary());
  const HostKernel *const kernel = &on_host(*compiled), *const loaded = &on_host(*again);
  const std::vector<int64_t> dims{3, 7};
  EXPECT_EQ(loaded->dims(), kernel->dims());
  EXPECT_EQ(loaded->stage_count(), 2);
  EXPECT_EQ(loaded->tasks(0, dims), 21);
  EXPECT_EQ(loaded->shared_bytes(dims), kernel->shared_bytes(dims));
  EXPECT_EQ(loaded->local_bytes(dims), kernel->local_bytes(dims));
  const std::vector<std::byte> bytes = kernel->binary();
  const auto refused = [&](std::span<const std::byte> damaged) {
    EXPECT_EQ(error_of<FormatError>([&] { (void)backend->load(damaged); }),
              "[null] these are not the bytes of a null kernel, or they are damaged; compile it again");
  };
  for (size_t length = 0; length < bytes.size(); ++length) refused(std::span(bytes).first(length));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{1};
    refused(damaged);
  }
}

}  // namespace
}  // namespace luminal::backends
