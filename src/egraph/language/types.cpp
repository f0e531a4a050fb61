#include "egraph/language/types.h"

#include <algorithm>

#include "base/suggest.h"

namespace luminal::egraph::language {
namespace {

template <class Map>
auto find_or_null(const Map& map, Symbol name) -> typename Map::mapped_type {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : found->second;
}

std::string suggest(Symbol wrong, std::vector<std::string> names) {
  if (wrong.text().size() < 2) return "";  // one letter is near to any other
  // Hash order differs between runs; the suggestion must not.
  std::erase_if(names, [](const std::string& name) { return name.starts_with('@'); });
  std::sort(names.begin(), names.end());
  return did_you_mean(wrong.text(), names);
}

}  // namespace

bool Overload::takes(size_t arg_count) const {
  switch (shape) {
    case Shape::Exact:
      return arg_count == inputs.size();
    case Shape::Variadic:
      return true;
    case Shape::AllEqual:
      return arg_count == arity;
    case Shape::Alternating:
      return arg_count % inputs.size() == 0;
    case Shape::FunctionMaker:
      return arg_count >= 1;
  }
  return false;
}

const SortInfo* Overload::input(size_t i) const {
  switch (shape) {
    case Shape::Exact:
      return inputs[i];
    case Shape::Variadic:
      return inputs[0];
    case Shape::Alternating:
      return inputs[i % inputs.size()];
    case Shape::AllEqual:
    case Shape::FunctionMaker:
      return nullptr;
  }
  return nullptr;
}

const SortInfo* Scope::find_sort(Symbol name) const { return find_or_null(sorts, name); }
const FunctionInfo* Scope::find_function(Symbol name) const { return find_or_null(functions, name); }

const FunctionInfo* Scope::find_global(Symbol name) const {
  const FunctionInfo* function = find_function(name);
  return function && function->is_global ? function : nullptr;
}

const std::vector<const Overload*>* Scope::find_primitive(Symbol name) const {
  const auto found = primitives.find(name);
  return found == primitives.end() ? nullptr : &found->second;
}

std::string Scope::suggest_sort(Symbol wrong) const {
  std::vector<std::string> known;
  for (const auto& [name, sort] : sorts) known.push_back(name.text());
  return suggest(wrong, std::move(known));
}

std::string Scope::suggest_callable(Symbol wrong) const {
  std::vector<std::string> known;
  for (const auto& [name, function] : functions) known.push_back(name.text());
  for (const auto& [name, overloads] : primitives) known.push_back(name.text());
  return suggest(wrong, std::move(known));
}

std::string Scope::suggest_ruleset(Symbol wrong) const {
  std::vector<std::string> known;
  for (const auto& [name, ruleset] : rulesets)
    if (name) known.push_back(name.text());  // the default ruleset has no name
  return suggest(wrong, std::move(known));
}

}  // namespace luminal::egraph::language
