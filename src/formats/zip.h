#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace luminal {

/// The members of a zip archive in memory: stored or deflated, one disk, no encryption, zip64 included.
/// `where` leads the messages. Errors: FormatError if anything does not fit or members share bytes; nothing
/// is allocated for a size that the packed bytes cannot hold, nor beyond `limit_bytes` altogether.
[[nodiscard]] std::map<std::string, std::string> unzip(std::string_view archive, const std::string& where,
                                                       size_t limit_bytes);

/// The largest number that the records of plain zip hold; their largest value says to look into zip64's.
inline constexpr uint64_t kMostInZip = 0xfffffffe;

/// An archive without dates, so that equal members give equal bytes; zip64 where sizes, places or the number
/// of members ask for it. Tests lower `most` to see it with little data. Errors: Error for names of 64 KiB.
[[nodiscard]] std::string zip(const std::map<std::string, std::string>& members, bool deflated,
                              uint64_t most = kMostInZip);

}  // namespace luminal
