#include "backends/opencl/device.h"

#include <gtest/gtest.h>

#include <thread>

#include "backends/opencl/kernel.h"
#include "codegen/emit/c_family.h"
#include "codegen/interpreter.h"
#include "support/effort.h"
#include "support/files.h"
#include "support/loop_programs.h"
#include "support/opencl.h"
#include "unit/codegen/block_programs.h"
#include "unit/codegen/family_programs.h"

/// The OpenCL device against the interpreters, where the machine has a driver.
namespace luminal::backends {
namespace {

using codegen::Id;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using test::error_of;
using test::LoopProgram;
using test::opencl;

/// Memory of the device with known bytes on both sides.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, Stream& stream, int64_t bytes)
      : buffer_(device, bytes + 2 * kMargin), stream_(&stream), bytes_(bytes) {
    stream.fill(buffer_.address(), kPattern, bytes + 2 * kMargin);
  }
  [[nodiscard]] Address address() const { return buffer_.address() + kMargin; }
  void set(const TensorData& data) { stream_->upload(data.bytes.data(), address(), bytes_); }
  /// What is there; fails the test if anything around it has changed.
  [[nodiscard]] std::vector<std::byte> get(const std::string& what) const {
    std::vector<std::byte> all(static_cast<size_t>(bytes_ + 2 * kMargin));
    stream_->download(buffer_.address(), all.data(), bytes_ + 2 * kMargin);
    stream_->synchronise();
    const auto strays =
        std::count_if(all.begin(), all.begin() + kMargin, [](std::byte b) { return b != kPattern; }) +
        std::count_if(all.end() - kMargin, all.end(), [](std::byte b) { return b != kPattern; });
    EXPECT_EQ(strays, 0) << what;
    return {all.begin() + kMargin, all.end() - kMargin};
  }

