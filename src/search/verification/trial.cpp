#include "search/verification/trial.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <optional>
#include <ranges>
#include <utility>

#include "backends/host/device.h"
#include "base/fail.h"
#include "base/team.h"
#include "search/verification/contain.h"

namespace luminal::search {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

constexpr int64_t kWorkspaceAlignment = 64;

}  // namespace

std::vector<TaskRange> ranges_of(int64_t tasks, const std::optional<TaskPart>& part) {
  if (!part) return {{0, tasks}};
  const int64_t length = std::max(part->at_least, tasks / part->one_in);
  if (3 * length >= tasks) return {{0, tasks}};
  const auto free = static_cast<double>(tasks - 3 * length);
  const int64_t middle = length + static_cast<int64_t>(std::clamp(part->middle, 0.0, 1.0) * free);
  return {{0, length}, {middle, middle + length}, {tasks - length, tasks}};
}

namespace {

/// Memory that nobody may write for a while: its pages are read-only, and the ends that share a page with something else
/// are looked at.
class ReadOnly {
 public:
  explicit ReadOnly(std::span<const std::byte> memory) : memory_(memory) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(memory.data()), end = begin + memory.size();
    first_ = (begin + page - 1) / page * page, last_ = std::max(first_, end / page * page);
    before_ = edges();
    protect(PROT_READ);
  }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  ~ReadOnly() { protect(PROT_READ | PROT_WRITE); }

  [[nodiscard]] bool is_untouched() const { return edges() == before_; }

 private:
  void protect(int how) const {
    if (last_ > first_) ::mprotect(reinterpret_cast<void*>(first_), last_ - first_, how);
  }
  /// What lies before the whole pages, and behind them.
  [[nodiscard]] std::vector<std::byte> edges() const {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
    const size_t head = std::min(memory_.size(), static_cast<size_t>(first_ - begin));
    const size_t tail = last_ > first_ ? begin + memory_.size() - last_ : memory_.size() - head;
    std::vector<std::byte> bytes(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(head));
    bytes.insert(bytes.end(), memory_.end() - static_cast<ptrdiff_t>(tail), memory_.end());
    return bytes;
  }

  std::span<const std::byte> memory_;
  uintptr_t first_ = 0, last_ = 0;  ///< whole pages
  std::vector<std::byte> before_;
};

/// In guarded memory of the host.
class HostRig : public Rig {
 public:
  HostRig(const backends::HostKernel& kernel, std::span<const TensorData* const> inputs,
          std::span<const TrialOutput> outputs, const DimMap& dims, const TrialOptions& options);
  void give(std::span<const TensorData* const> inputs) override;
  void overwrite(std::byte pattern) override;
  void launch(Split split, const std::optional<TaskPart>& part) override;
  [[nodiscard]] std::string trouble() const override;
  [[nodiscard]] std::span<const std::byte> output(size_t number) const override;

 private:
  [[nodiscard]] GuardedMemory workspace(int64_t bytes) const;
  /// The buffer of an input or output, made when it is first asked for.
  GuardedMemory& own(size_t k, Dtype dtype, int64_t bytes);
  void run_range(int stage, size_t thread, int64_t begin, int64_t end) const;
  void run_singly(int stage, std::span<const TaskRange> ranges);
  void run_unevenly(int stage, const TaskRange& range) const;
  void run_on_threads(int stage, const TaskRange& range) const;

  const backends::HostKernel& kernel_;
  TrialOptions options_;
  std::vector<int64_t> sizes_;
  std::vector<const TensorData*> given_;
  std::vector<int64_t> output_bytes_;
  std::vector<std::shared_ptr<const GuardedView>> views_;  ///< of large inputs
  std::vector<size_t> outside_;                            ///< inputs that are read where they lie
  std::vector<std::optional<GuardedMemory>> buffers_;      ///< of outputs, and copies of the other inputs
  std::vector<void*> pointers_;
  std::vector<GuardedMemory> shared_, locals_;  ///< the launch's, and what it prepares; one for each thread
  std::string conflict_;                        ///< between tasks of a stage
  bool has_written_outside_ = false;            ///< to an input that is read where it lies
};

