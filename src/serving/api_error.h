#pragma once
#include <string>

#include "luminal/error.h"
#include "serving/json.h"

namespace luminal::serving {

/// Why a request is not answered, as OpenAI's API says it.
class ApiError : public Error {
 public:
  /// `param`: the field that is wrong, "messages[0].role"; `code`: a word for programs. Both may be empty.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : Error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  /// {"error": {"message", "type", "param", "code"}}
  [[nodiscard]] Json to_json() const;

 private:
  int status_;
  std::string param_, code_;
};

/// The error of what was thrown while a request was worked on: an ApiError is itself, another Error of ours what a
/// client can mend (400), and the rest is the server's own (500).
[[nodiscard]] ApiError api_error_of(const std::exception_ptr& thrown);

}  // namespace luminal::serving