 private:
  static constexpr int64_t kMargin = 192;  // a multiple of kAlignment, of no larger power of two
  static constexpr std::byte kPattern{0xA5};
  Buffer buffer_;
  Stream* stream_;
  int64_t bytes_;
};

/// Slots in, tensors of the dtypes and sizes of `outputs` out.
std::vector<TensorData> launch_on(Device& device, const Kernel& kernel, const std::vector<TensorData>& slots,
                                  std::vector<TensorData> outputs, const DimMap& dims,
                                  std::vector<LaunchPart> parts = {LaunchPart::Whole}) {
  const auto stream = device.make_stream();
  std::vector<DeviceMemory> memory;
  for (const TensorData& slot : slots) {
    memory.emplace_back(device, *stream, static_cast<int64_t>(slot.bytes.size()));
    memory.back().set(slot);
  }
  for (const TensorData& out : outputs)
    memory.emplace_back(device, *stream, static_cast<int64_t>(out.bytes.size()));
  const std::vector<int64_t> sizes = sizes_of(kernel, dims);
  const DeviceMemory shared(device, *stream, kernel.shared_bytes(sizes)),
      prepared(device, *stream, kernel.prepared_bytes(sizes));
  std::vector<ListedLaunch> launches;
  for (const LaunchPart part : parts)
    launches.push_back({.kernel = &kernel,
                        .dims = sizes,
                        .buffers = static_cast<int>(memory.size()),
                        .after = {},
                        .part = part});
  const auto list = device.prepare(launches);
  const DeviceMemory scratch(device, *stream, list->scratch_bytes());
  for (int l = 0; l < static_cast<int>(launches.size()); ++l) {
    for (size_t k = 0; k < memory.size(); ++k) list->bind(l, static_cast<int>(k), memory[k].address());
    list->bind_shared(l, shared.address());
    list->bind_prepared(l, prepared.address());
  }
  list->bind_scratch(scratch.address());
  stream->launch(*list, 0, static_cast<int>(launches.size()));
  for (size_t k = 0; k < slots.size(); ++k)
    EXPECT_TRUE(std::ranges::equal(memory[k].get("a slot"), slots[k].bytes))
        << "slot " << k << " was written";
  for (size_t k = 0; k < outputs.size(); ++k)
    std::ranges::copy(memory[slots.size() + k].get("an output"), outputs[k].bytes.begin());
  (void)shared.get("shared"), (void)prepared.get("prepared"), (void)scratch.get("scratch");
  return outputs;
}

/// All operations on values of one dtype as one kernel, which takes a driver as long to compile as one operation: slots
/// are a condition and three operands, each operation has an output.
Program operations_on(const std::vector<test::Operation>& operations, int lanes, int64_t count) {
  Program p{.name = "operations"};
  const int condition = test::buffer_of(p, Space::Slot, Dtype::Bool, count);
  for (int k = 0; k < 3; ++k) test::buffer_of(p, Space::Slot, operations[0].operands.back(), count);
  for (const test::Operation& o : operations) test::buffer_of(p, Space::Output, o.result, count);
  StageBuilder b(p, count / lanes);
  for (size_t k = 0; k < operations.size(); ++k) {
    const test::Operation& o = operations[k];
    std::vector<Id> operands;
    for (size_t slot = 0; slot < o.operands.size(); ++slot) {
      const bool is_condition = o.op == ScalarOp::Select && slot == 0;
      operands.push_back(
          b.load(is_condition ? condition : static_cast<int>(slot) + 1, b.task() * lanes, lanes));
    }
    const Id value = o.op == ScalarOp::Convert   ? b.convert(operands[0], o.result)
                     : o.op == ScalarOp::Bitcast ? b.bitcast(operands[0], o.result)
                                                 : b.compute(o.op, operands);
    b.store(static_cast<int>(k) + 4, b.task() * lanes, value);
  }
  b.finish();
  return p;
}

TEST(OpenCl, EveryOperationEqualsTheScalarInterpreter) {
  LUMINAL_NEEDS_OPENCL();
  constexpr int64_t kCount = 960;
  std::mt19937_64 random(7);
  for (const Dtype dtype : kPlainDtypes) {
    std::vector<test::Operation> operations = test::operations();
    std::erase_if(operations, [&](const test::Operation& o) { return o.operands.back() != dtype; });
    std::vector<TensorData> slots{test::tensor(Dtype::Bool, test::samples(Dtype::Bool, kCount, random))};
    for (int k = 0; k < 3; ++k) slots.push_back(test::tensor(dtype, test::samples(dtype, kCount, random)));
    std::vector<TensorData> want;
    for (const test::Operation& o : operations)
      want.push_back(test::expected_of(o, o.op == ScalarOp::Select
                                              ? std::vector{slots[0], slots[2], slots[3]}
                                              : std::vector{slots[1], slots[2], slots[3]}));
    for (const int lanes : {1, 16}) {
      const auto kernel = opencl()->compile(operations_on(operations, lanes, kCount));
      const auto got = launch_on(*opencl(), *kernel, slots, want, {});
      for (size_t k = 0; k < operations.size(); ++k)
        test::expect_equal_bits(got[k], want[k],
                                fmt::format("{} in {} lanes", test::text_of(operations[k]), lanes));
    }
  }
}

void expect_interpreted_on(Device& device, const LoopProgram& p) {
  const auto kernel = device.compile(p.program);
  for (const auto& [dims, slots] : p.runs) {
    const auto want = codegen::interpret(p.program, slots, dims);
    const auto got = launch_on(device, *kernel, slots, want, dims);
    for (size_t o = 0; o < want.size(); ++o) {
      test::expect_equal_bits(got[o], want[o], p.what);
      if (testing::Test::HasFailure())
        FAIL() << p.program.to_string().substr(0, 4000) << device.source(p.program).substr(0, 8000);
    }
  }
}

/// A seeded sample of them: drivers take long over each.
TEST(OpenCl, EveryInstructionEqualsTheLoopInterpreter) {
  LUMINAL_NEEDS_OPENCL();
  std::vector<LoopProgram> programs = test::loop_programs();
  std::mt19937_64 random(effort::seed(3));
  std::ranges::shuffle(programs, random);
  programs.resize(static_cast<size_t>(effort::cases(30, static_cast<int64_t>(programs.size()))));
  for (const LoopProgram& p : programs) {
    expect_interpreted_on(*opencl(), p);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(OpenCl, ProgramsOfEveryFamilyEqualTheLoopInterpreter) {
  LUMINAL_NEEDS_OPENCL();
  std::vector<LoopProgram> programs;
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(effort::cases(3, 100)); ++seed)
    (void)codegen::test_cases::add_programs(programs, codegen::test_cases::random_case(seed),
                                            opencl()->target(), effort::full_effort());
  codegen::Target with_dots = opencl()->target();
  with_dots.dots = true;
  const size_t random = programs.size();
  for (const kernel::KernelSpec& spec : codegen::test_cases::specs_of_every_family())
    (void)codegen::test_cases::add_programs(programs, {"spec", spec, {}, {{}}}, with_dots,
                                            effort::full_effort());
  // Each takes seconds to compile: the first of every family.
  std::set<std::string> seen;
  const auto is_repeated = [&](const LoopProgram& p) {
    return !seen.insert(p.what.substr(0, p.what.find(' '))).second;
  };
  if (!effort::full_effort())
    programs.erase(
        std::remove_if(programs.begin() + static_cast<std::ptrdiff_t>(random), programs.end(), is_repeated),
        programs.end());
  for (const LoopProgram& p : programs) {
    expect_interpreted_on(*opencl(), p);
    if (testing::Test::HasFailure()) return;
  }
}

/// The first point of each family for blocks of threads, and corners of its parameters.
TEST(OpenCl, BlocksOfThreadsEqualTheLoopInterpreter) {
  LUMINAL_NEEDS_OPENCL();
  std::mt19937_64 random(effort::seed(4));
  std::vector<std::vector<LoopProgram>> by_family;
  for (const codegen::Schedule* family : codegen::test_cases::block_families()) {
    std::vector<LoopProgram>& own = by_family.emplace_back();
    const std::vector<codegen::Parameters> corners = codegen::test_cases::corners_of(*family);
    for (const codegen::test_cases::Case& c : codegen::test_cases::block_cases()) {
      const auto candidates = family->candidates(c.spec, c.bucket, opencl()->target());
      if (candidates.empty()) continue;
      for (const codegen::Parameters& p : {candidates[0].parameters, corners[random() % corners.size()]}) {
        LoopProgram& made = own.emplace_back();
        made.program = family->lower(c.spec, p, c.bucket, opencl()->target());
        made.what = fmt::format("{} {} {}", family->name, c.name, codegen::to_string(p));
        for (const DimMap& dims : c.sizes)
          made.runs.push_back({dims, codegen::test_cases::inputs_of(c.spec, dims)});
      }
    }
    ASSERT_FALSE(own.empty()) << family->name;
    std::ranges::shuffle(own, random);
    own.resize(static_cast<size_t>(effort::cases(4, std::ssize(own))));
  }
  for (const std::vector<LoopProgram>& own : by_family)
    for (const LoopProgram& p : own) {
      expect_interpreted_on(*opencl(), p);
      if (testing::Test::HasFailure()) return;
    }
}

/// Before the driver sees it: what takes more than the device has ends the process.
TEST(OpenCl, BlocksThatTheDeviceHasNotAreRefused) {
  LUMINAL_NEEDS_OPENCL();
  const int64_t most = opencl()->target().block_bytes;
  ASSERT_GE(opencl()->target().block_threads, 64);
  const auto program = [](int64_t floats) {
    Program p{.name = "blocks"};
    test::buffer_of(p, Space::Output, Dtype::F32, 64);
    test::buffer_of(p, Space::Block, Dtype::F32, floats);
    StageBuilder b(p, 1, 64);
    b.store(1, b.thread(), b.constant({Dtype::F32, 1}, 1));
    b.barrier();
    b.store(0, b.thread(), b.load(1, 63 - b.thread()));
    b.finish();
    return p;
  };
  EXPECT_NE(opencl()->compile(program(64)), nullptr);
  EXPECT_NE(error_of<InternalError>([&] {
              (void)opencl()->compile(program(most / 4 + 1));
            }).find("bytes for a block, where opencl has"),
            std::string::npos);
}

/// Lanes that are off may be 0 / 0.
TEST(OpenCl, LanesThatAreOffDoNotReachASum) {
  LUMINAL_NEEDS_OPENCL();
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::I32})
    for (const ScalarOp op : {ScalarOp::Div, ScalarOp::Remainder, ScalarOp::FloorDiv, ScalarOp::FloorMod})
      if (type_problem({.op = op, .dtype = dtype}, {dtype, dtype, {}}).empty())
        for (const int on : {1, 3, 7}) {
          const Program program = test::tail_of(op, dtype, 8, on);
          std::vector<TensorData> slots;
          for (int k = 0; k < 3; ++k) {
            std::vector<uint64_t> bits;
            ScalarBuilder values;
            for (int i = 0; i < 16; ++i)
              bits.push_back(values[values.constant(dtype, 1 + (3 * i + k) % 7)].payload);
            slots.push_back(test::tensor(dtype, bits));
          }
          expect_interpreted_on(*opencl(),
                                {program, {{{}, slots}}, fmt::format("{} {}", name(op), name(dtype))});
        }
}

