#include "codegen/interpreter.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <unordered_map>
#include <utility>

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
  /// Of a block's threads, the last one that wrote, and one or two that read, in the last phase that somebody did.
  /// Empty where single threads run all tasks.
  std::vector<int64_t> thread_writer, thread_readers;
  std::vector<size_t> taken_by;  ///< outputs that may lie where this slot does
};

/// The values and variables of one thread.
struct Thread {
  int number = 0;
  std::vector<uint64_t> values;
  std::vector<int64_t> variables;
};

/// Runs the threads of a block in step: each instruction by all threads that come to it, before the next one.
class Machine {
 public:
  /// `report`: takes the findings; without it the first one is an error.
  Machine(const Program& program, const DimMap& dims, uint64_t seed, RaceReport* report = nullptr)
      : program_(program), random_(seed), report_(report) {
    for (const Stage& s : program.stages) most_threads_ = std::max(most_threads_, s.threads);
    for (const std::string& d : program.dims) {
      const auto at = dims.find(d);
      LUMINAL_CHECK(at != dims.end(), "dim {} has no value", d);
      dims_.push_back(at->second);
    }
    shuffled_ = seed != 0;
  }

  std::vector<TensorData> run(std::span<const TensorData> slots) {
    for (const Buffer& b : program_.buffers) memory_.push_back(make(b, slots));
    if (report_ != nullptr) note_outputs_that_take_slots();
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
    const int64_t all =
        m.elements * (b.space == Space::Local ? most_threads_ : 1);  // each thread has its own
    m.bytes.assign(static_cast<size_t>(all * m.element_size), std::byte{0xA5});
    m.writer.assign(static_cast<size_t>(all), kNobody);
    m.reader.assign(static_cast<size_t>(all), kNobody);
    if (most_threads_ == 1 || b.space == Space::Local) return m;
    m.thread_writer.assign(static_cast<size_t>(all), kNobody);
    m.thread_readers.assign(static_cast<size_t>(all), kNobody);
    return m;
  }

  void note_outputs_that_take_slots() {
    for (Memory& slot : memory_)
      for (size_t k = 0; k < memory_.size(); ++k)
        if (slot.buffer->space == Space::Slot && !slot.buffer->is_kept &&
            memory_[k].buffer->space == Space::Output && memory_[k].elements == slot.elements &&
            memory_[k].element_size == slot.element_size)
          slot.taken_by.push_back(k);
  }

  TensorData output(const Memory& m) {
    if (const auto never = std::ranges::find(m.writer, kNobody); never != m.writer.end())
      found({.kind = Finding::Kind::NeverWritten,
             .buffer = number_of(m),
             .element = never - m.writer.begin(),
             .message = fmt::format("element {} of {} in output {} is never written",
                                    never - m.writer.begin(), m.elements, m.buffer->name)});
    TensorData data(m.buffer->dtype, {m.elements});
    data.bytes = m.bytes;
    return data;
  }

  int64_t value(const Expression& e) const { return IndexCode(e, program_.dims)(dims_); }

  int64_t stage(const Stage& s, int64_t first_moment) {
    stage_ = &s;
    first_moment_ = first_moment;
    code_.clear();
    offsets_.clear();
    size_t total = 0;
    for (const Type& t : s.types) {
      offsets_.push_back(total);
      total += static_cast<size_t>((t.lanes * element_bytes(t.dtype) + 7) / 8);
    }
    const Thread fresh{.number = 0,
                       .values = std::vector<uint64_t>(total, 0),
                       .variables = std::vector<int64_t>(static_cast<size_t>(s.variable_count), 0)};
    threads_.assign(static_cast<size_t>(s.threads), fresh);
    std::vector<int> everyone(threads_.size());
    std::iota(everyone.begin(), everyone.end(), 0);
    for (const int t : everyone) threads_[static_cast<size_t>(t)].number = t;
    std::vector<int64_t> order(static_cast<size_t>(std::max<int64_t>(0, value(s.tasks))));
    std::iota(order.begin(), order.end(), 0);
    if (shuffled_) std::ranges::shuffle(order, random_);
    for (const int64_t task : order) {
      moment_ = first_moment + task;
      first_phase_ = ++phase_;
      active_ = everyone;
      begin_task(s, task);
      block(s.body);
    }
    return first_moment + static_cast<int64_t>(order.size());
  }

