#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "codegen/emit/c_family.h"
#include "codegen/emit/llvm.h"
#include "codegen/index_code.h"
#include "support/effort.h"
#include "support/files.h"
#include "support/loop_programs.h"
#include "unit/codegen/family_programs.h"

/// Programs as C, compiled by the system's compiler, against the interpreters.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using test::LoopProgram;

bool has_c_compiler() {
  static const bool has = std::system("cc --version > /dev/null 2>&1") == 0;
  return has;
}

/// Bytes with known ones around them.
class Margined {
 public:
  explicit Margined(size_t bytes) : memory_(bytes + 2 * kMargin, kPattern), bytes_(bytes) {}
  [[nodiscard]] std::byte* data() { return memory_.data() + kMargin; }
  [[nodiscard]] bool is_intact() const {
    const auto same = [](std::byte b) { return b == kPattern; };
    return std::all_of(memory_.begin(), memory_.begin() + kMargin, same) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(kMargin + bytes_), memory_.end(), same);
  }

 private:
  static constexpr size_t kMargin = 128;
  static constexpr std::byte kPattern{0xA5};
  TensorData::Bytes memory_;
  size_t bytes_;
};

/// Programs of different names as one shared object.
class CompiledC {
 public:
  explicit CompiledC(std::span<const Program> programs, const std::string& flags) {
    const auto source = folder_.file("programs.c", emit_c(programs, plain_c()));
    const std::string object = (folder_.path() / "programs.so").string();
    // Without floating-point contraction, which C11 leaves to the implementation.
    const std::string command = fmt::format("cc -std=c11 -ffp-contract=off {} -w -fPIC -shared -o {} {} -lm",
                                            flags, object, source.string());
    if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
    library_ = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
  }
  CompiledC(const CompiledC&) = delete;
  ~CompiledC() { ::dlclose(library_); }

  /// Slots in, tensors of the dtypes and sizes of `outputs` out. Each stage runs in two parts, the later one first.
  [[nodiscard]] std::vector<TensorData> run(const Program& p, const std::vector<TensorData>& slots,
                                            std::vector<TensorData> outputs, const DimMap& dims) const {
    std::vector<Margined> memory;
    std::vector<void*> buffers;
    for (const std::vector<TensorData>* list :
         {&slots, static_cast<const std::vector<TensorData>*>(&outputs)})
      for (const TensorData& t : *list) {
        memory.emplace_back(t.bytes.size());
        if (list == &slots) std::ranges::copy(t.bytes, memory.back().data());
      }
    std::vector<int64_t> sizes;
    for (const std::string& d : p.dims) sizes.push_back(dims.at(d));
    for (const Space space : {Space::Shared, Space::Local, Space::Prepared})
      memory.emplace_back(static_cast<size_t>(IndexCode(workspace_of(p, space).bytes, p.dims)(sizes)));
    for (Margined& m : memory) buffers.push_back(m.data());
    auto** const workspaces = reinterpret_cast<std::byte**>(&buffers[buffers.size() - 3]);
    const Arguments arguments{buffers.data(), sizes.data(), workspaces[0], workspaces[1], workspaces[2]};
    for (size_t s = 0; s < p.stages.size(); ++s) {
      auto* const stage = reinterpret_cast<StageFunction>(::dlsym(library_, stage_symbol(p, s).c_str()));
      const int64_t tasks = std::max<int64_t>(0, IndexCode(p.stages[s].tasks, p.dims)(sizes));
      stage(&arguments, tasks / 2, tasks);
      stage(&arguments, 0, tasks / 2);
    }
    for (size_t k = 0; k < outputs.size(); ++k)
      std::copy_n(memory[slots.size() + k].data(), outputs[k].bytes.size(), outputs[k].bytes.begin());
    for (size_t k = 0; k < memory.size(); ++k)
      EXPECT_TRUE(memory[k].is_intact()) << p.name << ", memory " << k;
    return outputs;
  }

