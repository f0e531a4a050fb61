#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fail.h"
#include "base/printable.h"
#include "base/suggest.h"

// Source: the format's description in the README of github.com/huggingface/safetensors.
namespace luminal::safetensors {
namespace {

constexpr size_t kMaxRank = 64;
constexpr std::string_view kMetadata = "__metadata__";

/// The format's names are ours in capitals.
constexpr StoredDtype stored(std::string_view name, int bits) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (const Dtype dtype : kPlainDtypes)
    if (std::ranges::equal(name, luminal::name(dtype), {}, lower)) return {name, bits, dtype};
  return {name, bits, std::nullopt};
}

constexpr std::array kDtypes{
    stored("BOOL", 8),    stored("F4", 4),          stored("F6_E2M3", 6),     stored("F6_E3M2", 6),
    stored("U8", 8),      stored("I8", 8),          stored("F8_E5M2", 8),     stored("F8_E4M3", 8),
    stored("F8_E8M0", 8), stored("F8_E4M3FNUZ", 8), stored("F8_E5M2FNUZ", 8), stored("I16", 16),
    stored("U16", 16),    stored("F16", 16),        stored("BF16", 16),       stored("I32", 32),
    stored("U32", 32),    stored("F32", 32),        stored("C64", 64),        stored("F64", 64),
    stored("I64", 64),    stored("U64", 64)};

/// Receives the JSON piece by piece and accepts the one form a header has. Nothing is kept that the header
/// does not need, nesting has no depth to exhaust, and a key that comes twice is seen (a JSON document would
/// hide it).
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(Header& header, const std::string& where) : header_(header), where_(where) {}

  bool null() override { reject("null"); }
  bool boolean(bool) override { reject("a boolean"); }
  bool number_integer(number_integer_t value) override { reject(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    reject("the number " + printable(text));
  }
  bool binary(binary_t&) override { reject("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::Shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        error("dim {} is too large", value);
      if (entry_.dims.size() == kMaxRank) error("shape has more than {} dims", kMaxRank);
      entry_.dims.push_back(static_cast<int64_t>(value));
    } else if (state_ == State::Offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      reject(fmt::format("the number {}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::MetadataValue) {
      header_.metadata.emplace(key_, std::move(value));
      state_ = State::Metadata;
    } else if (state_ == State::Dtype) {
      set_dtype(value);
      state_ = State::Info;
    } else {
      reject("the text " + printable(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::Start)
      state_ = State::Names;
    else if (state_ == State::Tensor)
      state_ = name_ == kMetadata ? State::Metadata : State::Info;
    else
      reject("an object");
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::Names) {
      if (value == kMetadata ? std::exchange(seen_metadata_, true) : header_.tensors.contains(value))
        fail<FormatError>("{}: {} appears twice in the header; write the file again", where_,
                          printable(value));
      name_ = value;
      entry_ = {};
      fields_ = {};
      offsets_ = 0;
      state_ = State::Tensor;
    } else if (state_ == State::Metadata) {
      if (header_.metadata.contains(value)) error("key {} appears twice", printable(value));
      key_ = value;
      state_ = State::MetadataValue;
    } else {
      start_field(value);
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::Info) {
      for (size_t i = 0; i < kFields.size(); ++i)
        if (!fields_[i]) error("has no '{}'", kFields[i]);
      header_.tensors.emplace(std::move(name_), std::move(entry_));
    }
    state_ = state_ == State::Names ? State::End : State::Names;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::ShapeField)
      state_ = State::Shape;
    else if (state_ == State::OffsetsField)
      state_ = State::Offsets;
    else
      reject("an array");
    return true;
  }

  bool end_array() override {
    if (state_ == State::Offsets && offsets_ != 2)
      error("'data_offsets' holds {} numbers instead of 2", offsets_);
    state_ = State::Info;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    fail<FormatError>("{}: the header is not JSON at byte {}, near {}; the file is damaged", where_, position,
                      printable(token));
  }

 private:
  enum class State {
    Start,
    Names,
    Tensor,
    Info,
    Dtype,
    ShapeField,
    Shape,
    OffsetsField,
    Offsets,
    Metadata,
    MetadataValue,
    End
  };
  static constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

  void start_field(const std::string& field) {
    const auto found = std::find(kFields.begin(), kFields.end(), field);
    if (found == kFields.end()) error("has an unknown field {}", printable(field));
    const auto index = static_cast<size_t>(found - kFields.begin());
    if (std::exchange(fields_[index], true)) error("has '{}' twice", field);
    state_ = std::array{State::Dtype, State::ShapeField, State::OffsetsField}[index];
  }

  void set_dtype(const std::string& name) {
    const auto found =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& type) { return type.name == name; });
    if (found == kDtypes.end()) {
      std::vector<std::string> names;
      for (const StoredDtype& type : kDtypes) names.emplace_back(type.name);
      error("has the unknown dtype {}{}", printable(name), did_you_mean(name, names));
    }
    entry_.type = &*found;
  }

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail<FormatError>("{}: {}{} {}", where_, name_ == kMetadata ? "" : "tensor ", printable(name_),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void reject(const std::string& what) const {
    if (state_ == State::Start) fail<FormatError>("{}: the header is {} instead of an object", where_, what);
    error("has {} where {} belongs", what, expected());
  }

  [[nodiscard]] std::string_view expected() const {
    switch (state_) {
      case State::Dtype:
        return "the name of a dtype";
      case State::MetadataValue:
        return "text";
      case State::ShapeField:
        return "an array of dims";
      case State::OffsetsField:
        return "an array of two offsets";
      case State::Shape:
        return "a dim, an integer from 0";
      case State::Offsets:
        return offsets_ < 2 ? "an offset, an integer from 0" : "the end of two offsets";
      default:
        return "an object";
    }
  }

  Header& header_;
  const std::string& where_;
  State state_ = State::Start;
  bool seen_metadata_ = false;
  std::string name_, key_;
  Entry entry_;
  std::array<bool, 3> fields_{};
  int offsets_ = 0;
};

/// The bytes a tensor takes; nothing if the number does not fit or the last byte is only partly used. Dims
/// beside a 0 must fit too: whoever multiplies them later shall not overflow.
std::optional<size_t> stored_bytes(const Entry& entry) {
  auto bits = static_cast<int64_t>(entry.type->bits);
  for (const int64_t dim : entry.dims)
    if (__builtin_mul_overflow(bits, std::max<int64_t>(dim, 1), &bits)) return std::nullopt;
  if (std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end()) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return static_cast<size_t>(bits / 8);
}

void check_entry(const std::string& name, const Entry& entry, size_t data_bytes, const std::string& where) {
  if (entry.begin > entry.end || entry.end > data_bytes)
    fail<FormatError>(
        "{}: tensor {} claims bytes {} to {} of a data section of {} bytes; the file is truncated or damaged",
        where, printable(name), entry.begin, entry.end, data_bytes);
  const std::optional<size_t> needed = stored_bytes(entry);
  if (!needed || *needed != entry.end - entry.begin)
    fail<FormatError>("{}: tensor {} of {}[{}] takes {} bytes, but its range {} to {} holds {}", where,
                      printable(name), entry.type->name, fmt::join(entry.dims, ","),
                      needed ? std::to_string(*needed) : "too many", entry.begin, entry.end,
                      entry.end - entry.begin);
}

/// The ranges, in order, must follow each other without overlap or hole up to the end of the file.
void check_tiling(const Header& header, size_t data_bytes, const std::string& where) {
  std::vector<std::pair<std::string_view, const Entry*>> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, entry] : header.tensors) order.emplace_back(name, &entry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  size_t end = 0;
  std::string_view previous;
  for (const auto& [name, entry] : order) {
    if (entry->begin < end)
      fail<FormatError>("{}: tensors {} and {} overlap: one ends at byte {}, the other begins at {}", where,
                        printable(previous), printable(name), end, entry->begin);
    if (entry->begin > end)
      fail<FormatError>("{}: bytes {} to {} before tensor {} belong to no tensor", where, end, entry->begin,
                        printable(name));
    end = entry->end;
    previous = name;
  }
  if (end != data_bytes)
    fail<FormatError>(
        "{}: the tensors end at byte {}, the data section holds {} bytes; the file is oversized", where, end,
        data_bytes);
}

}  // namespace

