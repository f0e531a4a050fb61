#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

/// Errors a caller can see.
///
/// `Error` and its subclasses are for what the user can fix: a wrong shape, a missing file, an unknown
/// device. A message names the op or file, what is wrong with the values, what to do, and where it came from:
///
///     [matmul] inner dimensions differ: lhs f32[4,128] has K=128, rhs f32[32,128] has K=32;
///     rhs.transpose(0,1) would fit (made at model.cpp:41)
///
/// `InternalError` is for what the user cannot fix; it asks for a report and carries a stack trace.
namespace luminal {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Shapes or dims that do not fit an op.
class ShapeError : public Error {
  using Error::Error;
};
/// A dtype an op does not take.
class DtypeError : public Error {
  using Error::Error;
};
/// A file or text that is missing, truncated or not what it says it is.
class FormatError : public Error {
  using Error::Error;
};
/// A device that is not there, or cannot do what was asked.
class DeviceError : public Error {
  using Error::Error;
};

/// A broken promise inside Luminal. The constructor appends where it was thrown, a stack trace and a request
/// to report it.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(std::string_view what, std::source_location where = std::source_location::current());
};

}  // namespace luminal