HostRig::HostRig(const backends::HostKernel& kernel, std::span<const TensorData* const> inputs,
                 std::span<const TrialOutput> outputs, const DimMap& dims, const TrialOptions& options)
    : kernel_(kernel), options_(options), sizes_(backends::sizes_of(kernel, dims)) {
  views_.resize(inputs.size());
  buffers_.resize(inputs.size() + outputs.size());
  pointers_.resize(buffers_.size());
  give(inputs);
  for (const TrialOutput& output : outputs) {
    const size_t k = given_.size() + output_bytes_.size();
    output_bytes_.push_back(size_bytes(output.dtype, output.elements));
    pointers_[k] = own(k, output.dtype, output_bytes_.back()).bytes().data();
  }
  if (options.in_place >= 0) pointers_[inputs.size()] = pointers_[static_cast<size_t>(options.in_place)];
  for (const int64_t bytes : {kernel.shared_bytes(sizes_), kernel.prepared_bytes(sizes_)})
    shared_.push_back(workspace(bytes));
  for (int thread = 0; thread < options.threads; ++thread)
    locals_.push_back(workspace(kernel_.local_bytes(sizes_)));
  overwrite(options.pattern);
}

GuardedMemory HostRig::workspace(int64_t bytes) const {
  if (bytes == 0) return {};
  return {round_up(bytes, kWorkspaceAlignment), kWorkspaceAlignment, GuardedMemory::Place::AtEnd};
}

GuardedMemory& HostRig::own(size_t k, Dtype dtype, int64_t bytes) {
  const int64_t least = is_quantized(dtype) ? 1 : element_bytes(dtype);
  if (!buffers_[k]) buffers_[k].emplace(bytes, std::max(options_.alignment, least), options_.place);
  return *buffers_[k];
}

void HostRig::give(std::span<const TensorData* const> inputs) {
  constexpr size_t kLarge = size_t{1} << 18;
  given_.assign(inputs.begin(), inputs.end());
  outside_.clear();
  for (size_t k = 0; k < inputs.size(); ++k) {
    const TensorData& input = *inputs[k];
    const bool may_lie_there = options_.place != GuardedMemory::Place::NextToStart;  // at the start of a page
    const bool is_large =
        input.bytes.size() >= kLarge && static_cast<int>(k) != options_.in_place && may_lie_there;
    views_[k] = is_large ? GuardedView::of(input.bytes) : nullptr;
    if (views_[k]) {
      pointers_[k] = const_cast<std::byte*>(views_[k]->data());  // a kernel that writes there dies
    } else if (is_large && options_.reads_large_where_they_lie) {
      outside_.push_back(k);
      pointers_[k] = const_cast<std::byte*>(input.bytes.data());
    } else {
      GuardedMemory& copy = own(k, input.dtype, static_cast<int64_t>(input.bytes.size()));
      copy.fill_around(options_.pattern);
      pointers_[k] = copy.bytes().data();
      if (!input.bytes.empty()) std::memcpy(pointers_[k], input.bytes.data(), input.bytes.size());
    }
  }
}

void HostRig::overwrite(std::byte pattern) {
  for (size_t k = given_.size(); k < buffers_.size(); ++k) buffers_[k]->fill(pattern);
  for (std::vector<GuardedMemory>* list : {&shared_, &locals_})
    for (GuardedMemory& memory : *list) memory.fill(pattern);
}

/// What a kernel reads of a register before it writes there is NaN, where the processor has AVX-512.
void dirty_registers() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_wide = __builtin_cpu_supports("avx512f") != 0;
  if (!has_wide) return;
  // Those above 15 are no registers of this program, which is built for any processor.
  __asm__ volatile(
      "vpternlogd $0xff, %%zmm16, %%zmm16, %%zmm16\n\tvmovdqa64 %%zmm16, %%zmm17\n\t"
      "vmovdqa64 %%zmm16, %%zmm18\n\tvmovdqa64 %%zmm16, %%zmm19\n\tvmovdqa64 %%zmm16, %%zmm20\n\t"
      "vmovdqa64 %%zmm16, %%zmm21\n\tvmovdqa64 %%zmm16, %%zmm22\n\tvmovdqa64 %%zmm16, %%zmm23\n\t"
      "vmovdqa64 %%zmm16, %%zmm24\n\tvmovdqa64 %%zmm16, %%zmm25\n\tvmovdqa64 %%zmm16, %%zmm26\n\t"
      "vmovdqa64 %%zmm16, %%zmm27\n\tvmovdqa64 %%zmm16, %%zmm28\n\tvmovdqa64 %%zmm16, %%zmm29\n\t"
      "vmovdqa64 %%zmm16, %%zmm30\n\tvmovdqa64 %%zmm16, %%zmm31\n\t"
      "kxnorw %%k0, %%k0, %%k1\n\tkmovw %%k1, %%k2\n\tkmovw %%k1, %%k3\n\tkmovw %%k1, %%k4\n\t"
      "kmovw %%k1, %%k5\n\tkmovw %%k1, %%k6\n\tkmovw %%k1, %%k7" ::
          : "memory");
