#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "serving/json.h"

namespace luminal::serving {

/// A body's JSON. Errors: ApiError 400 for what is not JSON in UTF-8, nested too deeply, or no object.
[[nodiscard]] Json parse_body(std::string_view body);

/// The fields of a JSON object from a client. What is asked for has the type that is asked for, null counts as
/// absent, and what nobody asked for is an error: each is an ApiError 400 that names the field.
class Fields {
 public:
  /// `path` leads the names of fields in errors: "response_format". Errors: ApiError if `object` is none.
  explicit Fields(const Json& object, std::string path = {});

  [[nodiscard]] std::optional<double> number(const char* name, double least, double most);
  [[nodiscard]] std::optional<int64_t> whole(const char* name, int64_t least,
                                             int64_t most = std::numeric_limits<int64_t>::max());
  [[nodiscard]] std::optional<bool> flag(const char* name);
  [[nodiscard]] std::optional<std::string> text(const char* name);
  /// Null if absent. The kinds are those of JSON.
  [[nodiscard]] const Json* list(const char* name);
  [[nodiscard]] const Json* object(const char* name);
  [[nodiscard]] const Json* any(const char* name);
  /// Fields that change nothing here.
  void ignore(std::initializer_list<const char*> names);
  /// Errors: ApiError for a field that was not asked for.
  void finish() const;

  /// "response_format.type", as errors name it.
  [[nodiscard]] std::string path_of(std::string_view name) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

/// Errors: ApiError 400 always: "'n' is 0; give a whole number from 1 to 128".
[[noreturn]] void refuse_field(const std::string& path, const Json& value, std::string_view wanted);

}  // namespace luminal::serving
