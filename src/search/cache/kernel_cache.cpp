#include "search/cache/kernel_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/cancel.h"
#include "base/dump.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/stopwatch.h"
#include "base/team.h"
#include "luminal/compile_report.h"
#include "search/program_key.h"
#include "search/watch.h"

namespace luminal::search {

KernelCache& KernelCache::of_process() {
  static KernelCache cache;
  return cache;
}

std::string KernelCache::key(const backends::Device& backend, const KernelRequest& request) {
  return fmt::format("{} | {} {} | {} | {}", key_text(backend.target()),
                     request.implementation.schedule->name,
                     codegen::to_string(request.implementation.parameters),
                     to_string(restricted(request.bucket, request.spec)), request.spec.to_json());
}

namespace {

/// Whether somebody wants to see what kernels are made of.
bool is_shown() { return environment::debug_level() >= 4 || is_dumping(); }

/// LUMINAL_DEBUG=4 tells every kernel's spec, loops and source, 7 its machine code too; LUMINAL_DUMP writes
/// all of them.
void log_program(backends::Device& backend, const KernelRequest& request, const codegen::Program& program,
                 const std::string& source) {
  const auto whole = [&] {
    return fmt::format("{} {}\n{}\n{}", request.implementation.schedule->name,
                       codegen::to_string(request.implementation.parameters), request.spec.to_string(),
                       program.to_string());
  };
  const int level = environment::debug_level();
  if (level >= 4) log_line(fmt::format("{}\n{}", whole(), source));
  if (level >= 7) log_line(backend.assembly(program));
  if (!is_dumping()) return;
  const std::string name =
      fmt::format("{}_{:04x}_{:08x}", request.implementation.schedule->name, request.spec.hash() & 0xffff,
                  hash_bytes(codegen::to_string(request.implementation.parameters)) >> 32);
  dump_file(name + ".txt", whole());
  dump_file(name + ".ll", source);
  dump_file(name + ".s", backend.assembly(program));
}

/// Where the key of a request's object is kept. Nothing where it depends on other code than the library's, or the text is
/// shown.
std::optional<CacheKey> place_of_object_key(const backends::Device& backend, const KernelRequest& request,
                                            const std::string& text) {
  const auto& families = codegen::built_in_schedules();
  const bool is_own = std::ranges::find(families, request.implementation.schedule) != families.end();
  if (is_shown() || !backend.is_built_in() || !is_own) return std::nullopt;
  const std::vector<std::string> parts{"key of an object", std::string(source_version()), text,
                                       key_text_of_caches(backend.target())};
  return make_key(parts);
}

std::optional<CacheKey> find_object_key(Cache& disk, const CacheKey& place) {
  const auto bytes = disk.find_object(place);
  CacheKey key;
  if (!bytes || bytes->size() != sizeof(key)) return std::nullopt;
  std::memcpy(&key, bytes->data(), sizeof(key));
  return key;
}

/// A kernel that was compiled before; nothing if none is there that loads.
std::optional<KernelResult> load_stored(backends::Device& backend, Cache& disk, const CacheKey& key) {
  const auto object = disk.find_object(key);
  if (!object) return std::nullopt;
  try {
    return KernelResult{.kernel = backend.load(*object), .error = "", .code = key.low, .loaded = true};
  } catch (const std::exception& damage) {
    debug(1, "[cache] a stored kernel does not load and is compiled again: {}", damage.what());
    return std::nullopt;
  }
}

}  // namespace

KernelResult KernelCache::make_one(backends::Device& backend, Cache& disk, const KernelRequest& request,
                                   const std::string& key) {
  const std::optional<CacheKey> place = place_of_object_key(backend, request, key);
  const std::optional<CacheKey> known = place ? find_object_key(disk, *place) : std::nullopt;
  if (known)
    if (auto stored = load_stored(backend, disk, *known)) return std::move(*stored);
  const codegen::Program program =
      request.implementation.schedule->lower(request.spec, request.implementation.parameters,
                                             restricted(request.bucket, request.spec), backend.target());
  codegen::verify(program);
  const std::string source = backend.source(program);
  log_program(backend, request, program, source);
  // The text that is compiled too: a mended printer finds nothing made before it. The program says what the
  // text does not: sizes, tasks and workspace.
  const std::vector<std::string> parts{program.to_string(), source, key_text(backend.target())};
  const CacheKey object_key = make_key(parts);
  KernelResult result{.kernel = nullptr, .error = "", .code = object_key.low};
  if (auto stored = load_stored(backend, disk, object_key)) {
    result = std::move(*stored);
  } else {
    const auto begin = std::chrono::steady_clock::now();
    result.kernel = backend.compile(program, source);
    result.compile_ms = 1e3 * seconds_since(begin);
    if (const std::vector<std::byte> binary = result.kernel->binary(); !binary.empty())
      disk.store_object(object_key, binary);
  }
  if (place) disk.store_object(*place, std::as_bytes(std::span(&object_key, 1)));
  return result;
}

std::vector<KernelResult> KernelCache::make(backends::Device& backend, Cache& disk,
                                            std::span<const KernelRequest> requests,
                                            std::optional<std::chrono::steady_clock::time_point> deadline) {
  std::vector<std::string> keys;
  for (const KernelRequest& request : requests) keys.push_back(key(backend, request));
  std::vector<KernelResult> results(keys.size());
  std::vector<size_t> work;
  std::unordered_map<std::string_view, size_t> same;  // the request that is worked on for all equal ones
  {
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (const auto known = kernels_.find(keys[i]); known != kernels_.end()) {
        results[i] = known->second;
        results[i].compile_ms = 0;
        results[i].loaded = false;
      } else if (same.emplace(keys[i], i).second) {
        work.push_back(i);
      }
    }
  }
  Watch* const watch = Watch::current();  // of this thread, which is one of the team
  std::atomic<size_t> next{0};
  Team& team = Team::shared();
  team.run(team.size(), [&](int) {
    for (size_t w = next++; w < work.size(); w = next++) {
      throw_if_cancelled();
      KernelResult& made = results[work[w]];
      if (watch != nullptr && Watch::current() == watch) watch->look();
      if (deadline && (is_over(*deadline) || (watch != nullptr && watch->is_ended()))) {
        made.error = KernelReport::Rejected::kNotTimed;
        continue;
      }
      try {
        made = make_one(backend, disk, requests[work[w]], keys[work[w]]);
      } catch (const std::exception& error) {
        made.error = reason_of(error);
      }
    }
  });
  const std::scoped_lock lock(mutex_);
  for (const size_t i : work) {
    if (!results[i].kernel) continue;
    // Another thread may have made it meanwhile: one of them is the one.
    const auto [known, fresh] = kernels_.try_emplace(keys[i], results[i]);
    if (!fresh) results[i].kernel = known->second.kernel;
  }
  for (size_t i = 0; i < keys.size(); ++i)
    if (const auto first = same.find(keys[i]); first != same.end() && first->second != i) {
      results[i] = results[first->second];
      results[i].compile_ms = 0;  // it was compiled once
      results[i].loaded = false;
    }
  // Those that a plan holds stay, and those that are handed out now.
  if (kernels_.size() > most_)
    std::erase_if(kernels_, [](const auto& each) { return each.second.kernel.use_count() == 1; });
  return results;
}

std::vector<KernelResult> KernelCache::get(backends::Device& backend,
                                           std::span<const KernelRequest> requests) {
  std::vector<KernelResult> results = make(backend, Cache::of_process(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Implementation& implementation = requests[i].implementation;
    LUMINAL_CHECK(results[i].kernel != nullptr, "{} {} makes no kernel of\n{}: {}",
                  implementation.schedule->name, codegen::to_string(implementation.parameters),
                  requests[i].spec.to_string(), results[i].error);
  }
  return results;
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