/// Twice the input in two stages: what is prepared of it, then the sum of that and the input. Tasks use Local memory of a
/// size that the text does not know.
Program doubled_in_stages() {
  Program p{.name = "doubled", .dims = {"n"}};
  const Expression n = "n";
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .elements = n, .is_frozen = true});
  const int y = test::buffer_of(p, Space::Output, Dtype::F32, n);
  const int prepared = test::buffer_of(p, Space::Prepared, Dtype::F32, n);
  const int local = test::buffer_of(p, Space::Local, Dtype::F32, n);
  {
    StageBuilder b(p, n);
    b.store(local, b.task(), b.load(a, b.task()));
    b.store(prepared, b.task(), b.load(local, b.task()));
    b.finish(true);
  }
  StageBuilder b(p, n);
  b.store(y, b.task(), b.compute(ScalarOp::Add, {b.load(prepared, b.task()), b.load(a, b.task())}));
  b.finish();
  return p;
}

void expect_doubled(Device& device, const Kernel& kernel,
                    const std::vector<LaunchPart>& parts = {LaunchPart::Whole}) {
  const TensorData x = codegen::test_cases::numbers(Dtype::F32, 300, 5);
  const auto y = launch_on(device, kernel, {x}, {x}, {{"n", 300}}, parts);
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(y[0].as<float>()[i], 2 * x.as<float>()[i]) << "element " << i;
}

