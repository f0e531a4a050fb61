#include "search/tuning/job.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace luminal::search {

std::vector<size_t> Job::by_merit() const {
  std::vector<size_t> order(tried.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto time_of = [&](size_t c) {
    if (preferred == c) return -1.0;
    return tried[c].measured_us > 0 ? tried[c].measured_us : std::numeric_limits<double>::infinity();
  };
  if (known) return order;
  std::ranges::stable_sort(order, {}, time_of);
  if (preferred || order.empty() || codegen::find_schedule(tried[order[0]].schedule).foreign) return order;
  const auto equal =
      std::ranges::find_if(order, [&](size_t c) { return time_of(c) > kEqualTimes * time_of(order[0]); });
  if (equal != order.begin()) {
    const auto first = std::min_element(order.begin(), equal);
    std::rotate(order.begin(), first, first + 1);
  }
  return order;
}

std::optional<size_t> Job::leader() const {
  const std::vector<size_t> order = by_merit();
  const auto first = std::ranges::find_if(order, [&](size_t c) { return kernels[c] != nullptr; });
  return first == order.end() ? std::nullopt : std::optional(*first);
}

std::optional<size_t> Job::models_choice() const {
  for (size_t c = 0; c < tried.size(); ++c)
    if (kernels[c] != nullptr && !codegen::find_schedule(tried[c].schedule).foreign) return c;
  return std::nullopt;
}

bool Job::races_unseen() const {
  constexpr double kLargeUs = 5000;
  const auto fallen = std::ranges::count(kernels, nullptr);
  const auto is_own = [](const Tried& t) { return codegen::find_schedule(t.schedule).foreign; };
  return std::ranges::none_of(tried, is_own) || fallen + 1 >= std::ssize(kernels) ||
         std::ranges::min(tried, {}, &Tried::predicted_us).predicted_us > kLargeUs;
}

KernelRequest Job::kernel_request(size_t candidate) const {
  const Tried& t = tried[candidate];
  return {.spec = request.spec,
          .implementation = {.schedule = &codegen::find_schedule(t.schedule), .parameters = t.parameters},
          .bucket = bucket};
}

}  // namespace luminal::search
