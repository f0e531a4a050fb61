#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/expression.h"
#include "luminal/number.h"

namespace luminal {

/// What user code hangs on a node: a function, a kernel source. Compared by identity.
struct Payload {
  virtual ~Payload() = default;
};

using Attribute = std::variant<int64_t, bool, Number, std::string, Dtype, Expression, Shape,
                               std::vector<int64_t>, std::shared_ptr<const Payload>>;

/// The parameters of a node, by name: {axes: [1], ties: "first"}. Kept sorted; equality and hash are of the
/// content. Thread safety: as any value (luminal.h).
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries);

  void set(std::string key, Attribute value);
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] const Attribute* find(std::string_view key) const;
  /// Errors: InternalError if the attribute is absent or of another type.
  template <class T>
  [[nodiscard]] const T& get(std::string_view key) const {
    if (const Attribute* value = find(key))
      if (const T* typed = std::get_if<T>(value)) return *typed;
    missing(key);
  }
  [[nodiscard]] const std::vector<std::pair<std::string, Attribute>>& entries() const { return entries_; }
  [[nodiscard]] std::string to_string() const;  ///< "axes=[1], ties=first"
  [[nodiscard]] uint64_t hash() const;
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  [[noreturn]] void missing(std::string_view key) const;
  std::vector<std::pair<std::string, Attribute>> entries_;
};

}  // namespace luminal