#endif
}

void HostRig::run_range(int stage, size_t thread, int64_t begin, int64_t end) const {
  if (begin == end) return;
  const backends::LaunchArguments arguments{.buffers = pointers_.data(),
                                            .dims = sizes_.data(),
                                            .shared = shared_[0].bytes().data(),
                                            .local = locals_[thread].bytes().data(),
                                            .prepared = shared_[1].bytes().data()};
  dirty_registers();
  kernel_.run(stage, arguments, begin, end);
}

/// Who changed which byte of some memory, one task after the other.
class Writers {
 public:
  explicit Writers(std::span<const std::byte> memory)
      : memory_(memory), before_(memory.begin(), memory.end()), writers_(memory.size(), kNobody) {}

  /// What changed since the last call is the task's. The other task that had changed one of these bytes, if
  /// any.
  std::optional<std::pair<int64_t, size_t>> note(int64_t task) {
    constexpr size_t kBlock = 4096, kLine = 64;
    std::optional<std::pair<int64_t, size_t>> conflict;
    for_each_change(0, memory_.size(), kBlock, [&](size_t block, size_t block_end) {
      for_each_change(block, block_end, kLine, [&](size_t line, size_t line_end) {
        for (size_t i = line; i < line_end; ++i) {
          if (memory_[i] == before_[i]) continue;
          if (!conflict && writers_[i] != kNobody) conflict = {writers_[i], i};
          writers_[i] = static_cast<int32_t>(task);
          before_[i] = memory_[i];
        }
      });
    });
    return conflict;
  }

 private:
  /// Of the stretches of so many bytes those that hold something else than before.
  template <class Look>
  void for_each_change(size_t begin, size_t end, size_t step, const Look& look) const {
    for (size_t at = begin; at < end; at += step) {
      const size_t next = std::min(at + step, end);
      if (std::memcmp(&memory_[at], &before_[at], next - at) != 0) look(at, next);
    }
  }

  static constexpr int32_t kNobody = -1;
  std::span<const std::byte> memory_;
  std::vector<std::byte> before_;
  std::vector<int32_t> writers_;
};

void HostRig::run_singly(int stage, std::span<const TaskRange> ranges) {
  constexpr int64_t kMostCompared = int64_t{1} << 26;
  constexpr size_t kMostOfEach = size_t{1} << 19;
  std::vector<std::span<const std::byte>> written{shared_[0].bytes(), shared_[1].bytes()};
  for (size_t output = 0; output < output_bytes_.size(); ++output) written.push_back(this->output(output));
  int64_t bytes = 0;
  std::vector<size_t> offsets;
  for (auto& memory : written) {
    offsets.push_back(memory.size() - std::min(memory.size(), kMostOfEach));
    memory = memory.last(std::min(memory.size(), kMostOfEach));  // where the last tasks write
    bytes += static_cast<int64_t>(memory.size());
  }
  int64_t tasks = 0;
  for (const TaskRange& range : ranges) tasks += range.end - range.begin;
  int64_t watched = std::min(tasks, kMostCompared / std::max<int64_t>(bytes, 1));
  std::vector<Writers> writers;
  if (watched > 1)
    for (const auto& memory : written) writers.emplace_back(memory);
  for (const TaskRange& range : std::views::reverse(ranges))
    for (int64_t task = range.end; task-- > range.begin;) {
      run_range(stage, 0, task, task + 1);
      if (watched-- <= 0) continue;
      for (size_t i = 0; i < writers.size(); ++i)
        if (const auto conflict = writers[i].note(task); conflict && conflict_.empty())
          conflict_ = fmt::format(
              "tasks {} and {} of stage {} both write byte {} of {}", conflict->first, task, stage,
              offsets[i] + conflict->second,
              i < shared_.size() ? "the shared workspace" : fmt::format("output {}", i - shared_.size()));
    }
}

