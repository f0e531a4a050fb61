#include "formats/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/fail.h"
#include "formats/safetensors_header.h"

namespace luminal::gguf {
namespace {

using safetensors::printable;

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr int kDeepestArray = 8;

/// Reads a file from its beginning, in pieces, and never past its end.
class HeaderBytes {
 public:
  HeaderBytes(const OpenedFile& file, const std::string& where) : file_(file), where_(where) {}

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] size_t left() const { return file_.size_bytes() - position_; }

  template <class T>
  [[nodiscard]] T number(std::string_view what) {
    std::array<std::byte, sizeof(T)> bytes{};
    take(bytes, what);
    return std::bit_cast<T>(bytes);
  }
  [[nodiscard]] std::string text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    if (length > left()) truncated(what, length);
    std::string result(length, '\0');
    take(std::as_writable_bytes(std::span(result)), what);
    return result;
  }
  /// Refuses a count of things that take at least `least_bytes` each and cannot all be there.
  [[nodiscard]] uint64_t count(uint64_t least_bytes, std::string_view what) {
    const auto count = number<uint64_t>(what);
    if (count > left() / least_bytes)
      fail<FormatError>("{}: {} {} are announced, but only {} bytes follow; the file is truncated or damaged",
                        where_, count, what, left());
    return count;
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 16;

  void take(std::span<std::byte> out, std::string_view what) {
    if (out.size() > left()) truncated(what, out.size());
    while (!out.empty()) {
      if (position_ < begin_ || position_ >= begin_ + buffer_.size()) {
        buffer_.resize(std::min(kPieceBytes, left()));
        begin_ = position_;
        file_.read(begin_, buffer_);
      }
      const size_t at = position_ - begin_, size = std::min(out.size(), buffer_.size() - at);
      std::memcpy(out.data(), buffer_.data() + at, size);
      out = out.subspan(size);
      position_ += size;
    }
  }
  [[noreturn]] void truncated(std::string_view what, uint64_t needed) const {
    fail<FormatError>(
        "{}: {} at byte {} takes {} bytes, but only {} follow; the file is truncated or damaged", where_,
        what, position_, needed, left());
  }

  const OpenedFile& file_;
  const std::string& where_;
  size_t position_ = 0, begin_ = 0;
  std::vector<std::byte> buffer_;
};

/// Bytes of a value of this kind in files; of texts and arrays the least that one takes.
uint64_t least_bytes(GgufKind kind) {
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::I8:
    case GgufKind::Bool:
      return 1;
    case GgufKind::U16:
    case GgufKind::I16:
      return 2;
    case GgufKind::U32:
    case GgufKind::I32:
    case GgufKind::F32:
      return 4;
    case GgufKind::Array:
      return 12;
    default:
      return 8;
  }
}

class HeaderParser {
 public:
  HeaderParser(const OpenedFile& file, const std::string& where) : bytes_(file, where), where_(where) {}

