#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace luminal::egraph::language {

/// A name of a program: compares by identity, which for symbols of one table is equality of text.
/// Never order by it: addresses differ between runs.
class Symbol {
 public:
  Symbol() = default;
  [[nodiscard]] const std::string& text() const { return *text_; }
  [[nodiscard]] explicit operator bool() const { return text_ != nullptr; }
  [[nodiscard]] bool operator==(const Symbol&) const = default;
  [[nodiscard]] const void* address() const { return text_; }

 private:
  friend class SymbolTable;
  explicit Symbol(const std::string* text) : text_(text) {}
  const std::string* text_ = nullptr;
};

/// Owns the texts of symbols; a symbol lives as long as its table.
class SymbolTable {
 public:
  [[nodiscard]] Symbol intern(std::string_view text) {
    auto found = texts_.find(text);
    if (found == texts_.end()) found = texts_.emplace(text).first;
    return Symbol(&*found);
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> texts_;
};

}  // namespace luminal::egraph::language

template <>
struct std::hash<luminal::egraph::language::Symbol> {
  size_t operator()(const luminal::egraph::language::Symbol& symbol) const noexcept {
    return std::hash<const void*>{}(symbol.address());
  }
};