std::span<const StoredDtype> stored_dtypes() { return kDtypes; }

std::string printable(std::string_view name) {
  constexpr size_t kShown = 80;
  size_t end = std::min(kShown, name.size());
  while (end > 0 && end < name.size() && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return "'" + escaped(name.substr(0, end)) + (end < name.size() ? "...'" : "'");
}

size_t header_bytes(std::span<const std::byte> first, size_t file_bytes, const std::string& where) {
  if (first.size() < kLengthBytes)
    fail<FormatError>(
        "{} has {} bytes, but a safetensors file has at least {}; the file is truncated or of another format",
        where, file_bytes, kLengthBytes + 2);
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(first[i]);
  if (length > kHeaderLimitBytes)
    fail<FormatError>(
        "{} starts with a header length of {} bytes, more than the {} allowed; this is not a safetensors "
        "file",
        where, length, kHeaderLimitBytes);
  if (length > file_bytes - kLengthBytes)
    fail<FormatError>("{} starts with a header length of {} bytes, but only {} follow; the file is truncated",
                      where, length, file_bytes - kLengthBytes);
  return length;
}

Header parse(std::string_view text, size_t file_bytes, const std::string& where) {
  if (text.empty() || text.front() != '{')
    fail<FormatError>("{}: the header does not begin with '{{'; this is not a safetensors file", where);
  // The JSON reader takes a zero byte for the end of the text; what comes after it would go unseen.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail<FormatError>("{}: the header has a zero byte at {}; the file is damaged", where, zero);

  Header header;
  HeaderReader reader(header, where);
  nlohmann::json::sax_parse(text, &reader);
  header.data_begin = kLengthBytes + text.size();
  const size_t data_bytes = file_bytes - header.data_begin;
  for (const auto& [name, entry] : header.tensors) check_entry(name, entry, data_bytes, where);
  check_tiling(header, data_bytes, where);
  return header;
}

std::string serialize(const std::vector<std::pair<std::string, Entry>>& order,
                      const std::map<std::string, std::string>& metadata) {
  auto json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[kMetadata] = metadata;
  for (const auto& [name, entry] : order)
    json[name] = nlohmann::ordered_json{{"dtype", entry.type->name},
                                        {"shape", entry.dims},
                                        {"data_offsets", std::array{entry.begin, entry.end}}};
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::type_error&) {
    fail("[safetensors] a name or a metadata entry is not valid UTF-8; the format allows nothing else");
  }
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string result(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) result[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return result + text;
}

}  // namespace luminal::safetensors