 private:
  /// As backends::LaunchArguments.
  struct Arguments {
    void* const* buffers;
    const int64_t* dims;
    std::byte *shared, *local, *prepared;
  };
  using StageFunction = void (*)(const Arguments*, int64_t, int64_t);
  test::TemporaryFolder folder_;
  void* library_ = nullptr;
};

/// Runs all of them, compiled together, against the interpreter of the loops.
void expect_interpreted(std::vector<LoopProgram> programs, const std::string& flags) {
  std::vector<Program> renamed;
  for (LoopProgram& p : programs) {
    p.program.name += fmt::format("_{}", renamed.size());
    renamed.push_back(p.program);
  }
  const CompiledC compiled(renamed, flags);
  for (const LoopProgram& p : programs)
    for (const auto& [dims, slots] : p.runs) {
      const auto want = interpret(p.program, slots, dims);
      const auto got = compiled.run(p.program, slots, want, dims);
      for (size_t o = 0; o < want.size(); ++o) {
        test::expect_equal_bits(got[o], want[o], p.what);
        if (testing::Test::HasFailure())
          FAIL() << p.program.to_string().substr(0, 4000) << emit_c(p.program, plain_c()).substr(0, 8000);
      }
    }
}

TEST(CFamily, EveryOperationEqualsTheScalarInterpreter) {
  if (!has_c_compiler()) GTEST_SKIP() << "this machine has no C compiler (cc)";
  constexpr int64_t kCount = 960;
  std::vector<Program> programs;
  const std::vector<test::Operation> operations = test::operations();
  for (const test::Operation& o : operations)
    for (const int lanes : {1, 16}) {
      programs.push_back(test::program_of(o, lanes, kCount));
      programs.back().name += fmt::format("_{}", programs.size());
    }
  const CompiledC compiled(programs, "-O1");
  std::mt19937_64 random(7);
  for (size_t k = 0; k < operations.size(); ++k) {
    std::vector<TensorData> slots;
    for (const Dtype d : operations[k].operands)
      slots.push_back(test::tensor(d, test::samples(d, kCount, random)));
    const TensorData want = test::expected_of(operations[k], slots);
    for (const size_t number : {2 * k, 2 * k + 1}) {
      const auto got = compiled.run(programs[number], slots, {want}, {});
      test::expect_equal_bits(got[0], want,
                              fmt::format("{}, program {}", test::text_of(operations[k]), number));
    }
  }
}

TEST(CFamily, EveryInstructionEqualsTheLoopInterpreter) {
  if (!has_c_compiler()) GTEST_SKIP() << "this machine has no C compiler (cc)";
  expect_interpreted(test::loop_programs(), "-O1");
}

TEST(CFamily, RandomSpecsOfEveryFamilyEqualTheLoopInterpreter) {
  if (!has_c_compiler()) GTEST_SKIP() << "this machine has no C compiler (cc)";
  std::vector<LoopProgram> programs;
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(effort::cases(25, 400)); ++seed)
    add_programs(programs, random_case(seed), seed % 3 == 0 ? avx2() : avx512(), true);
  expect_interpreted(std::move(programs), "-O0");
}

/// Each family has its own ways with memory: packed panels, tables, stages that prepare, dots of bytes.
TEST(CFamily, ProgramsOfEveryFamilyEqualTheLoopInterpreter) {
  if (!has_c_compiler()) GTEST_SKIP() << "this machine has no C compiler (cc)";
  std::vector<LoopProgram> programs;
  std::set<std::string_view> families;
  for (const Case& c : nest_cases()) families.merge(add_programs(programs, c, avx2(), effort::full_effort()));
  for (const KernelSpec& spec : specs_of_every_family())
    for (const Target& target : {avx512_with_dots(), avx2()})
      families.merge(add_programs(programs, {"spec", spec, {}, {{}}}, target, effort::full_effort()));
  EXPECT_EQ(families.size(), families_for(avx2()));
  expect_interpreted(std::move(programs), "-O0");
}

}  // namespace
}  // namespace luminal::codegen