  void begin_task(const Stage& s, int64_t task) {
    for (Thread& t : threads_) {
      t.variables[static_cast<size_t>(s.task_variable)] = task;
      if (s.threads > 1) t.variables[static_cast<size_t>(s.thread_variable)] = t.number;
    }
    for (Memory& m : memory_)
      if (m.buffer->space == Space::Local || m.buffer->space == Space::Block) {
        std::ranges::fill(m.bytes, std::byte{0xA5});
        std::ranges::fill(m.writer, kNobody);
      }
  }

  void block(const Block& b) {
    for (const Instruction& i : b) step(i);
  }

  /// One instruction by all threads that are there.
  void step(const Instruction& i) {
    now_ = &i;
    if (i.kind == Kind::Loop) return loop(i);
    if (i.kind == Kind::If) return branch(i);
    if (i.kind == Kind::Barrier) return barrier();
    touches_.clear();
    for_active([&] { instruction(i); });
    if (!touches_.empty())
      add_accesses(report_->figures, touches_,
                   memory_[static_cast<size_t>(i.buffer)].buffer->space == Space::Block);
  }
  template <class F>
  void for_active(F&& f) {
    for (const int t : active_) {
      thread_ = &threads_[static_cast<size_t>(t)];
      f();
    }
  }

  void* at(Id id) { return thread_->values.data() + offsets_[id]; }
  template <class T>
  T& lane(Id id, int number) {
    return static_cast<T*>(at(id))[number];
  }
  [[nodiscard]] Type type(Id id) const { return stage_->types[id]; }
  [[nodiscard]] size_t size(Type t) const { return static_cast<size_t>(t.lanes * element_bytes(t.dtype)); }

  int64_t evaluate(const Instruction& i, const Expression& e) {
    auto [code, fresh] = code_.try_emplace(&i);
    if (fresh) code->second = IndexCode(e, program_.dims);
    return code->second(dims_, thread_->variables);
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
      case Kind::Prefetch:
      case Kind::Loop:
      case Kind::If:
      case Kind::Barrier:
        return;  // a wish; the others are steps of all threads
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

  /// Threads that have done all their passes are not there in further ones.
  void loop(const Instruction& i) {
    const auto copy = [&](Id to, Id from) { std::memcpy(at(to), at(from), size(type(from))); };
    const auto all = [&](const std::vector<Id>& to, const std::vector<Id>& from) {
      for (size_t k = 0; k < to.size(); ++k) copy(to[k], from[k]);
    };
    int64_t least = INT64_MAX, most = 0;
    for_active([&] {
      const int64_t extent = evaluate(i, i.extent);
      least = std::min(least, extent), most = std::max(most, extent);
      all(i.results, i.initial);
    });
    const std::span<const int> before = active_;
    std::vector<int> left;
    for (int64_t n = 0; n < most; ++n) {
      if (n >= least) {
        active_ = before;
        left = those([&] { return n < evaluate(i, i.extent); });
        active_ = left;
      }
      for_active([&] {
        all(i.carried, i.results);
        thread_->variables[static_cast<size_t>(i.variable)] = n;
      });
      block(i.body);
      for_active(
          [&] { all(i.results, i.next); });  // `next` may name carried values: results are other places
    }
    active_ = before;
  }
  /// Threads that are there and for which `holds`.
  template <class F>
  std::vector<int> those(F&& holds) {
    std::vector<int> list;
    for_active([&] {
      if (holds()) list.push_back(thread_->number);
    });
    return list;
  }

  void branch(const Instruction& i) {
    const auto holds = [&] { return lane<uint8_t>(i.operands[0], 0) != 0; };
    size_t count = 0;
    for_active([&] { count += holds() ? 1 : 0; });
    if (count == 0) return;
    if (count == active_.size()) return block(i.body);
    const std::vector<int> inside = those(holds);
    const std::span<const int> before = std::exchange(active_, inside);
    block(i.body);
    active_ = before;
  }

  void barrier() {
    if (active_.size() != threads_.size()) {
      int absent = 0;
      while (std::ranges::find(active_, absent) != active_.end()) ++absent;
      thread_ = &threads_[static_cast<size_t>(active_.front())];
      found({.kind = Finding::Kind::Divergence,
             .other_thread = absent,
             .message = fmt::format("{} of {} threads come to a barrier, thread {} does not", active_.size(),
                                    threads_.size(), absent)});
    }
    ++phase_;
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
      if (index < 0 || index + width > m.elements) [[unlikely]] {
        found_at(
            Finding::Kind::OutOfBounds, m, index,
            fmt::format("{} element {} of {} in {} ({}, variables {})", writes ? "writes" : "reads", index,
                        m.elements, m.buffer->name, i.index.to_string(), fmt::join(thread_->variables, " ")));
        if (!writes) std::memset(value, 0xA5, bytes);
        continue;
      }
      const int64_t own = m.buffer->space == Space::Local ? thread_->number * m.elements : 0;
      const auto place = static_cast<size_t>(own + index);
      std::byte* element = m.bytes.data() + place * size;
      writes ? note_write(m, place) : note_read(m, place);
      writes ? std::memcpy(element, value, bytes) : std::memcpy(value, element, bytes);
      if (report_ != nullptr && m.buffer->space != Space::Local && m.buffer->space != Space::Table)
        touches_.push_back({.thread = thread_->number,
                            .byte = index * static_cast<int64_t>(size),
                            .bytes = static_cast<int64_t>(bytes)});
    }
  }

