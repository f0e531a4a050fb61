#include "search/cache/kernel_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"
#include "support/child.h"
#include "support/environment.h"
#include "support/files.h"
#include "support/kernel_like.h"

// Compiled kernels on disk: whatever happens to the file or to those who write it, every kernel that is asked
// for is there and right.
namespace luminal::search {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

constexpr int64_t kElements = 40;

/// y = x * (number + 2) + number: another kernel for each number.
KernelRequest request_of(int number, const codegen::Target& target) {
  Graph cx;
  (cx.tensor({kElements}) * (number + 2) + number).retrieve();
  KernelRequest request;
  request.spec = encode(cx).tensors.back().spec;
  request.implementation = best_by_model(request.spec, {}, target);
  return request;
}

void expect_right(const KernelResult& made, int number) {
  ASSERT_TRUE(made.kernel) << made.error;
  std::vector<float> x(kElements), y(kElements, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  void* buffers[] = {x.data(), y.data()};
  const backends::HostKernel& kernel = backends::on_host(*made.kernel);
  std::vector<std::byte> local(static_cast<size_t>(kernel.local_bytes({})) + 64);
  std::vector<std::byte> shared(static_cast<size_t>(kernel.shared_bytes({})) + 64);
  for (int stage = 0; stage < kernel.stage_count(); ++stage)
    kernel.run(stage, {.buffers = buffers, .shared = shared.data(), .local = local.data()}, 0,
               kernel.tasks(stage, {}));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(y[i], x[i] * static_cast<float>(number + 2) + static_cast<float>(number)) << "element " << i;
}

/// As a process of its own would: nothing is in memory yet.
KernelResult make(backends::Device& backend, Cache& disk, int number) {
  KernelCache kernels;
  const KernelRequest request = request_of(number, backend.target());
  return std::move(kernels.make(backend, disk, {&request, 1})[0]);
}

/// The CPU, with what it keeps on disk or compiles changed.
class ChangedCpu : public backends::HostDevice {
 public:
  using Bytes = std::vector<std::byte>;
  std::function<void(Bytes&)> damage = [](Bytes&) {};
  std::string suffix;  ///< of the source, as if the code generator were another one

  const codegen::Target& target() const override { return cpu_->target(); }
  std::shared_ptr<const backends::Kernel> compile(const codegen::Program& program,
                                                  const std::string& source) override {
    ++compiled;
    return std::make_shared<Damaged>(cpu_->compile(program, source), *this);
  }
  std::shared_ptr<const backends::Kernel> load(std::span<const std::byte> bytes) override {
    return cpu_->load(bytes);
  }
  std::string source(const codegen::Program& p) override {
    ++sources;
    return cpu_->source(p) + suffix;
  }
  bool is_built_in() const override { return built_in; }
  std::string assembly(const codegen::Program& p) override { return cpu_->assembly(p); }
  int compiled = 0, sources = 0;
  bool built_in = false;

 private:
  class Damaged : public test::KernelLike {
   public:
    Damaged(std::shared_ptr<const Kernel> kernel, const ChangedCpu& owner)
        : KernelLike(std::move(kernel)), owner_(owner) {}
    Bytes binary() const override {
      Bytes bytes = KernelLike::binary();
      owner_.damage(bytes);
      return bytes;
    }

   private:
    const ChangedCpu& owner_;
  };
  std::shared_ptr<backends::Device> cpu_ = backends::make_cpu_device();
};

TEST(KernelCache, AnotherProcessLoadsWhatOneCompiled) {
  const TemporaryFolder folder;
  ChangedCpu cpu;
  {
    Cache disk(folder.path());
    const KernelResult made = make(cpu, disk, 1);
    EXPECT_FALSE(made.loaded);
    EXPECT_GT(made.compile_ms, 0);
    expect_right(made, 1);
  }
  Cache disk(folder.path());
  const KernelResult made = make(cpu, disk, 1);
  EXPECT_TRUE(made.loaded);
  EXPECT_EQ(made.compile_ms, 0);
  EXPECT_EQ(cpu.compiled, 1);
  expect_right(made, 1);
}

TEST(KernelCache, WhatAnotherCodeGeneratorMadeIsNotFound) {
  const TemporaryFolder folder;
  Cache disk(folder.path());
  ChangedCpu before, now;
  now.suffix = "; mended\n";
  const KernelResult old = make(before, disk, 1), fresh = make(now, disk, 1);
  EXPECT_FALSE(fresh.loaded);
  EXPECT_NE(old.code, fresh.code) << "remembered choices tell old code by this";
  expect_right(fresh, 1);
  EXPECT_TRUE(make(before, disk, 1).loaded) << "and the old one is still there";
}

/// The text of a kernel is a function of what is asked for and of the library's sources: it is made once.
TEST(KernelCache, WhatTheLibraryMakesIsFoundWithoutItsText) {
  const TemporaryFolder folder;
  Cache disk(folder.path());
  ChangedCpu cpu;
  cpu.built_in = true;
  const KernelResult first = make(cpu, disk, 1), second = make(cpu, disk, 1);
  EXPECT_FALSE(first.loaded);
  EXPECT_TRUE(second.loaded);
  EXPECT_EQ(cpu.sources, 1);
  EXPECT_EQ(second.code, first.code);
  expect_right(second, 1);
  expect_right(make(cpu, disk, 2), 2);
  EXPECT_EQ(cpu.sources, 2) << "another kernel";
  cpu.built_in = false;
  EXPECT_TRUE(make(cpu, disk, 1).loaded);
  EXPECT_EQ(cpu.sources, 3) << "nobody knows of what its text is a function";
}

TEST(KernelCache, FindsWithoutItsTextWhatWasCompiledBeforeOnesTextWasKnown) {
  const TemporaryFolder folder;
  Cache disk(folder.path());
  ChangedCpu cpu;
  const KernelResult made = make(cpu, disk, 1);
  cpu.built_in = true;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(make(cpu, disk, 1).loaded);
  EXPECT_EQ(make(cpu, disk, 1).code, made.code);
  EXPECT_EQ(cpu.sources, 2);
  EXPECT_EQ(cpu.compiled, 1);
}

TEST(KernelCache, MakesTheTextOfFamiliesThatAProgramAdds) {
  const TemporaryFolder folder;
  Cache disk(folder.path());
  ChangedCpu cpu;
  cpu.built_in = true;
  KernelRequest request = request_of(1, cpu.target());
  codegen::Schedule added = *request.implementation.schedule;
  request.implementation.schedule = &added;
  for (int i = 1; i <= 2; ++i) {
    KernelCache kernels;
    EXPECT_EQ(kernels.make(cpu, disk, {&request, 1})[0].loaded, i == 2);
    EXPECT_EQ(cpu.sources, i);
  }
}

/// LUMINAL_DUMP writes the text of every kernel, wherever it comes from.
TEST(KernelCache, MakesTheTextThatSomebodyWantsToSee) {
  const TemporaryFolder folder, dumps;
  Cache disk(folder.path());
  ChangedCpu cpu;
  cpu.built_in = true;
  static_cast<void>(make(cpu, disk, 1));
  {
    const test::EnvironmentVariable dump("LUMINAL_DUMP", dumps.path().string());
    EXPECT_TRUE(make(cpu, disk, 1).loaded);
  }
  EXPECT_EQ(cpu.sources, 2);
  EXPECT_FALSE(fs::is_empty(dumps.path()));
  EXPECT_TRUE(make(cpu, disk, 1).loaded);
  EXPECT_EQ(cpu.sources, 2);
}

TEST(KernelCache, ObjectsThatDoNotReadAreMadeAnew) {
  using Bytes = ChangedCpu::Bytes;
  const std::vector<std::pair<const char*, std::function<void(Bytes&)>>> damages = {
      {"empty", [](Bytes& b) { b = Bytes(); }},
      {"the header alone", [](Bytes& b) { b.resize(16); }},
      {"half", [](Bytes& b) { b.resize(b.size() / 2); }},
      {"without its last byte", [](Bytes& b) { b.pop_back(); }},
      {"a flipped bit", [](Bytes& b) { b[b.size() * 2 / 3] ^= std::byte{4}; }},
      {"of another version", [](Bytes& b) { b[4] = std::byte{99}; }},
      {"a length that lies", [](Bytes& b) { b[20] = b[21] = b[22] = std::byte{0xff}; }},
      {"text", [](Bytes& b) { std::ranges::fill(b, std::byte{'x'}); }},
  };
  for (const bool built_in : {false, true})
    for (const auto& [name, damage] : damages) {
      SCOPED_TRACE(fmt::format("{} {}", name, built_in));
      const TemporaryFolder folder;
      Cache disk(folder.path());
      ChangedCpu cpu;
      cpu.built_in = built_in;
      cpu.damage = damage;
      expect_right(make(cpu, disk, 3), 3);
      cpu.damage = [](Bytes&) {};
      const KernelResult again = make(cpu, disk, 3);
      EXPECT_FALSE(again.loaded);
      expect_right(again, 3);
      EXPECT_TRUE(make(cpu, disk, 3).loaded) << "the good one took the place of the damaged one";
    }
}

/// Runs one statement on the file of a cache that nobody has open.
void run_sql(const fs::path& folder, const char* text) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "tuning.db").c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

TEST(KernelCache, RowsThatAreNotWhatWasWrittenAreMadeAnew) {
  for (const bool built_in : {false, true})
    for (const char* damage :
         {"UPDATE objects SET bytes = substr(bytes, 1, 100)",
          "UPDATE objects SET bytes = zeroblob(length(bytes))", "UPDATE objects SET bytes = 'text'",
          "UPDATE objects SET check_sum = 0", "DROP TABLE objects",
          "CREATE TABLE o AS SELECT * FROM objects; UPDATE objects SET bytes = "
          "(SELECT bytes FROM o WHERE o.low <> objects.low)"}) {
      SCOPED_TRACE(fmt::format("{} {}", damage, built_in));
      const TemporaryFolder folder;
      ChangedCpu cpu;
      cpu.built_in = built_in;
      {
        Cache disk(folder.path());
        expect_right(make(cpu, disk, 4), 4);
        expect_right(make(cpu, disk, 5), 5);
      }
      run_sql(folder.path(), damage);
      Cache disk(folder.path());
      for (const int number : {4, 5}) {
        const KernelResult made = make(cpu, disk, number);
        EXPECT_FALSE(made.loaded);
        expect_right(made, number);
      }
    }
}

TEST(KernelCache, DropsWhatNobodyHoldsBeyondItsLimit) {
  const auto cpu = backends::make_cpu_device();
  const TemporaryFolder folder;
  Cache disk(folder.path());
  KernelCache kernels(3);
  const auto get = [&](int number) {
    const KernelRequest request = request_of(number, cpu->target());
    return std::move(kernels.make(*cpu, disk, {&request, 1})[0]);
  };
  const KernelResult held = get(0);
  for (int number = 1; number < 8; ++number) {
    expect_right(get(number), number);
    EXPECT_LE(kernels.size(), 3U);
  }
  EXPECT_EQ(get(0).kernel, held.kernel) << "a kernel that is held is the one that is handed out";
  expect_right(get(1), 1);
}

// --- Other processes: this program runs itself with one of the tests below.

class Child {
 public:
  Child(const std::string& test, const fs::path& folder,
        const std::map<std::string, std::string>& more = {}) {
    std::map<std::string, std::string> variables = more;
    variables.emplace("LUMINAL_TEST_FOLDER", folder.string());
    pid_ = luminal::test::start_child("KernelCacheChild.DISABLED_" + test, variables);
  }
  /// How it ended.
  [[nodiscard]] int wait() const { return luminal::test::wait_for_child(pid_); }
  void kill() const { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_ = 0;
};

fs::path childs_folder() {
  const char* folder = std::getenv("LUMINAL_TEST_FOLDER");
  return folder != nullptr ? folder : "";
}

constexpr int kMany = 12;

void make_many(const fs::path& folder, int count) {
  Cache disk(folder);
  const auto cpu = backends::make_cpu_device();
  for (int number = 0; number < count; ++number) expect_right(make(*cpu, disk, number), number);
}

TEST(KernelCacheChild, DISABLED_MakesMany) { make_many(childs_folder(), kMany); }
TEST(KernelCacheChild, DISABLED_MakesUntilKilled) { make_many(childs_folder(), 1'000'000); }

/// Writes past the limit fail, as on a full disk.
TEST(KernelCacheChild, DISABLED_MakesManyOnAFullDisk) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{60'000, 60'000};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  Cache disk(childs_folder());
  const auto cpu = backends::make_cpu_device();
  for (int number = 0; number < 2 * kMany; ++number) expect_right(make(*cpu, disk, number), number);
  EXPECT_NE(disk.trouble(), "") << "the limit is never reached: raise the number of kernels";
}

/// Somebody without the rights of the superuser, until the end of the scope. (A process that changes who it
/// is can no longer be looked into, which the leak sanitizer does at its end: it is allowed again.)
class Nobody {
 public:
  Nobody() : was_root_(::geteuid() == 0) {
    if (!was_root_) return;
    EXPECT_EQ(::setegid(65534), 0);
    EXPECT_EQ(::seteuid(65534), 0);
  }
  ~Nobody() {
    if (!was_root_) return;
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    EXPECT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  bool was_root_;
};

/// As somebody who may read the folder and not write it.
TEST(KernelCacheChild, DISABLED_MakesManyWithoutRights) {
  const Nobody nobody;
  const int file = ::open((childs_folder() / "probe").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_LT(file, 0) << "the folder can be written";
  make_many(childs_folder(), kMany);
}

/// All kernels are there and right; how many had to be compiled.
int compiled_of(const fs::path& folder, int count) {
  Cache disk(folder);
  EXPECT_EQ(disk.trouble(), "");
  ChangedCpu cpu;
  for (int number = 0; number < count; ++number) expect_right(make(cpu, disk, number), number);
  return cpu.compiled;
}

TEST(KernelCache, TwoProcessesThatWriteTheSameAtOnceLoseNothing) {
  const TemporaryFolder folder;
  const Child first("MakesMany", folder.path()), second("MakesMany", folder.path());
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(compiled_of(folder.path(), kMany), 0);
}

TEST(KernelCache, AProcessThatIsKilledLeavesWholeKernels) {
  for (int round = 0; round < 4; ++round) {
    const TemporaryFolder folder;
    const Child child("MakesUntilKilled", folder.path());
    constexpr int64_t kThree = 6;  // of each kernel the object, and after it under which key it is
    int64_t there = 0;
    for (int i = 0; i < 2000 && there < kThree; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (!fs::exists(folder.path() / "tuning.db")) continue;
      Cache disk(folder.path());
      there = disk.statistics().objects;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    child.kill();
    EXPECT_TRUE(WIFSIGNALED(child.wait()));
    ASSERT_GE(there, kThree);
    EXPECT_LE(compiled_of(folder.path(), kMany), kMany - 3);
  }
}

TEST(KernelCache, AFullDiskStopsNoKernel) {
  const TemporaryFolder folder;
  EXPECT_EQ(Child("MakesManyOnAFullDisk", folder.path()).wait(), 0);
  EXPECT_LE(compiled_of(folder.path(), kMany), kMany);
}

TEST(KernelCache, AFolderThatCannotBeWrittenStopsNoKernel) {
  for (const bool filled : {false, true}) {
    const TemporaryFolder folder;
    const fs::path below = folder.path() / "cache";
    fs::create_directory(below);
    ::chmod(folder.path().c_str(), 0755);
    if (filled) {
      EXPECT_EQ(compiled_of(below, 3), 3);
    }
    ::chmod(below.c_str(), 0555);
    for (const auto& entry : fs::directory_iterator(below)) ::chmod(entry.path().c_str(), 0444);
    EXPECT_EQ(Child("MakesManyWithoutRights", below).wait(), 0) << (filled ? "a cache of others" : "empty");
    ::chmod(below.c_str(), 0755);
  }
}

}  // namespace
}  // namespace luminal::search
