#include <gtest/gtest.h>

#include <random>
#include <thread>

#include <fmt/format.h>
#include "backends/cpu/jit.h"
#include "backends/device.h"
#include "codegen/interpreter.h"
#include "luminal/error.h"
#include "support/files.h"
#include "support/operations.h"
#include "unit/backends/launch.h"

/// Machine code against the interpreters.
namespace luminal::backends {
namespace {

using codegen::add_buffer;
using codegen::Id;
using codegen::LoopKind;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using test::error_of;
using test::launch;

void every_operation(Device& backend, std::span<const int> lane_counts) {
  std::mt19937_64 random(7);
  constexpr int64_t kCount = 960;
  for (const test::Operation& o : test::operations()) {
    std::vector<TensorData> slots;
    for (const Dtype d : o.operands) slots.push_back(test::tensor(d, test::samples(d, kCount, random)));
    const TensorData expected = test::expected_of(o, slots);
    for (const int lanes : lane_counts) {
      const auto kernel = backend.compile(test::program_of(o, lanes, kCount));
      test::expect_equal_bits(launch(*kernel, slots, {expected}, {})[0], expected,
                              fmt::format("{} in {} lanes", test::text_of(o), lanes));
    }
  }
}

TEST(CpuDevice, EveryOperationEqualsTheScalarInterpreter) {
  const auto backend = make_cpu_device();
  constexpr int kLanes[] = {1, 16};
  every_operation(*backend, kLanes);
}

/// AVX2, and a processor with neither fma nor f16 conversions.
TEST(CpuDevice, EveryOperationIsTheSameOnOlderProcessors) {
  constexpr int kLanes[] = {1, 8};
  for (const char* without : {"-avx512f", "-avx"}) {
    const test::Features features(without);
    every_operation(*make_cpu_device(), kLanes);
  }
}

/// 0 / 0 and 0 % 0 are NaN, of which LLVM 19 knows nothing once it sees that both operands' lanes are 0.
TEST(CpuDevice, LanesThatAreOffDoNotReachASum) {
  for (const char* without : {"", "-avx512f", "-avx"}) {
    const test::Features features(without);
    const auto backend = make_cpu_device();
    for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::I32})
      for (const test::Operation& o : test::operations()) {
        if (o.result != dtype || o.operands[0] != dtype || o.operands.size() > 2) continue;
        for (const int lanes : {4, 8, 16})
          for (const int on : {1, 2, 3, lanes / 2, lanes - 1}) {
            const Program program = test::tail_of(o.op, dtype, lanes, on);
            std::vector<TensorData> slots;
            for (int k = 0; k < 3; ++k) {
              std::vector<uint64_t> bits;
              ScalarBuilder values;
              for (int i = 0; i < 2 * lanes; ++i)
                bits.push_back(values[values.constant(dtype, 1 + (3 * i + k) % 7)].payload);
              slots.push_back(test::tensor(dtype, bits));
            }
            const auto expected = codegen::interpret(program, slots, {}, 0);
            test::expect_equal_bits(
                launch(*backend->compile(program), slots, expected, {})[0], expected[0],
                fmt::format("{} {}, {} of {} lanes, {}", name(o.op), name(dtype), on, lanes, without));
          }
      }
  }
}

// --- kernels as files ---

Program doubled() {
  Program p{.name = "doubled", .dims = {"n"}};
  const Expression n = "n";
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .elements = n});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .elements = n});
  add_buffer(p, {.name = "S", .space = Space::Shared, .elements = n});
  add_buffer(p, {.name = "L", .space = Space::Local, .elements = 5});
  StageBuilder b(p, n.ceil_div(4));
  const Id mask = b.lane_mask(n - b.task() * 4, 4);
  const Id x = b.load(a, b.task() * 4, 4, 1, mask);
  b.store(y, b.task() * 4, b.compute(ScalarOp::Add, {x, x}), 1, mask);
  b.finish();
  return p;
}

void expect_doubles(const Kernel& kernel) {
  const std::vector<float> values{1, -2, 3, 4, 5.5F};
  const auto x = TensorData::of<float>({5}, values);
  const auto y = launch(kernel, std::vector{x}, {x}, {{"n", 5}});
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(y[0].as<float>()[i], 2 * values[i]);
}

TEST(CpuDevice, KernelsTellWhatTheyNeed) {
  const auto compiled = make_cpu_device()->compile(doubled());
  const HostKernel* const kernel = &on_host(*compiled);
  const int64_t n[] = {21};
  EXPECT_EQ(kernel->dims(), std::vector<std::string>{"n"});
  EXPECT_EQ(kernel->stage_count(), 1);
  EXPECT_EQ(kernel->tasks(0, n), 6);
  EXPECT_EQ(kernel->shared_bytes(n), 128);  // whole lines of 64 bytes
  EXPECT_EQ(kernel->local_bytes(n), 64);
}

TEST(CpuDevice, LoadedKernelsDoTheSame) {
  const auto bytes = make_cpu_device()->compile(doubled())->binary();
  const auto loaded = make_cpu_device()->load(bytes);
  expect_doubles(*loaded);
  EXPECT_EQ(loaded->binary(), bytes);
}

