#include "codegen/interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <unordered_map>

#include "base/fail.h"
#include "codegen/index_code.h"
#include "scalar/element.h"

namespace luminal::codegen {
namespace {

using Kind = Instruction::Kind;
constexpr int64_t kNobody = -1;

/// A buffer and who touched each element. A moment is a task of a stage, numbered through the whole run.
struct Memory {
  const Buffer* buffer = nullptr;
  int64_t elements = 0, element_size = 0;
  TensorData::Bytes bytes;
  std::vector<int64_t> writer, reader;
};

class Machine {
 public:
  Machine(const Program& program, const DimMap& dims, uint64_t seed) : program_(program), random_(seed) {
    for (const std::string& d : program.dims) {
      const auto at = dims.find(d);
      LUMINAL_CHECK(at != dims.end(), "dim {} has no value", d);
      dims_.push_back(at->second);
    }
    shuffled_ = seed != 0;
  }

  std::vector<TensorData> run(std::span<const TensorData> slots) {
    for (const Buffer& b : program_.buffers) memory_.push_back(make(b, slots));
    int64_t first_moment = 0;
    for (const Stage& s : program_.stages) first_moment = stage(s, first_moment);
    std::vector<TensorData> outputs;
    for (const Memory& m : memory_)
      if (m.buffer->space == Space::Output) outputs.push_back(output(m));
    return outputs;
  }

 private:
  template <class... Args>
  void check(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (!holds) [[unlikely]]
      throw InternalError(
          fmt::format("[interpret] {}: {}", program_.name, fmt::format(text, std::forward<Args>(args)...)));
  }

  Memory make(const Buffer& b, std::span<const TensorData> slots) {
    Memory m{
        .buffer = &b, .elements = value(access_count(b)), .element_size = element_bytes(access_dtype(b))};
    check(m.elements >= 0, "buffer {} has {} elements", b.name, m.elements);
    if (b.space == Space::Slot) {
      const auto number = static_cast<size_t>(b.number);
      check(number < slots.size() && slots[number].dtype == b.dtype &&
                slots[number].element_count() == value(b.elements),
            "slot {} takes {} {} elements", b.number, value(b.elements), luminal::name(b.dtype));
      m.bytes = slots[number].bytes;
      return m;
    }
    if (b.space == Space::Table) {
      const auto values = std::as_bytes(b.values);
      m.bytes.assign(values.begin(), values.end());
      return m;
    }
    m.bytes.assign(static_cast<size_t>(m.elements * m.element_size), std::byte{0xA5});
    m.writer.assign(static_cast<size_t>(m.elements), kNobody);
    m.reader.assign(static_cast<size_t>(m.elements), kNobody);
    return m;
  }

  TensorData output(const Memory& m) const {
    const auto never = std::ranges::find(m.writer, kNobody);
    check(never == m.writer.end(), "element {} of {} in output {} is never written", never - m.writer.begin(),
          m.elements, m.buffer->name);
    TensorData data(m.buffer->dtype, {m.elements});
    data.bytes = m.bytes;
    return data;
  }

  int64_t value(const Expression& e) const { return IndexCode(e, program_.dims)(dims_); }

  int64_t stage(const Stage& s, int64_t first_moment) {
    stage_ = &s;
    first_moment_ = first_moment;
    code_.clear();
    variables_.assign(static_cast<size_t>(s.variable_count), 0);
    offsets_.clear();
    size_t total = 0;
    for (const Type& t : s.types) {
      offsets_.push_back(total);
      total += static_cast<size_t>((t.lanes * element_bytes(t.dtype) + 7) / 8);
    }
    values_.assign(total, 0);
    std::vector<int64_t> order(static_cast<size_t>(std::max<int64_t>(0, value(s.tasks))));
    std::iota(order.begin(), order.end(), 0);
    if (shuffled_) std::ranges::shuffle(order, random_);
    for (const int64_t task : order) {
      moment_ = first_moment + task;
      variables_[static_cast<size_t>(s.task_variable)] = task;
      for (Memory& m : memory_)
        if (m.buffer->space == Space::Local) {
          std::ranges::fill(m.bytes, std::byte{0xA5});
          std::ranges::fill(m.writer, kNobody);
        }
      block(s.body);
    }
    return first_moment + static_cast<int64_t>(order.size());
  }

  void block(const Block& b) {
    for (const Instruction& i : b) instruction(i);
  }

  void* at(Id id) { return values_.data() + offsets_[id]; }
  template <class T>
  T& lane(Id id, int number) {
    return static_cast<T*>(at(id))[number];
  }
  [[nodiscard]] Type type(Id id) const { return stage_->types[id]; }
  [[nodiscard]] size_t size(Type t) const { return static_cast<size_t>(t.lanes * element_bytes(t.dtype)); }

