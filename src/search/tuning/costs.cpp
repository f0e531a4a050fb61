#include "search/tuning/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "search/bucket.h"
#include "search/tuning/user_kernels.h"

namespace luminal::search {
namespace {

constexpr const char* kScale = "scale";
constexpr const char* kExplores = "explores user kernels";

std::string name_of(const kernel::KernelSpec& spec) { return fmt::format("{:016x}", spec.hash()); }

}  // namespace

double Costs::rough(const kernel::KernelSpec& spec) {
  if (has_user_kernel(spec)) return of(context_.store.intern(spec));
  return kernel::predicted_us(spec, top_, context_.limits) * scale_;
}

double Costs::of(SpecId spec) {
  if (const auto known = measured_.find(spec); known != measured_.end()) return known->second;
  if (!recalled_.empty())
    if (const auto known = recalled_.find(name_of(context_.store.at(spec))); known != recalled_.end())
      return known->second;
  const double as_generated = predicted(spec) * scale_;
  if (!explores_user_kernels_ || !has_user_kernel(context_.store.at(spec))) return as_generated;
  return std::min(as_generated, least_us(context_.store.at(spec)));
}

Cache::Costs Costs::to_table() const {
  Cache::Costs table{{kScale, scale_}};
  if (explores_user_kernels_) table.emplace(kExplores, 1);
  for (const auto& [spec, us] : measured_) table[name_of(context_.store.at(spec))] = us;
  return table;
}

bool Costs::recall(Cache::Costs table) {
  const auto is_cost = [](const auto& entry) {
    constexpr double kMostUs = 1e12;  // sums of them stay numbers
    return entry.second > 0 && entry.second <= kMostUs;
  };
  if (!table.contains(kScale) || !std::ranges::all_of(table, is_cost)) return false;
  scale_ = table.at(kScale);
  explores_user_kernels_ = table.contains(kExplores);
  recalled_ = std::move(table);
  return true;
}

void Costs::calibrate() {
  double measured_us = 0, predicted_us = 0;
  for (const auto& [spec, us] : measured_) {
    measured_us += us;
    predicted_us += predicted(spec);
  }
  if (predicted_us > 0) scale_ = std::clamp(measured_us / predicted_us, 0.2, 5.0);
}

std::optional<double> Costs::sum(const Cover& cover) const {
  double total = 0;
  for (const CoverKernel& kernel : cover.kernels) {
    const auto known = measured_.find(kernel.spec);
    if (known == measured_.end()) return std::nullopt;
    total += known->second;
  }
  return total;
}

double Costs::predicted(SpecId spec) {
  const auto [at, fresh] = predicted_.try_emplace(spec);
  if (fresh) {
    const kernel::KernelSpec& content = context_.store.at(spec);
    at->second =
        best_by_model(content, restricted(context_.bucket, content), context_.backend.target()).predicted_us;
  }
  return at->second;
}

bool Costs::has_user_kernel(const kernel::KernelSpec& spec) const {
  return !user_kernels_for(spec, context_.backend.target()).empty();
}

double Costs::least_us(const kernel::KernelSpec& spec) const {
  const kernel::Work work = kernel::work_of(spec, top_);
  return context_.limits.launch_us +
         kernel::roofline_us(0, work.bytes_read + work.bytes_written, context_.limits);
}

}  // namespace luminal::search