TEST(OpenCl, StagesThatPrepareRunByThemselves) {
  LUMINAL_NEEDS_OPENCL();
  const auto kernel = opencl()->compile(doubled_in_stages());
  expect_doubled(*opencl(), *kernel);
  expect_doubled(*opencl(), *kernel, {LaunchPart::Preparation, LaunchPart::Rest});
}

// --- kernels as files

TEST(OpenCl, LoadedKernelsDoTheSame) {
  LUMINAL_NEEDS_OPENCL();
  const auto bytes = opencl()->compile(doubled_in_stages())->binary();
  const auto loaded = opencl()->load(bytes);
  expect_doubled(*opencl(), *loaded, {LaunchPart::Preparation, LaunchPart::Rest});
  EXPECT_EQ(loaded->binary(), bytes);
}

/// A driver may crash over them: they do not reach it.
TEST(OpenCl, DamagedKernelsAreRefused) {
  LUMINAL_NEEDS_OPENCL();
  const auto bytes = opencl()->compile(doubled_in_stages())->binary();
  for (size_t i = 0; i < bytes.size(); i += 1 + i / 8) {
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_THROW((void)opencl()->load(damaged), FormatError) << "byte " << i;
    EXPECT_THROW((void)opencl()->load(std::span(bytes).first(i)), FormatError) << i << " bytes";
  }
  KernelFile file = parse_kernel_file(bytes);
  file.host += "x";
  EXPECT_NE(error_of<FormatError>([&] {
              (void)opencl()->load(to_bytes(file));
            }).find("compiled for another device"),
            std::string::npos);
}

TEST(OpenCl, ThreadsCompileLoadAndRunAtOnce) {
  LUMINAL_NEEDS_OPENCL();
  const auto shared = opencl()->compile(doubled_in_stages());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2; ++i) {
        expect_doubled(*opencl(), *opencl()->load(opencl()->compile(doubled_in_stages())->binary()));
        expect_doubled(*opencl(), *shared);
      }
    });
  for (std::thread& t : threads) t.join();
}