/// Calls of 1, 2, 3, 5, 8 ... tasks: a program deals out quarters of what a thread has left, of any length.
void HostRig::run_unevenly(int stage, const TaskRange& range) const {
  int64_t length = 1, next = 2;
  for (int64_t begin = range.begin; begin < range.end;) {
    const int64_t end = std::min(begin + length, range.end);
    run_range(stage, 0, begin, end);
    begin = end;
    length = std::exchange(next, length + next);
  }
}

/// How long threads that are to begin at once wait for each other. Where they did not all come for some launches, because
/// processors are busy with other checks, few launches wait at all.
class Patience {
 public:
  static Patience& of_thread() {
    thread_local Patience patience;
    return patience;
  }
  [[nodiscard]] int64_t next_ns() {
    constexpr int kEnoughMisses = 4, kWaitsOneIn = 8;
    return misses_ < kEnoughMisses || misses_ % kWaitsOneIn == 0 ? kPatienceNs : 0;
  }
  void note(bool have_all_come) { misses_ = have_all_come ? 0 : misses_ + 1; }

 private:
  static constexpr int64_t kPatienceNs = 300'000;  // waking one takes about 50'000
  int misses_ = 0;                                 ///< one after the other
};

/// As many equal parts as there are threads, which begin when all threads are there, or after a while. The last tasks
/// come first, also where one thread does everything: what a task writes behind its own elements, where a later one
/// would otherwise put it right, stays.
void HostRig::run_on_threads(int stage, const TaskRange& range) const {
  constexpr int64_t kCalls = 4;  // for each part
  const int count = options_.threads;
  const int64_t tasks = range.end - range.begin;
  Patience& patience = Patience::of_thread();
  const int64_t patience_ns = patience.next_ns();
  std::atomic<int> arrived{0}, next{0};
  Team::shared().run(count, [&](int worker) {
    ++arrived;
    const bool have_come = spin_until(patience_ns, [&] { return arrived == count; });
    if (worker == 0) patience.note(have_come);
    for (int taken = next++; taken < count; taken = next++)
      for (int64_t call = (count - taken) * kCalls, last = call - kCalls; call > last; --call)
        run_range(stage, static_cast<size_t>(worker), range.begin + tasks * (call - 1) / (count * kCalls),
                  range.begin + tasks * call / (count * kCalls));
  });
}

void HostRig::launch(Split split, const std::optional<TaskPart>& part) {
  std::list<ReadOnly> outside;
  for (const size_t k : outside_) outside.emplace_back(given_[k]->bytes);
  GuardedMemory::close_returned();
  for (int stage = 0; stage < kernel_.stage_count(); ++stage) {
    const bool is_last = stage + 1 == kernel_.stage_count();  // the others make what all of its tasks read
    const bool in_part = part && (is_last || part->of_first_stage);
    const std::vector<TaskRange> ranges =
        ranges_of(kernel_.tasks(stage, sizes_), in_part ? part : std::nullopt);
    if (split == Split::Singles) {
      run_singly(stage, ranges);
      continue;
    }
    for (const TaskRange& range : ranges) {
      if (split == Split::Whole) run_range(stage, 0, range.begin, range.end);
      if (split == Split::Uneven) run_unevenly(stage, range);
      if (split == Split::Threads) run_on_threads(stage, range);
    }
    if (part && part->of_first_stage) break;
  }
  has_written_outside_ |=
      std::ranges::any_of(outside, [](const ReadOnly& input) { return !input.is_untouched(); });
}