  int64_t evaluate(const Instruction& i, const Expression& e) {
    auto [code, fresh] = code_.try_emplace(&i);
    if (fresh) code->second = IndexCode(e, program_.dims);
    return code->second(dims_, variables_);
  }

  void instruction(const Instruction& i) {
    switch (i.kind) {
      case Kind::Compute:
        return compute(i);
      case Kind::Index:
        lane<int64_t>(i.result, 0) = evaluate(i, i.index);
        return;
      case Kind::Lanes:
        for (int k = 0; k < i.type.lanes; ++k)
          lane<int64_t>(i.result, k) = i.pattern.empty() ? k : i.pattern[static_cast<size_t>(k)];
        return;
      case Kind::LaneMask: {
        const int64_t count = evaluate(i, i.index);
        for (int k = 0; k < i.type.lanes; ++k) lane<uint8_t>(i.result, k) = k < count;
        return;
      }
      case Kind::Broadcast:
        return copy_lanes(i, [](int) { return std::pair{0, 0}; });
      case Kind::Shuffle: {
        const int n = type(i.operands[0]).lanes;
        return copy_lanes(i, [&](int k) {
          const int p = i.pattern[static_cast<size_t>(k)];
          return std::pair{p < n ? 0 : 1, p < n ? p : p - n};
        });
      }
      case Kind::Permute: {
        const auto n = static_cast<uint32_t>(type(i.operands[1]).lanes);
        const auto tables = static_cast<uint32_t>(i.operands.size() - 1);
        const bool in_bytes = type(i.operands[0]).dtype == Dtype::U8;
        return copy_lanes(i, [&](int k) {
          const auto given = in_bytes ? uint32_t{lane<uint8_t>(i.operands[0], k)}
                                      : static_cast<uint32_t>(lane<int32_t>(i.operands[0], k));
          const uint32_t number = given % (n * tables);
          return std::pair{static_cast<int>(1 + number / n), static_cast<int>(number % n)};
        });
      }
      case Kind::Dot4:
        return dot4(i);
      case Kind::Reduce:
        return reduce(i);
      case Kind::Loop:
        return loop(i);
      case Kind::Prefetch:
        return;
      case Kind::If:
        if (lane<uint8_t>(i.operands[0], 0) != 0) block(i.body);
        return;
      case Kind::Load:
      case Kind::Gather:
      case Kind::Store:
      case Kind::Scatter:
        return access(i);
    }
  }

  void compute(const Instruction& i) {
    void* out = at(i.result);
    if (i.op == ScalarOp::Constant) {
      const auto bytes = static_cast<size_t>(element_bytes(i.type.dtype));
      for (int k = 0; k < i.type.lanes; ++k)
        std::memcpy(static_cast<std::byte*>(out) + static_cast<size_t>(k) * bytes, &i.bits, bytes);
      return;
    }
    const Dtype operand = type(i.operands[i.op == ScalarOp::Select ? 1 : 0]).dtype;
    const auto pointer = [&](size_t k) { return k < i.operands.size() ? at(i.operands[k]) : nullptr; };
    element_kernel(i.op, i.type.dtype, operand)(i.type.lanes, out, pointer(0), pointer(1), pointer(2));
  }

  template <class From>
  void copy_lanes(const Instruction& i, From&& from) {
    const auto bytes = static_cast<size_t>(element_bytes(i.type.dtype));
    auto* out = static_cast<std::byte*>(at(i.result));
    for (int k = 0; k < i.type.lanes; ++k) {
      const auto [operand, number] = from(k);
      const auto* source = static_cast<const std::byte*>(at(i.operands[static_cast<size_t>(operand)]));
      std::memcpy(out + static_cast<size_t>(k) * bytes, source + static_cast<size_t>(number) * bytes, bytes);
    }
  }

  void dot4(const Instruction& i) {
    for (int k = 0; k < i.type.lanes; ++k) {
      auto sum = static_cast<uint32_t>(lane<int32_t>(i.operands[0], k));
      for (int j = 4 * k; j < 4 * k + 4; ++j) {
        const uint8_t number = lane<uint8_t>(i.operands[1], j);
        check(number <= i.bits, "lane {} is {}, where none is above {}", j, number, i.bits);
        sum += static_cast<uint32_t>(number * lane<int8_t>(i.operands[2], j));
      }
      lane<int32_t>(i.result, k) = static_cast<int32_t>(sum);
    }
  }

  void reduce(const Instruction& i) {
    const Type t = type(i.operands[0]);
    const auto bytes = static_cast<size_t>(element_bytes(t.dtype));
    std::vector<uint64_t> from(size(t) / 8 + 1), to(from.size());
    std::memcpy(from.data(), at(i.operands[0]), size(t));
    const ScalarKernel fold = element_kernel(i.op, t.dtype, t.dtype);
    for (int half = t.lanes / 2; half > 0; half /= 2) {
      const auto* low = reinterpret_cast<const std::byte*>(from.data());
      fold(half, to.data(), low, low + static_cast<size_t>(half) * bytes, nullptr);
      std::swap(from, to);
    }
    std::memcpy(at(i.result), from.data(), bytes);
  }

