#include <fmt/format.h>

#include <array>

#include "base/fail.h"
#include "base/suggest.h"
#include "codegen/schedule.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {

std::string to_string(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

int64_t parameter_or(const Parameters& parameters, std::string_view name, int64_t otherwise) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? otherwise : at->second;
}

std::span<const Schedule* const> schedules() {
  static const std::array kAll{&contract_schedule(), &reduce_schedule(), &row_schedule(), &map_schedule(),
                               &nest_schedule()};
  return kAll;
}

const Schedule& find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const Schedule* s : schedules()) {
    if (s->name == name) return *s;
    names.emplace_back(s->name);
  }
  throw InternalError(fmt::format("[schedules] there is no family '{}'{}", name, did_you_mean(name, names)));
}

}  // namespace luminal::codegen