std::string HostRig::trouble() const {
  if (!conflict_.empty()) return conflict_;
  if (has_written_outside_) return "wrote to one of its inputs";
  const auto name = [&](size_t k) {
    return k < given_.size() ? fmt::format("input {}", k) : fmt::format("output {}", k - given_.size());
  };
  for (size_t k = 0; k < buffers_.size(); ++k) {
    if (!buffers_[k]) continue;
    const std::span<const std::byte> bytes = buffers_[k]->bytes();
    if (const int64_t stray = buffers_[k]->stray_writes(); stray != 0)
      return fmt::format("wrote {} bytes outside {}", stray, name(k));
    if (k < given_.size() && static_cast<int>(k) != options_.in_place && pointers_[k] == bytes.data() &&
        !bytes.empty() && std::memcmp(bytes.data(), given_[k]->bytes.data(), bytes.size()) != 0)
      return fmt::format("wrote to its {}", name(k));
  }
  for (const GuardedMemory& memory : shared_)
    if (memory.stray_writes() != 0) return "wrote outside its shared workspace";
  for (const GuardedMemory& memory : locals_)
    if (memory.stray_writes() != 0) return "wrote outside its local workspace";
  return "";
}

std::span<const std::byte> HostRig::output(size_t number) const {
  return {static_cast<const std::byte*>(pointers_[given_.size() + number]),
          static_cast<size_t>(output_bytes_[number])};
}

/// In memory of a device that the host does not share: each buffer with a margin of known bytes on both
/// sides.
class DeviceRig : public Rig {
 public:
  DeviceRig(backends::Device& device, const backends::Kernel& kernel,
            std::span<const TensorData* const> inputs, std::span<const TrialOutput> outputs,
            const DimMap& dims, const TrialOptions& options)
      : options_(options), stream_(device.make_stream()) {
    const std::vector<int64_t> sizes = backends::sizes_of(kernel, dims);
    for (const TensorData* input : inputs) add(device, static_cast<int64_t>(input->bytes.size()));
    for (const TrialOutput& output : outputs) add(device, size_bytes(output.dtype, output.elements));
    list_ = device.prepare(
        {{.kernel = &kernel, .dims = sizes, .buffers = static_cast<int>(buffers_.size()), .after = {}}});
    for (size_t k = 0; k < buffers_.size(); ++k) {
      const bool over_input = options.in_place >= 0 && k == inputs.size();
      const size_t place = over_input ? static_cast<size_t>(options.in_place) : k;
      list_->bind(0, static_cast<int>(k), data_of(place));
      places_.push_back(place);
    }
    add(device, kernel.shared_bytes(sizes));
    list_->bind_shared(0, data_of(buffers_.size() - 1));
    if (const int64_t bytes = kernel.prepared_bytes(sizes); bytes > 0) {
      add(device, bytes);
      list_->bind_prepared(0, data_of(buffers_.size() - 1));
    }
    add(device, list_->scratch_bytes());
    list_->bind_scratch(data_of(buffers_.size() - 1));
    give(inputs);
    overwrite(options.pattern);
  }

  void give(std::span<const TensorData* const> inputs) override {
    given_.assign(inputs.begin(), inputs.end());
    for (size_t k = 0; k < inputs.size(); ++k) {
      fill(k, options_.pattern);
      stream_->upload(inputs[k]->bytes.data(), data_of(k), buffers_[k].bytes);
    }
    stream_->synchronise();
  }
  void overwrite(std::byte pattern) override {
    for (size_t k = given_.size(); k < buffers_.size(); ++k) fill(k, pattern);
    stream_->synchronise();
  }
  void launch(Split, const std::optional<TaskPart>&) override {
    stream_->launch(*list_, 0, 1);
    for (Margined& buffer : buffers_) {
      buffer.seen.resize(static_cast<size_t>(buffer.bytes + 2 * kMargin));
      stream_->download(buffer.memory.address(), buffer.seen.data(), buffer.bytes + 2 * kMargin);
    }
    stream_->synchronise();
  }
  [[nodiscard]] std::string trouble() const override {
    for (size_t k = 0; k < buffers_.size(); ++k) {
      const Margined& buffer = buffers_[k];
      const auto changed = [&](std::byte b) { return b != buffer.pattern; };
      const int64_t stray = std::count_if(buffer.seen.begin(), buffer.seen.begin() + kMargin, changed) +
                            std::count_if(buffer.seen.end() - kMargin, buffer.seen.end(), changed);
      if (stray != 0) return fmt::format("wrote {} bytes outside {}", stray, name_of(k));
      if (k < given_.size() && static_cast<int>(k) != options_.in_place &&
          !std::ranges::equal(inside(k), given_[k]->bytes))
        return fmt::format("wrote to its {}", name_of(k));
    }
    return "";
  }
  [[nodiscard]] std::span<const std::byte> output(size_t number) const override {
    return inside(places_[given_.size() + number]);
  }