  Header operator()() {
    Header header;
    header.version = version();
    const uint64_t tensors = bytes_.count(8 + 4 + 4 + 8, "tensors");
    const uint64_t keys = bytes_.count(8 + 4 + 1, "metadata keys");
    std::set<std::string, std::less<>> seen;
    for (uint64_t i = 0; i < keys; ++i) {
      std::string key = bytes_.text("a metadata key");
      if (!seen.insert(key).second)
        fail<FormatError>("{}: the metadata key {} appears twice", where_, printable(key));
      GgufValue value = this->value(kind(printable(key)), printable(key), 0);
      header.metadata.emplace_back(std::move(key), std::move(value));
    }
    seen.clear();
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) {
      header.tensors.push_back(tensor());
      if (!seen.insert(header.tensors.back().name).second)
        fail<FormatError>("{}: tensor {} appears twice", where_, printable(header.tensors.back().name));
      offsets.push_back(bytes_.number<uint64_t>("the offset of a tensor"));
    }
    place(header, offsets);
    return header;
  }

 private:
  uint32_t version() {
    if (bytes_.left() < 4 || std::bit_cast<std::array<char, 4>>(bytes_.number<uint32_t>("the magic")) !=
                                 std::array{'G', 'G', 'U', 'F'})
      fail<FormatError>("{} does not begin with 'GGUF'; this is not a GGUF file", where_);
    const auto version = bytes_.number<uint32_t>("the version");
    if ((version & 0xffffU) == 0 && version != 0)
      fail<FormatError>("{} is big-endian; only little-endian GGUF files can be read", where_);
    if (version != 2 && version != 3)
      fail<FormatError>(
          "{} is GGUF of version {}; versions 2 and 3 can be read, convert it with GGML's tools", where_,
          version);
    return version;
  }

  GgufKind kind(const std::string& key) {
    const auto number = bytes_.number<uint32_t>("a kind of value");
    if (number > static_cast<uint32_t>(GgufKind::F64))
      fail<FormatError>("{}: metadata key {} has a value of the unknown kind {}; kinds are 0 to {}", where_,
                        key, number, static_cast<uint32_t>(GgufKind::F64));
    return static_cast<GgufKind>(number);
  }

  template <size_t index = 0>
  GgufValue plain(GgufKind kind, const std::string& key) {
    if constexpr (index == std::variant_size_v<GgufValue::variant>) {
      LUMINAL_CHECK(false, "kind {} of {} is checked before", static_cast<int>(kind), key);
    } else {
      using T = std::variant_alternative_t<index, GgufValue::variant>;
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
        if (static_cast<size_t>(kind) == index) return bytes_.number<T>(key);
      return plain<index + 1>(kind, key);
    }
  }

  GgufValue value(GgufKind kind, const std::string& key, int depth) {
    if (kind == GgufKind::Text) return bytes_.text(key);
    if (kind == GgufKind::Array) return array(key, depth + 1);
    if (kind != GgufKind::Bool) return plain(kind, key);
    const auto byte = bytes_.number<uint8_t>(key);
    if (byte > 1)
      fail<FormatError>("{}: metadata key {} has a bool of value {}; only 0 and 1 are bools", where_, key,
                        byte);
    return byte == 1;
  }

  GgufValue array(const std::string& key, int depth) {
    if (depth > kDeepestArray)
      fail<FormatError>("{}: arrays of metadata key {} are nested more than {} deep", where_, key,
                        kDeepestArray);
    GgufArray array{kind(key), {}};
    const uint64_t count = bytes_.count(least_bytes(array.kind), "values of metadata key " + key);
    for (uint64_t i = 0; i < count; ++i) array.values.push_back(value(array.kind, key, depth));
    return array;
  }

  /// All but its offset.
  GgufTensorInfo tensor() {
    GgufTensorInfo tensor;
    tensor.name = bytes_.text("the name of a tensor");
    const std::string name = printable(tensor.name);
    const auto rank = bytes_.number<uint32_t>(name);
    if (rank > kMostDims)
      fail<FormatError>("{}: tensor {} has {} dims; the format allows {}", where_, name, rank, kMostDims);
    for (uint32_t i = 0; i < rank; ++i) {
      const auto dim = bytes_.number<uint64_t>(name);
      if (dim > static_cast<uint64_t>(INT64_MAX))
        fail<FormatError>("{}: tensor {} has a dim of {}, which is impossible", where_, name, dim);
      tensor.dims.insert(tensor.dims.begin(), static_cast<int64_t>(dim));
    }
    const auto id = bytes_.number<uint32_t>(name);
    const auto types = gguf_types();
    const auto type = std::ranges::find(types, id, &GgufType::id);
    if (type == types.end())
      fail<FormatError>("{}: tensor {} has the element type {}, which is unknown here", where_, name, id);
    tensor.type = &*type;
    return tensor;
  }

  /// Tensors must lie within the data section, aligned, none over another.
  void place(Header& header, const std::vector<uint64_t>& offsets) {
    const uint64_t step = alignment(header.metadata, where_);
    const uint64_t data = align_up(bytes_.position(), step);
    const uint64_t end_of_file = bytes_.position() + bytes_.left();
    std::vector<std::tuple<uint64_t, uint64_t, size_t>> order;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const GgufTensorInfo& tensor = header.tensors[i];
      const std::string name = printable(tensor.name);
      if (offsets[i] % step != 0)
        fail<FormatError>(
            "{}: tensor {} begins at byte {} of the data, which is not a multiple of the alignment {}",
            where_, name, offsets[i], step);
      uint64_t size = 0;
      try {
        size = static_cast<uint64_t>(tensor.size_bytes());
      } catch (const ShapeError& error) {
        fail<FormatError>("{}: {}", where_, error.what());
      }
      if (size > 0 &&
          (data > end_of_file || offsets[i] > end_of_file - data || size > end_of_file - data - offsets[i]))
        fail<FormatError>(
            "{}: tensor {} of {} bytes begins at byte {} of the data section, which holds {}; the file is "
            "truncated",
            where_, name, size, offsets[i], end_of_file - std::min(data, end_of_file));
      header.begins.push_back(data + offsets[i]);
      if (size > 0) order.emplace_back(offsets[i], offsets[i] + size, i);
    }
    std::ranges::sort(order);
    for (size_t k = 1; k < order.size(); ++k)
      if (std::get<0>(order[k]) < std::get<1>(order[k - 1]))
        fail<FormatError>(
            "{}: tensors {} and {} overlap: one ends at byte {} of the data, the other begins at {}", where_,
            printable(header.tensors[std::get<2>(order[k - 1])].name),
            printable(header.tensors[std::get<2>(order[k])].name), std::get<1>(order[k - 1]),
            std::get<0>(order[k]));
  }

  HeaderBytes bytes_;
  const std::string& where_;
};

