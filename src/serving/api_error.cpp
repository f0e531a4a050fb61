#include "serving/api_error.h"

#include <new>

namespace luminal::serving {
namespace {

const char* type_of_status(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json ApiError::to_json() const {
  return {{"error",
           {{"message", what()},
            {"type", type_of_status(status_)},
            {"param", text_or_null(param_)},
            {"code", text_or_null(code_)}}}};
}

ApiError api_error_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ApiError& error) {
    return error;
  } catch (const Error& error) {
    return {400, error.what()};
  } catch (const std::bad_alloc&) {
    return {503, "the server is out of memory; try again with a shorter request", {}, "out_of_memory"};
  } catch (const std::exception& error) {
    return {500, error.what()};
  } catch (...) {
    return {500, "an error without a message"};
  }
}

}  // namespace luminal::serving