  void loop(const Instruction& i) {
    const auto copy = [&](Id to, Id from) { std::memcpy(at(to), at(from), size(type(from))); };
    const auto all = [&](const std::vector<Id>& to, const std::vector<Id>& from) {
      for (size_t k = 0; k < to.size(); ++k) copy(to[k], from[k]);
    };
    const int64_t extent = evaluate(i, i.extent);
    all(i.results, i.initial);
    for (int64_t n = 0; n < extent; ++n) {
      all(i.carried, i.results);
      variables_[static_cast<size_t>(i.variable)] = n;
      block(i.body);
      all(i.results, i.next);  // `next` may name carried values: results are other places
    }
  }

  void access(const Instruction& i) {
    Memory& m = memory_[static_cast<size_t>(i.buffer)];
    const bool writes = i.kind == Kind::Store || i.kind == Kind::Scatter;
    const bool by_lane = i.kind == Kind::Gather || i.kind == Kind::Scatter;
    const int64_t first = by_lane ? 0 : evaluate(i, i.index);
    const int width = access_width(i, *m.buffer);
    const auto size = static_cast<size_t>(m.element_size), bytes = size * static_cast<size_t>(width);
    auto* value = static_cast<std::byte*>(at(writes ? i.operands[0] : i.result));
    for (int k = 0; k < i.type.lanes; ++k, value += bytes) {
      if (i.mask != kNone && lane<uint8_t>(i.mask, k) == 0) {
        if (!writes) std::memset(value, 0, bytes);
        continue;
      }
      const int64_t index = by_lane ? lane<int64_t>(i.operands.back(), k) : first + k * i.stride;
      if (index < 0 || index + width > m.elements) [[unlikely]]
        check(false, "{} element {} of {} in {} ({}, variables {})", writes ? "writes" : "reads", index,
              m.elements, m.buffer->name, i.index.to_string(), fmt::join(variables_, " "));
      std::byte* element = m.bytes.data() + static_cast<size_t>(index) * size;
      writes ? note_write(m, static_cast<size_t>(index)) : note_read(m, static_cast<size_t>(index));
      writes ? std::memcpy(element, value, bytes) : std::memcpy(value, element, bytes);
    }
  }

  /// Stands for more than one reader in this stage.
  [[nodiscard]] int64_t several() const { return -2 - first_moment_; }
  /// Tasks of one stage may run at once: what one writes no other may touch before the next stage.
  [[nodiscard]] bool other_task(int64_t moment) const { return moment >= first_moment_ && moment != moment_; }

  void note_read(Memory& m, size_t index) {
    if (m.buffer->space == Space::Slot || m.buffer->space == Space::Table) return;
    check(m.writer[index] != kNobody, "reads element {} of {}, which nobody wrote", index, m.buffer->name);
    if (m.buffer->space == Space::Local) return;
    check(!other_task(m.writer[index]), "reads element {} of {}, which another task of the stage writes",
          index, m.buffer->name);
    int64_t& reader = m.reader[index];
    reader = reader == several() || other_task(reader) ? several() : moment_;
  }
  void note_write(Memory& m, size_t index) {
    if (m.buffer->space == Space::Output)
      check(m.writer[index] == kNobody, "writes element {} of output {} twice", index, m.buffer->name);
    if (m.buffer->space == Space::Shared || m.buffer->space == Space::Prepared) {
      check(!other_task(m.writer[index]), "two tasks of a stage write element {} of {}", index,
            m.buffer->name);
      check(m.reader[index] != several() && !other_task(m.reader[index]),
            "writes element {} of {}, which another task of the stage reads", index, m.buffer->name);
    }
    m.writer[index] = moment_;
  }

  const Program& program_;
  std::mt19937_64 random_;
  bool shuffled_ = false;
  std::vector<int64_t> dims_, variables_;
  std::vector<Memory> memory_;
  const Stage* stage_ = nullptr;
  int64_t first_moment_ = 0, moment_ = 0;
  std::unordered_map<const Instruction*, IndexCode> code_;
  std::vector<size_t> offsets_;
  std::vector<uint64_t> values_;
};

}  // namespace

std::vector<TensorData> interpret(const Program& program, std::span<const TensorData> slots,
                                  const DimMap& dims, uint64_t seed) {
  LUMINAL_CHECK(!program.native, "{} is native code, which has no loops to interpret", program.name);
  verify(program);
  return Machine(program, dims, seed).run(slots);
}

}  // namespace luminal::codegen