// --- memory and streams

TEST(OpenCl, CopiesFillsAndEventsKeepTheirOrder) {
  LUMINAL_NEEDS_OPENCL();
  constexpr int64_t kBytes = 1 << 20;
  const Buffer first(*opencl(), kBytes), second(*opencl(), kBytes);
  const auto one = opencl()->make_stream(), other = opencl()->make_stream();
  const auto begin = opencl()->make_event(), end = opencl()->make_event();
  begin->wait();  // never recorded: nothing to wait for
  EXPECT_THROW((void)opencl()->elapsed_us(*begin, *end), DeviceError);
  std::vector<std::byte> there(kBytes), back(kBytes);
  for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<std::byte>(i * 7);
  one->record(*begin);
  one->upload(there.data(), first.address(), kBytes);
  one->copy(first.address() + 64, second.address(), kBytes - 64);
  one->fill(second.address() + (kBytes - 64), std::byte{0x5a}, 64);
  one->record(*end);
  other->wait(*end);
  other->download(second.address(), back.data(), kBytes);
  other->synchronise();
  EXPECT_TRUE(std::equal(there.begin() + 64, there.end(), back.begin()));
  EXPECT_TRUE(std::all_of(back.end() - 64, back.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
  end->wait();
  EXPECT_GT(opencl()->elapsed_us(*begin, *end), 0);
  EXPECT_LT(opencl()->elapsed_us(*begin, *end), 10e6);
}

// --- errors

TEST(OpenCl, ErrorsCarryTheCompilersMessage) {
  LUMINAL_NEEDS_OPENCL();
  const Program p = doubled_in_stages();
  const std::string message = error_of<InternalError>(
      [&] { (void)opencl()->compile(p, "__kernel void doubled_stage0() { undeclared = 1; }"); });
  EXPECT_NE(message.find("[opencl] compiling doubled: "), std::string::npos) << message;
  EXPECT_NE(message.find("undeclared"), std::string::npos) << message;
  expect_doubled(*opencl(), *opencl()->compile(p));
}

TEST(OpenCl, AllocationsAreNoLargerThanTheDeviceGives) {
  LUMINAL_NEEDS_OPENCL();
  const std::string message = error_of<OutOfMemory>([] { (void)opencl()->allocate(int64_t{1} << 60); });
  EXPECT_NE(
      message.find("[opencl] 1152921504606846976 bytes of device memory are too many: the device gives "),
      std::string::npos)
      << message;
  expect_doubled(*opencl(), *opencl()->compile(doubled_in_stages()));
}

TEST(OpenCl, KernelsOfTooManyArgumentsAreRefused) {
  LUMINAL_NEEDS_OPENCL();
  Program p{.name = "many"};
  for (int k = 0; k < 5000; ++k) test::buffer_of(p, Space::Slot, Dtype::F32, 1);
  const int y = test::buffer_of(p, Space::Output, Dtype::F32, 1);
  StageBuilder b(p, 1);
  b.store(y, 0, b.load(4999, 0));
  b.finish();
  EXPECT_NE(error_of<DeviceError>([&] { (void)opencl()->compile(p); }).find("5001 buffers"),
            std::string::npos);
}

TEST(OpenCl, TargetAndLimitsDescribeTheDevice) {
  LUMINAL_NEEDS_OPENCL();
  const codegen::Target& target = opencl()->target();
  EXPECT_EQ(target.name, "opencl");
  EXPECT_FALSE(target.cpu.empty());
  EXPECT_GE(target.threads, 1);
  const kernel::MachineLimits limits = opencl()->measure_limits();
  EXPECT_GT(limits.flops_per_us, 100);
  EXPECT_GE(limits.flops_per_us, limits.one_thread_flops_per_us / 2);
  EXPECT_GT(limits.memory_bytes_per_us, 100);
  EXPECT_GT(limits.cache_bytes_per_us, 100);
  EXPECT_GT(limits.launch_us, 0);
}

}  // namespace
}  // namespace luminal::backends
