#include "search/kernel_cache.h"

#include <fmt/format.h>

#include "base/threads.h"

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

std::vector<std::shared_ptr<const backends::Kernel>> KernelCache::get(backends::Backend& backend,
                                                                      std::span<const KernelRequest> requests,
                                                                      int* compiled) {
  std::vector<std::string> keys;
  for (const KernelRequest& request : requests) keys.push_back(key(backend, request));
  std::unordered_map<std::string, size_t> missing;
  {
    const std::scoped_lock lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i)
      if (!kernels_.contains(keys[i])) missing.try_emplace(keys[i], i);
  }
  std::vector<std::pair<std::string, size_t>> work(missing.begin(), missing.end());
  std::vector<std::shared_ptr<const backends::Kernel>> made(work.size());
  parallel_for(static_cast<int64_t>(work.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const KernelRequest& request = requests[work[i].second];
      made[i] = backend.compile(request.chosen.schedule->lower(request.spec, request.chosen.parameters,
                                                               restricted(request.bucket, request.spec),
                                                               backend.target()));
    }
  });
  if (compiled != nullptr) *compiled = static_cast<int>(work.size());
  const std::scoped_lock lock(mutex_);
  for (size_t i = 0; i < work.size(); ++i) kernels_.try_emplace(std::move(work[i].first), std::move(made[i]));
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;
  for (const std::string& each : keys) kernels.push_back(kernels_.at(each));
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
