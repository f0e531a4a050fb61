#include "base/fail.h"
#include "text/models.h"

namespace luminal::text {

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

TokenTable::TokenTable(const TokenizerSpec& spec) : has_bytes_(spec.byte_fallback), unknown_(spec.unknown) {
  ids_.reserve(spec.vocabulary.size());
  for (size_t id = 0; id < spec.vocabulary.size(); ++id)
    if (!spec.vocabulary[id].empty()) ids_.emplace(spec.vocabulary[id], static_cast<TokenId>(id));
  for (size_t byte = 0; byte < 256; ++byte) bytes_[byte] = find(fmt::format("<0x{:02X}>", byte));
}

TokenId TokenTable::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

bool TokenTable::append_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  if (!has_bytes_) return false;
  for (const char c : character)
    if (bytes_[static_cast<uint8_t>(c)] < 0) return false;
  for (const char c : character) ids.push_back(bytes_[static_cast<uint8_t>(c)]);
  return true;
}

TokenId TokenTable::unknown(std::string_view what) const {
  if (!unknown_)
    fail<FormatError>("[tokenizer] the vocabulary has no token for '{}' and none for what is unknown",
                      what.substr(0, 64));
  return *unknown_;
}

}  // namespace luminal::text