  // --- what is wrong ---

  void found(Finding f) {
    if (report_ == nullptr) throw InternalError(fmt::format("[interpret] {}: {}", program_.name, f.message));
    ++report_->found;
    f.stage = static_cast<int>(stage_ - program_.stages.data());
    if (f.kind != Finding::Kind::NeverWritten) {
      f.instruction = now_;
      f.task = moment_ - first_moment_;
      f.thread = thread_->number;
      f.phase = phase_ - first_phase_;
    }
    const auto same = [&](const Finding& other) {
      return other.kind == f.kind && other.instruction == f.instruction && other.buffer == f.buffer;
    };
    if (std::ranges::none_of(report_->findings, same)) report_->findings.push_back(std::move(f));
  }
  void found_at(Finding::Kind kind, const Memory& m, int64_t element, std::string message,
                int other_thread = -1) {
    found({.kind = kind,
           .buffer = number_of(m),
           .element = element,
           .other_thread = other_thread,
           .message = std::move(message)});
  }
  [[nodiscard]] int number_of(const Memory& m) const { return static_cast<int>(&m - memory_.data()); }

  /// Stands for more than one reader in this stage.
  [[nodiscard]] int64_t several() const { return -2 - first_moment_; }
  /// Tasks of one stage may run at once: what one writes no other may touch before the next stage.
  [[nodiscard]] bool other_task(int64_t moment) const { return moment >= first_moment_ && moment != moment_; }