/// Appends values in the format's byte order.
class HeaderWriter {
 public:
  template <class T>
  void number(T value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
    text_.append(bytes.data(), bytes.size());
  }
  void text(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    text_ += value;
  }
  void value(const GgufValue& value) {
    std::visit(
        [this]<class T>(const T& v) {
          if constexpr (std::is_same_v<T, std::string>)
            text(v);
          else if constexpr (std::is_same_v<T, GgufArray>)
            array(v);
          else
            number(v);
        },
        static_cast<const GgufValue::variant&>(value));
  }
  [[nodiscard]] std::string take(uint64_t alignment) {
    text_.resize(align_up(text_.size(), alignment), '\0');
    return std::move(text_);
  }
  void raw(std::string_view bytes) { text_ += bytes; }

 private:
  void array(const GgufArray& array) {
    number(static_cast<uint32_t>(array.kind));
    number(static_cast<uint64_t>(array.values.size()));
    for (const GgufValue& item : array.values) {
      if (item.kind() != array.kind)
        fail("[gguf] an array of {} holds a value of kind {}; all must be of one kind", name(array.kind),
             name(item.kind()));
      value(item);
    }
  }
  std::string text_;
};

}  // namespace

const GgufValue* find(const GgufMetadata& metadata, std::string_view key) {
  const auto found = std::ranges::find(metadata, key, &GgufMetadata::value_type::first);
  return found == metadata.end() ? nullptr : &found->second;
}

uint64_t alignment(const GgufMetadata& metadata, const std::string& where) {
  const GgufValue* value = find(metadata, kAlignmentKey);
  if (value == nullptr) return kDefaultAlignment;
  const std::optional<int64_t> number = value->integer();
  if (!number || *number < 8 || *number > (int64_t{1} << 20) ||
      !std::has_single_bit(static_cast<uint64_t>(*number)))
    fail<FormatError>("{}: {} is {}; it must be a power of two from 8 to 1048576", where, kAlignmentKey,
                      to_text(*value));
  return static_cast<uint64_t>(*number);
}

Header parse(const OpenedFile& file, const std::string& where) { return HeaderParser(file, where)(); }

std::string serialize(const GgufMetadata& metadata, const std::vector<GgufTensorInfo>& tensors) {
  const uint64_t step = alignment(metadata, "[gguf]");
  HeaderWriter out;
  out.raw(kMagic);
  out.number(uint32_t{3});
  out.number(static_cast<uint64_t>(tensors.size()));
  out.number(static_cast<uint64_t>(metadata.size()));
  std::set<std::string_view> seen;
  for (const auto& [key, value] : metadata) {
    if (!seen.insert(key).second) fail("[gguf] the metadata key {} is given twice", printable(key));
    out.text(key);
    out.number(static_cast<uint32_t>(value.kind()));
    out.value(value);
  }
  seen.clear();
  uint64_t offset = 0;
  for (const GgufTensorInfo& tensor : tensors) {
    if (!seen.insert(tensor.name).second) fail("[gguf] tensor {} is given twice", printable(tensor.name));
    if (tensor.name.size() > kLongestName)
      fail("[gguf] the name of tensor {} has {} bytes; the format allows {}", printable(tensor.name),
           tensor.name.size(), kLongestName);
    if (tensor.dims.size() > kMostDims)
      fail<ShapeError>("[gguf] tensor {} has {} dims; the format allows {}", printable(tensor.name),
                       tensor.dims.size(), kMostDims);
    out.text(tensor.name);
    out.number(static_cast<uint32_t>(tensor.dims.size()));
    for (size_t i = tensor.dims.size(); i-- > 0;) out.number(tensor.dims[i]);
    out.number(tensor.type->id);
    out.number(offset);
    offset = align_up(offset + static_cast<uint64_t>(tensor.size_bytes()), step);
  }
  return out.take(step);
}

}  // namespace luminal::gguf
