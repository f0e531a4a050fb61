#include "symbolic/names.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::symbolic {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

bool reads_as_index(std::string_view name) {
  if (name == "z") return true;
  return name.size() >= 2 && name[0] == 'i' && std::ranges::all_of(name.substr(1), digit);
}

void check_dim_name(std::string_view name) {
  if (name.empty()) fail<Error>("[Expression] a dim needs a name, such as \"batch\"");
  if (reads_as_index(name))
    fail<Error>("[Expression] '{}' is the name of an index variable; call the dim '{}_dim' or the like", name,
                name);
  const bool well_formed =
      letter(name[0]) && std::ranges::all_of(name, [](char c) { return letter(c) || digit(c) || c == '.'; });
  if (!well_formed)
    fail<Error>(
        "[Expression] '{}' cannot name a dim: use letters, digits, '_' and '.', a letter or '_' first", name);
}

}  // namespace luminal::symbolic