  void note_read(Memory& m, size_t index) {
    using enum Finding::Kind;
    const int64_t element =
        static_cast<int64_t>(index) % std::max<int64_t>(1, m.elements);  // of a thread's own
    for (const size_t k : m.taken_by) {
      if (memory_[k].writer[index] != kNobody)
        found_at(Overwritten, m, element,
                 fmt::format("reads element {} of {}, where {} may be written by then", index, m.buffer->name,
                             memory_[k].buffer->name));
      note_reader(memory_[k], index);
    }
    if (m.buffer->space == Space::Slot || m.buffer->space == Space::Table) return;
    if (m.writer[index] == kNobody)
      found_at(Unwritten, m, element,
               fmt::format("reads element {} of {}, which nobody wrote", element, m.buffer->name));
    note_reader(m, index);
    if (m.buffer->space == Space::Local || m.buffer->space == Space::Block) return;
    if (other_task(m.writer[index]))
      found_at(TaskRace, m, element,
               fmt::format("reads element {} of {}, which another task of the stage writes", index,
                           m.buffer->name));
  }
  void note_reader(Memory& m, size_t index) {
    if (!m.thread_writer.empty()) note_threads(m, index, false);
    int64_t& reader = m.reader[index];
    reader = reader == several() || other_task(reader) ? several() : moment_;
  }
  void note_write(Memory& m, size_t index) {
    using enum Finding::Kind;
    const auto element = static_cast<int64_t>(index);
    if (!m.thread_writer.empty()) note_threads(m, index, true);
    if (m.buffer->space == Space::Output && m.writer[index] != kNobody)
      found_at(WrittenTwice, m, element,
               fmt::format("writes element {} of output {} twice", index, m.buffer->name));
    if (m.buffer->space != Space::Local && m.buffer->space != Space::Block) {
      if (m.buffer->space != Space::Output && other_task(m.writer[index]))
        found_at(TaskRace, m, element,
                 fmt::format("two tasks of a stage write element {} of {}", index, m.buffer->name));
      if (m.reader[index] == several() || other_task(m.reader[index]))
        found_at(TaskRace, m, element,
                 fmt::format("writes element {} of {}, which another task of the stage reads", index,
                             m.buffer->name));
    }
    m.writer[index] = moment_;
  }

  /// Marks of this phase are `mine` and up: the numbers of one or two threads behind it.
  void note_threads(Memory& m, size_t index, bool writes) {
    constexpr int64_t kThreads = kMostBlockThreads;
    const int64_t phase = phase_ * kThreads * kThreads, me = thread_->number;
    int64_t &writer = m.thread_writer[index], &readers = m.thread_readers[index];
    const auto race = [&](int64_t other, std::string_view other_does) {
      found_at(Finding::Kind::ThreadRace, m, static_cast<int64_t>(index),
               fmt::format("thread {} {} element {} of {}, which thread {} {}, with no barrier between", me,
                           writes ? "writes" : "reads", index, m.buffer->name, other, other_does),
               static_cast<int>(other));
    };
    if (writer >= phase && writer - phase != me) race(writer - phase, "writes");
    if (!writes) {
      const int64_t first = readers >= phase ? (readers - phase) / kThreads : me;
      if (first != me || readers < phase) readers = phase + first * kThreads + me;
      return;
    }
    if (readers >= phase) {
      const int64_t first = (readers - phase) / kThreads, last = (readers - phase) % kThreads;
      if (first != me || last != me) race(first != me ? first : last, "reads");
    }
    writer = phase + me;
  }

  const Program& program_;
  std::mt19937_64 random_;
  bool shuffled_ = false;
  RaceReport* report_;
  int most_threads_ = 1;
  std::vector<int64_t> dims_;
  std::vector<Memory> memory_;
  const Stage* stage_ = nullptr;
  int64_t first_moment_ = 0, moment_ = 0;
  int64_t first_phase_ = 0, phase_ = 0;  ///< a phase ends with a barrier; numbered through the whole run
  const Instruction* now_ = nullptr;
  std::vector<Thread> threads_;
  std::span<const int> active_;  ///< the threads that are where the run is
  Thread* thread_ = nullptr;     ///< the one at hand
  std::vector<Touch> touches_;
  std::unordered_map<const Instruction*, IndexCode> code_;
  std::vector<size_t> offsets_;
};

}  // namespace

std::vector<TensorData> interpret(const Program& program, std::span<const TensorData> slots,
                                  const DimMap& dims, uint64_t seed) {
  LUMINAL_CHECK(!program.native, "{} is native code, which has no loops to interpret", program.name);
  verify(program);
  return Machine(program, dims, seed).run(slots);
}

RaceReport check_races(const Program& program, std::span<const TensorData> slots, const DimMap& dims,
                       uint64_t seed) {
  LUMINAL_CHECK(!program.native, "{} is native code, which has no loops to interpret", program.name);
  verify_statements(program);
  RaceReport report;
  report.outputs = Machine(program, dims, seed, &report).run(slots);
  return report;
}

}  // namespace luminal::codegen