 private:
  static constexpr int64_t kMargin = 4096;
  struct Margined {
    backends::Buffer memory;
    int64_t bytes = 0;
    std::byte pattern{};
    std::vector<std::byte> seen;  ///< after the last launch
  };
  void add(backends::Device& device, int64_t bytes) {
    buffers_.push_back({.memory = backends::Buffer(device, bytes + 2 * kMargin), .bytes = bytes, .seen = {}});
  }
  void fill(size_t k, std::byte pattern) {
    buffers_[k].pattern = pattern;
    stream_->fill(buffers_[k].memory.address(), pattern, buffers_[k].bytes + 2 * kMargin);
  }
  [[nodiscard]] backends::Address data_of(size_t k) const { return buffers_[k].memory.address() + kMargin; }
  [[nodiscard]] std::span<const std::byte> inside(size_t k) const {
    return std::span(buffers_[k].seen).subspan(kMargin, static_cast<size_t>(buffers_[k].bytes));
  }
  [[nodiscard]] std::string name_of(size_t k) const {
    if (k < given_.size()) return fmt::format("input {}", k);
    return k < places_.size() ? fmt::format("output {}", k - given_.size()) : "its workspace";
  }

  TrialOptions options_;
  std::vector<const TensorData*> given_;
  std::vector<Margined> buffers_;  ///< inputs, outputs, workspaces
  std::vector<size_t> places_;     ///< by buffer of the kernel: the one whose memory it has
  std::unique_ptr<backends::LaunchList> list_;
  std::unique_ptr<backends::Stream> stream_;
};

}  // namespace

bool leaves_tasks_out(const backends::Kernel& kernel, const DimMap& dims, const TaskPart& part) {
  if (kernel.device() != nullptr) return false;
  const backends::HostKernel& host = backends::on_host(kernel);
  return ranges_of(host.tasks(host.stage_count() - 1, backends::sizes_of(kernel, dims)), part).size() > 1;
}

std::unique_ptr<Rig> make_rig(const backends::Kernel& kernel, std::span<const TensorData* const> inputs,
                              std::span<const TrialOutput> outputs, const DimMap& dims,
                              const TrialOptions& options) {
  if (backends::Device* device = kernel.device())
    return std::make_unique<DeviceRig>(*device, kernel, inputs, outputs, dims, options);
  return std::make_unique<HostRig>(backends::on_host(kernel), inputs, outputs, dims, options);
}

TrialResult run_trial(const backends::Kernel& kernel, std::span<const TensorData* const> inputs,
                      std::span<const TrialOutput> outputs, const DimMap& dims, const TrialOptions& options,
                      Split split, std::chrono::milliseconds timeout) {
  constexpr size_t kText = 1000;
  std::vector<SharedBytes> results;
  for (const TrialOutput& output : outputs) results.emplace_back(size_bytes(output.dtype, output.elements));
  const SharedBytes text(kText);
  TrialResult result;
  result.trouble = run_contained(
      [&](Progress&) {
        const std::unique_ptr<Rig> rig = make_rig(kernel, inputs, outputs, dims, options);
        rig->launch(split);
        rig->trouble().copy(reinterpret_cast<char*>(text.bytes().data()), kText - 1);
        for (size_t k = 0; k < outputs.size(); ++k)
          std::ranges::copy(rig->output(k), results[k].bytes().data());
      },
      timeout, containment_of(kernel));
  if (result.trouble.empty()) result.trouble = reinterpret_cast<const char*>(text.bytes().data());
  if (!result.trouble.empty()) return result;
  for (size_t k = 0; k < outputs.size(); ++k) {
    TensorData data(outputs[k].dtype, {outputs[k].elements});
    std::ranges::copy(results[k].bytes(), data.bytes.begin());
    result.outputs.push_back(std::move(data));
  }
  return result;
}

}  // namespace luminal::search
