#include "search/kernel_cache.h"

#include <fmt/format.h>

#include <atomic>
#include <unordered_set>

#include "base/environment.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/team.h"
#include "luminal/compile_report.h"

namespace luminal::search {

KernelCache& KernelCache::of_process() {
  static KernelCache cache;
  return cache;
}

codegen::Bucket restricted(const codegen::Bucket& bucket, const kernel::KernelSpec& spec) {
  codegen::Bucket own;
  for (const std::string& dim : spec.symbols())
    if (const auto facts = bucket.facts.find(dim); facts != bucket.facts.end()) own.facts.insert(*facts);
  return own;
}

std::string to_string(const codegen::Bucket& bucket) {
  std::string text;
  for (const auto& [dim, facts] : bucket.facts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", dim, facts.min);
    if (facts.max != facts.min) text += fmt::format("..{}", facts.max);
    if (facts.multiple_of != 1 && facts.max != facts.min) text += fmt::format(" /{}", facts.multiple_of);
  }
  return text;
}

std::string KernelCache::key(const backends::Backend& backend, const KernelRequest& request) {
  const codegen::Target& target = backend.target();
  return fmt::format("{} {} {} {} {} {} | {} {} | {} | {}", target.name, target.cpu, target.features,
                     target.vector_bytes, target.vector_registers, target.threads,
                     request.chosen.schedule->name, codegen::to_string(request.chosen.parameters),
                     to_string(restricted(request.bucket, request.spec)), request.spec.to_json());
}

namespace {

/// LUMINAL_DEBUG=4 tells every kernel's spec and loops, 7 its machine code too; LUMINAL_DUMP writes all of
/// them.
void tell(backends::Backend& backend, const KernelRequest& request, const codegen::Program& program) {
  const auto whole = [&] {
    return fmt::format("{} {}\n{}\n{}", request.chosen.schedule->name,
                       codegen::to_string(request.chosen.parameters), request.spec.to_string(),
                       program.to_string());
  };
  const int level = environment::debug_level();
  if (level >= 4) log_line(whole());
  if (level >= 7) log_line(backend.assembly(program));
  const std::string folder = environment::dump_folder();
  if (folder.empty()) return;
  const std::filesystem::path base =
      std::filesystem::path(folder) /
      fmt::format("{}_{:04x}_{:08x}", request.chosen.schedule->name, request.spec.hash() & 0xffff,
                  hash_bytes(codegen::to_string(request.chosen.parameters)) >> 32);
  std::filesystem::create_directories(folder);
  write_file_atomic(base.string() + ".txt", whole());
  write_file_atomic(base.string() + ".ll", backend.source(program));
  write_file_atomic(base.string() + ".s", backend.assembly(program));
}

}  // namespace

KernelResult KernelCache::make_one(backends::Backend& backend, Cache& disk, const KernelRequest& request) {
  KernelResult result;
  const codegen::Program program = request.chosen.schedule->lower(
      request.spec, request.chosen.parameters, restricted(request.bucket, request.spec), backend.target());
  codegen::verify(program);
  tell(backend, request, program);
  const codegen::Target& target = backend.target();
  // The text that is compiled too: a mended printer finds nothing made before it. The program says what the
  // text does not: sizes, tasks and workspace.
  const std::vector<std::string> parts{program.to_string(), backend.source(program), target.name, target.cpu,
                                       target.features};
  const CacheKey key = make_key(parts);
  result.code = key.low;
  if (const auto object = disk.find_object(key)) {
    try {
      result.kernel = backend.load(*object);
      result.loaded = true;
      return result;
    } catch (const FormatError& damage) {
      debug(1, "[cache] a compiled kernel is made anew: {}", damage.what());
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  result.kernel = backend.compile(program);
  result.compile_ms = 1e3 * seconds_since(begin);
  disk.store_object(key, result.kernel->binary());
  return result;
}

std::vector<KernelResult> KernelCache::make(backends::Backend& backend, Cache& disk,
                                            std::span<const KernelRequest> requests,
                                            std::chrono::steady_clock::time_point deadline) {
  std::vector<std::string> keys;
  for (const KernelRequest& request : requests) keys.push_back(key(backend, request));
  std::vector<size_t> work;
  {
    const std::scoped_lock lock(mutex_);
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i < keys.size(); ++i)
      if (!kernels_.contains(keys[i]) && seen.insert(keys[i]).second) work.push_back(i);
  }
  std::vector<KernelResult> made(work.size());
  std::atomic<size_t> next{0};
  Team& team = Team::shared();
  team.run(team.size(), [&](int) {
    for (size_t i = next++; i < work.size(); i = next++) {
      if (std::chrono::steady_clock::now() > deadline) {
        made[i].error = KernelReport::Rejected::kNotTimed;
        continue;
      }
      try {
        made[i] = make_one(backend, disk, requests[work[i]]);
      } catch (const std::exception& error) {
        made[i].error = error.what();
      }
    }
  });
  std::unordered_map<std::string_view, const KernelResult*> fresh;
  for (size_t i = 0; i < work.size(); ++i) fresh[keys[work[i]]] = &made[i];
  std::vector<KernelResult> results;
  const std::scoped_lock lock(mutex_);
  for (const std::string& each : keys) {
    if (const auto known = kernels_.find(each); known != kernels_.end()) {
      results.push_back(known->second);
      results.back().compile_ms = 0;
      results.back().loaded = false;
    } else {
      results.push_back(*fresh.at(each));
    }
  }
  for (size_t i = 0; i < work.size(); ++i)
    if (made[i].kernel) kernels_.try_emplace(keys[work[i]], std::move(made[i]));
  return results;
}

std::vector<std::shared_ptr<const backends::Kernel>> KernelCache::get(backends::Backend& backend,
                                                                      std::span<const KernelRequest> requests,
                                                                      int* compiled) {
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;
  if (compiled != nullptr) *compiled = 0;
  for (KernelResult& result : make(backend, Cache::of_process(), requests)) {
    const KernelRequest& request = requests[kernels.size()];
    LUMINAL_CHECK(result.kernel != nullptr, "{} {} does not make\n{}: {}", request.chosen.schedule->name,
                  codegen::to_string(request.chosen.parameters), request.spec.to_string(), result.error);
    if (compiled != nullptr && result.compile_ms > 0) ++*compiled;
    kernels.push_back(std::move(result.kernel));
  }
  return kernels;
}

size_t KernelCache::size() const {
  const std::scoped_lock lock(mutex_);
  return kernels_.size();
}

void KernelCache::clear() {
  const std::scoped_lock lock(mutex_);
  kernels_.clear();
}

}  // namespace luminal::search
