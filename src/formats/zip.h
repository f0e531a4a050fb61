#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace luminal {

/// The members of a zip archive in memory: stored or deflated, one disk, no encryption, zip64 included.
/// `where` leads the messages. Errors: FormatError if anything does not fit; nothing is allocated for a size
/// that the packed bytes cannot hold, nor beyond `limit_bytes` altogether.
[[nodiscard]] std::map<std::string, std::string> unzip(std::string_view archive, const std::string& where,
                                                       size_t limit_bytes);

/// An archive without dates, so that equal members give equal bytes. Errors: Error for members of 4 GB and
/// more.
[[nodiscard]] std::string zip(const std::map<std::string, std::string>& members, bool deflated);

}  // namespace luminal
