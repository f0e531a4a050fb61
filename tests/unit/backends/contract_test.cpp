#include <sstream>

#include "backends/cpu/jit.h"
#include "backends/device.h"
#include "codegen/emit/llvm.h"
#include "support/effort.h"
#include "unit/backends/launch.h"
#include "unit/codegen/cases.h"

/// Contractions, reductions and rows as machine code in fenced memory, at sizes that leave tails everywhere.
namespace luminal::backends {
namespace {

using namespace codegen::test_cases;
using codegen::Candidate;

void check(Device& backend, std::string_view family, const KernelSpec& spec, const codegen::Bucket& bucket,
           const std::vector<DimMap>& sizes) {
  const codegen::Schedule& schedule = codegen::find_schedule(family);
  auto candidates = schedule.candidates(spec, bucket, backend.target());
  ASSERT_FALSE(candidates.empty()) << spec.to_string();
  const auto most = static_cast<size_t>(effort::cases(3, 100));
  if (candidates.size() > most) candidates.erase(candidates.begin() + 2, candidates.end() - 1);
  for (const Candidate& candidate : candidates) {
    const auto kernel = backend.compile(schedule.lower(spec, candidate.parameters, bucket, backend.target()));
    for (const DimMap& dims : sizes) {
      const auto slots = inputs_of(spec, dims);
      const auto want = kernel::evaluate(spec, slots, dims);
      const auto got = test::launch(*kernel, slots, want, dims);
      for (size_t o = 0; o < want.size(); ++o)
        expect_equal(got[o], want[o], 0, spec.to_string() + codegen::to_string(candidate.parameters));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void check_all(Device& backend) {
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      check(backend, "contract",
            Matmul{.m = 65, .n = 71, .k = 83, .turned_a = a, .turned_b = b, .epilogue = a}.spec().spec, {},
            {{}});
  for (const Dtype dtype : {Dtype::F64, Dtype::I32, Dtype::I64})
    check(backend, "contract", Matmul{.m = 9, .n = 19, .k = 12, .batch = 3, .dtype = dtype}.spec().spec, {},
          {{}});
  const Conv convolutions[] = {
      {.images = 3, .channels = 4, .height = 6, .width = 7, .filters = 5},
      {.images = 2, .channels = 16, .height = 14, .width = 14, .filters = 32},
      {.images = 2, .channels = 3, .height = 8, .width = 9, .filters = 4, .stride = 2}};
  for (const Conv& c : convolutions) {
    check(backend, "contract", c.forward().spec, {}, {{}});
    check(backend, "contract", c.weight_gradient().spec, {}, {{}});
    check(backend, "contract", c.input_gradient().spec, {}, {{}});
  }
  const DimFacts facts{.min = 0, .max = 40};
  const Expression s = Expression::dim("s", facts);
  check(backend, "contract", Matmul{.m = s, .n = 21, .k = s}.spec().spec, {{{"s", facts}}},
        {{{"s", 40}}, {{"s", 17}}, {{"s", 0}}});
  check(backend, "contract",
        Conv{.images = s, .channels = 2, .height = 4, .width = 5, .filters = 3}.weight_gradient().spec,
        {{{"s", facts}}}, {{{"s", 9}}, {{"s", 1}}});
}

TEST(ContractCode, EqualsTheDefinition) { check_all(*make_cpu_device()); }

/// Lines that move a vector register to or from the stack, in blocks that add up at least `sums` products.
int64_t spills_of(const std::string& assembly, int64_t sums) {
  std::istringstream lines(assembly);
  int64_t count = 0, spills = 0, products = 0;
  const auto end_block = [&] {
    if (products >= sums) count += spills;
    spills = products = 0;
  };
  const auto holds = [](const std::string& line, const char* text) {
    return line.find(text) != std::string::npos;
  };
  for (std::string line; std::getline(lines, line);) {
    if (holds(line, ".LBB")) end_block();  // where a block begins, or jumps
    products += holds(line, "vfmadd") ? 1 : 0;
    spills += holds(line, "%zmm") && holds(line, "%rsp") ? 1 : 0;
  }
  end_block();
  return count;
}

/// Sums of a full tile are in registers from the first step to the last, or all but one; it leaves them for a few vectors
/// before and behind the loop, not for all of its sums.
TEST(ContractCode, FullTilesStayInRegisters) {
  const HostCpu cpu{.cpu = "x86-64-v4", .features = "", .vector_bytes = 64, .vector_registers = 32};
  const codegen::Schedule& schedule = codegen::find_schedule("contract");
  const kernel::Canonical specs[] = {
      Matmul{.m = 101, .n = 47, .k = 333}.spec(),
      Matmul{.m = 512, .n = 512, .k = 512}.spec(),
      Matmul{.m = 784, .n = 120, .k = 40, .batch = 8, .turned_a = true, .turned_b = true}.spec(),
      Matmul{.m = 1000, .n = 1000, .k = 1000, .turned_a = true}.spec(),
      Conv{.images = 8, .channels = 128, .height = 20, .width = 20, .filters = 128}.forward(),
      Conv{.images = 1, .channels = 256, .height = 14, .width = 14, .filters = 256}.forward(),
      Conv{.images = 8, .channels = 200, .height = 14, .width = 14, .filters = 80, .side = 1, .pad = 0}
          .forward(),
      Conv{.images = 1,
           .channels = 512,
           .height = 28,
           .width = 28,
           .filters = 1024,
           .side = 1,
           .pad = 0,
           .stride = 2}
          .forward()};
  int64_t full = 0;
  const auto expect_no_spills = [&](const kernel::KernelSpec& spec, const codegen::Parameters& parameters) {
    const int64_t vectors = parameters.at("tile_m") * parameters.at("tile_n");
    if (vectors < 26) return;
    ++full;
    const codegen::Program program = schedule.lower(spec, parameters, {}, avx512());
    SCOPED_TRACE(spec.to_string() + codegen::to_string(parameters));
    const std::string assembly = compile_assembly(codegen::emit_llvm(program, {}), cpu);
    EXPECT_LT(spills_of(assembly, 0), vectors);
    EXPECT_LE(spills_of(assembly, vectors), 2);
  };
  for (const kernel::Canonical& made : specs)
    for (const Candidate& candidate : schedule.candidates(made.spec, {}, avx512()))
      expect_no_spills(made.spec, candidate.parameters);
  // Rows where they lie, with and without what fetches ahead.
  const kernel::Canonical pointwise =
      Conv{.images = 1, .channels = 1024, .height = 14, .width = 14, .filters = 512, .side = 1, .pad = 0}
          .forward();
  for (const int64_t ahead : {0, 32})
    for (const auto& [height, vectors] : {std::pair<int64_t, int64_t>{14, 2}, {9, 3}, {28, 1}})
      expect_no_spills(pointwise.spec, {{"swap_operands", 1},
                                        {"tile_m", height},
                                        {"tile_n", vectors},
                                        {"task_m", 14},
                                        {"task_n", 2},
                                        {"depth", 256},
                                        {"splits", 1},
                                        {"pack_m", 0},
                                        {"pack_n", 1},
                                        {"ahead", ahead}});
  EXPECT_GT(full, 4);
}

TEST(ContractCode, EqualsTheDefinitionWithoutAvx512) {
  const test::Features features("-avx512f");
  check_all(*make_cpu_device());
}

/// Column sums and row maxima over odd sizes, contiguous and not, few results and many.
TEST(ReduceCode, EqualsTheDefinition) {
  const auto backend = make_cpu_device();
  for (const auto& [a, b, c] : {std::array<int64_t, 3>{1, 5000, 1}, {3, 700, 37}, {65, 133, 1}, {40, 3, 5}})
    for (const Monoid monoid : {Monoid::Add, Monoid::Max}) {
      SpecBuilder s;
      const Expression i = s.axis(a), k = s.axis(c), j = s.axis(b);
      const int x = s.slot(a * b * c);
      const int fold = s.value({0, 1}, {2}, monoid, {s.load(x, (i * b + j) * c + k)},
                               [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
      s.output(fold, i * c + k, a * c);
      check(*backend, "reduce", s.finish().spec, {}, {{}});
    }
}

/// m = max x; l = sum (x - m)^2; y = (x - m)^2 + l, over rows.
TEST(RowCode, EqualsTheDefinition) {
  const auto backend = make_cpu_device();
  for (const auto& [rows, length] : {std::array<int64_t, 2>{5, 300}, {33, 10}, {2, 64}}) {
    SpecBuilder s;
    const Expression r = s.axis(rows), j = s.axis(length);
    const Operand x = s.load(s.slot(rows * length), r * length + j);
    const int m =
        s.value({0}, {1}, Monoid::Max, {x}, [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    const auto square = [](ScalarBuilder& b, std::span<const Scalar> v) {
      const Scalar d = b.sub(v[0], v[1]);
      return b.mul(d, d);
    };
    const int l = s.value({0}, {1}, Monoid::Add, {x, s.read(m)}, square);
    const int y =
        s.value({0, 1}, {}, std::nullopt, {x, s.read(m), s.read(l)},
                [&](ScalarBuilder& b, std::span<const Scalar> v) { return b.add(square(b, v), v[2]); });
    s.output(y, r * length + j, rows * length);
    check(*backend, "row", s.finish().spec, {}, {{}});
  }
}

}  // namespace
}  // namespace luminal::backends
