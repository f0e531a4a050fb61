#include "luminal/idx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/fail.h"
#include "base/file.h"
#include "formats/gzip.h"

namespace luminal {
namespace {

/// The type byte of the format. i16 is the one type that Luminal does not have.
struct IdxType {
  uint8_t code;
  int bytes;
  Dtype dtype;
};
constexpr std::array kIdxTypes{IdxType{0x08, 1, Dtype::U8},  IdxType{0x09, 1, Dtype::I8},
                               IdxType{0x0b, 2, Dtype::I32}, IdxType{0x0c, 4, Dtype::I32},
                               IdxType{0x0d, 4, Dtype::F32}, IdxType{0x0e, 8, Dtype::F64}};

struct IdxHeader {
  IdxType type{};
  std::vector<int64_t> dims;
  size_t elements = 0;
};

/// Swaps between the file's big-endian numbers and this machine's little-endian ones.
void swap_elements(std::span<std::byte> bytes, size_t width) {
  for (size_t i = 0; width > 1 && i < bytes.size(); i += width)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + width));
}

IdxType type_of(uint8_t code, const std::string& where) {
  for (const IdxType& type : kIdxTypes)
    if (type.code == code) return type;
  fail<FormatError>(
      "{}: type byte 0x{:02x} is not an IDX type (0x08, 0x09, 0x0b to 0x0e); the file is damaged", where,
      code);
}

IdxHeader read_header(GzipSource& source, const std::string& where) {
  std::array<std::byte, 4> magic{};
  if (const size_t got = source.read(magic); got < magic.size())
    fail<FormatError>("{} has {} bytes, but an IDX file has at least 4; the file is truncated or not IDX",
                      where, got);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0})
    fail<FormatError>(
        "{} starts with bytes {:02x} {:02x}, but an IDX file with 00 00; this is not an IDX file", where,
        std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]));
  IdxHeader header{type_of(std::to_integer<uint8_t>(magic[2]), where), {}, 1};
  const auto rank = std::to_integer<size_t>(magic[3]);
  if (rank == 0) fail<FormatError>("{} declares no dims; an IDX file has at least one", where);
  for (size_t axis = 0; axis < rank; ++axis) {
    std::array<std::byte, 4> bytes{};
    if (source.read(bytes) < bytes.size())
      fail<FormatError>("{} ends within its {} dims; the file is truncated", where, rank);
    uint32_t dim = 0;
    for (const std::byte byte : bytes) dim = dim << 8 | std::to_integer<uint32_t>(byte);
    header.dims.push_back(dim);
  }
  // Dims beside a 0 must fit too: whoever multiplies them later shall not overflow.
  int64_t elements = 1;
  for (const int64_t dim : header.dims)
    if (__builtin_mul_overflow(elements, std::max<int64_t>(dim, 1), &elements))
      fail<FormatError>("{}: dims [{}] are impossible; the file is damaged", where,
                        fmt::join(header.dims, ","));
  const bool empty = std::find(header.dims.begin(), header.dims.end(), 0) != header.dims.end();
  header.elements = empty ? 0 : static_cast<size_t>(elements);
  return header;
}

/// Checks the size that the header promises against what the file can hold, before anything is allocated.
size_t checked_bytes(const IdxHeader& header, const GzipSource& source, size_t limit_bytes,
                     const std::string& where) {
  size_t needed = 0;
  if (__builtin_mul_overflow(header.elements, static_cast<size_t>(header.type.bytes), &needed) ||
      needed > limit_bytes)
    fail<FormatError>(
        "{}: dims [{}] take more than the {} bytes allowed here; raise the limit if this is intended", where,
        fmt::join(header.dims, ","), limit_bytes);
  if (needed > source.most_left())
    fail<FormatError>("{}: dims [{}] take {} bytes, but at most {} follow; the file is truncated", where,
                      fmt::join(header.dims, ","), needed, source.most_left());
  return needed;
}

TensorData widened(const TensorData& narrow, const std::vector<int64_t>& dims) {
  TensorData wide(Dtype::I32, dims);
  const auto target = wide.as<int32_t>();
  for (size_t i = 0; i < target.size(); ++i) {
    int16_t value = 0;
    std::memcpy(&value, narrow.bytes.data() + 2 * i, sizeof value);
    target[i] = value;
  }
  return wide;
}

}  // namespace

TensorData read_idx(const std::filesystem::path& path, size_t limit_bytes) {
  const std::string where = fmt::format("[idx] '{}'", path.string());
  const std::string file = read_file(path, limit_bytes + 4 + 4 * 255);
  GzipSource source(file, where);
  const IdxHeader header = read_header(source, where);
  const size_t needed = checked_bytes(header, source, limit_bytes, where);

  TensorData tensor;
  tensor.dtype = header.type.dtype;
  tensor.dims = header.dims;
  tensor.bytes.resize(needed);
  if (const size_t got = source.read(tensor.bytes); got < needed)
    fail<FormatError>("{}: dims [{}] take {} bytes, but {} follow; the file is truncated", where,
                      fmt::join(header.dims, ","), needed, got);
  std::byte extra{};
  if (source.read({&extra, 1}) > 0)
    fail<FormatError>("{}: more bytes follow than the {} that dims [{}] take; the file is oversized", where,
                      needed, fmt::join(header.dims, ","));
  swap_elements(tensor.bytes, static_cast<size_t>(header.type.bytes));
  return header.type.bytes == 2 ? widened(tensor, header.dims) : tensor;
}

void write_idx(const std::filesystem::path& path, const TensorData& tensor, bool gzipped) {
  const auto type = std::find_if(kIdxTypes.begin(), kIdxTypes.end(), [&](const IdxType& candidate) {
    return candidate.dtype == tensor.dtype && candidate.bytes == element_bytes(tensor.dtype);
  });
  if (type == kIdxTypes.end())
    fail<DtypeError>("[idx] '{}': the format has no dtype {}; cast to u8, i8, i32, f32 or f64 first",
                     path.string(), name(tensor.dtype));
  if (tensor.dims.empty() || tensor.dims.size() > 255)
    fail<ShapeError>("[idx] '{}': rank {} does not fit the format, which has 1 to 255 dims", path.string(),
                     tensor.dims.size());
  std::string content{'\0', '\0', static_cast<char>(type->code), static_cast<char>(tensor.dims.size())};
  for (const int64_t dim : tensor.dims) {
    if (dim < 0 || dim > 0xffffffffLL)
      fail<ShapeError>("[idx] '{}': dim {} does not fit into 32 bits", path.string(), dim);
    for (int shift = 24; shift >= 0; shift -= 8) content.push_back(static_cast<char>(dim >> shift & 0xff));
  }
  TensorData::Bytes bytes = tensor.bytes;
  swap_elements(bytes, static_cast<size_t>(type->bytes));
  content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  write_file_atomic(path, gzipped ? gzip(content) : content);
}

}  // namespace luminal