TEST(CpuDevice, DamagedKernelsAreRefused) {
  const auto backend = make_cpu_device();
  const auto bytes = backend->compile(doubled())->binary();
  for (size_t i = 0; i < bytes.size(); i += 1 + i / 64) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_THROW((void)backend->load(damaged), FormatError) << "byte " << i;
    EXPECT_THROW((void)backend->load(std::span(bytes).first(i)), FormatError) << i << " bytes";
  }
  EXPECT_NE(error_of<FormatError>([&] { (void)backend->load({}); }).find("ends early"), std::string::npos);
}

TEST(CpuDevice, KernelsOfAnotherProcessorAreRefused) {
  const auto backend = make_cpu_device();
  std::vector<std::byte> bytes;
  {
    const test::Features features("-sse4.2");
    bytes = make_cpu_device()->compile(doubled())->binary();
  }
  EXPECT_NE(error_of<FormatError>([&] { (void)backend->load(bytes); }).find("compiled for another processor"),
            std::string::npos);
}

TEST(CpuDevice, ThreadsCompileLoadAndRunAtOnce) {
  const auto backend = make_cpu_device();
  const auto shared = backend->compile(doubled());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto kernel = backend->compile(doubled());
        expect_doubles(*kernel);
        expect_doubles(*backend->load(kernel->binary()));
        expect_doubles(*shared);
      }
    });
  for (std::thread& t : threads) t.join();
}

// --- errors and texts ---

TEST(CpuDevice, ErrorsCarryTheCompilersMessage) {
  const HostCpu cpu = host_cpu("");
  const auto message = [&](const std::string& ir) {
    return error_of<InternalError>([&] { (void)compile_object(ir, cpu); });
  };
  EXPECT_NE(message("define void @f() { ret i32 }").find("[llvm] reading the IR text: line 1"),
            std::string::npos);
  EXPECT_NE(
      message(
          "declare token @llvm.coro.id()\ndefine void @f() {\n %x = call token @llvm.coro.id()\n ret void }")
          .find("[llvm]"),
      std::string::npos);
  const std::string calls =
      "declare void @system(ptr)\ndefine void @f() {\n call void @system(ptr null)\n ret void\n}";
  EXPECT_NE(
      error_of<InternalError>([&] { const LoadedObject object(compile_object(calls, cpu)); }).find("system"),
      std::string::npos);
  const LoadedObject object(compile_object("define i32 @seven() {\n ret i32 7\n}", cpu));
  EXPECT_EQ(reinterpret_cast<int (*)()>(object.symbol("seven"))(), 7);
  EXPECT_NE(error_of<InternalError>([&] { (void)object.symbol("eight"); }).find("no symbol eight"),
            std::string::npos);
  const std::vector<std::byte> junk(100);
  EXPECT_THROW(const LoadedObject no(junk), InternalError);
}

/// Lines of assembly with a conditional jump.
int64_t branches_of(const std::string& assembly) {
  int64_t count = 0;
  for (size_t at = assembly.find("\n\tj"); at != std::string::npos; at = assembly.find("\n\tj", at + 1))
    count += assembly.compare(at + 2, 3, "jmp") != 0 ? 1 : 0;
  return count;
}

TEST(CpuDevice, MaskedLanesAreInstructionsAndNoBranches) {
  const HostCpu cpu = host_cpu("");
  if (cpu.vector_bytes < 32) GTEST_SKIP() << "vectors of this processor have no masks";
  const std::string assembly = compile_assembly(
      "declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)\n"
      "declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)\n"
      "define void @f(ptr %a, ptr %y, <8 x i32> %n) {\n"
      "  %m = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %n\n"
      "  %x = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %a, i32 4, <8 x i1> %m, <8 x float> "
      "zeroinitializer)\n"
      "  call void @llvm.masked.store.v8f32.p0(<8 x float> %x, ptr %y, i32 4, <8 x i1> %m)\n"
      "  ret void\n}\n",
      cpu);
  EXPECT_EQ(branches_of(assembly), 0) << assembly;
}

TEST(CpuDevice, FeaturesThatDoNotExistAreRefused) {
  EXPECT_NE(error_of<DeviceError>([] { (void)host_cpu("-avx512g"); }).find("did you mean 'avx512f'?"),
            std::string::npos);
  const test::Features features("avx2");
  EXPECT_NE(error_of<Error>([] { (void)make_cpu_device(); }).find("LUMINAL_CPU_FEATURES='avx2' is invalid"),
            std::string::npos);
}

TEST(CpuDevice, TargetDescribesTheHost) {
  const codegen::Target target = make_cpu_device()->target();
  EXPECT_EQ(target.name, "cpu");
  EXPECT_FALSE(target.cpu.empty());
  EXPECT_GE(target.threads, 1);
  EXPECT_GE(target.l2_bytes, target.l1_bytes);
  const test::Features features("-avx512f");
  EXPECT_LE(make_cpu_device()->target().vector_bytes, 32);
}

TEST(CpuDevice, SourceAndAssemblyAreReadable) {
  const auto backend = make_cpu_device();
  const std::string source = backend->source(doubled()), assembly = backend->assembly(doubled());
  EXPECT_NE(source.find("define void @doubled_stage0(ptr noalias readonly %arguments, i64 %begin, i64 %end)"),
            std::string::npos);
  EXPECT_NE(source.find("fadd <4 x float>"), std::string::npos);
  EXPECT_NE(assembly.find("doubled_stage0:"), std::string::npos);
}

}  // namespace
}  // namespace luminal::backends
