#pragma once
#include <exception>
#include <string>

namespace luminal {

/// What an error says, for a message that goes on: of an InternalError the reason alone, without stack trace
/// and request to report it.
[[nodiscard]] std::string reason_of(const std::exception& error);

}  // namespace luminal
