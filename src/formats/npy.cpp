#include "luminal/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/fail.h"
#include "base/file.h"
#include "formats/zip.h"

namespace luminal {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // of the numbers behind the header, by the format

/// NumPy's code without the byte order: "f4", "u1", "b1"; empty where NumPy has no such type.
std::string npy_code(Dtype dtype) {
  if (dtype == Dtype::BF16 || is_quantized(dtype)) return {};
  const char kind = is_float(dtype) ? 'f' : dtype == Dtype::Bool ? 'b' : is_signed(dtype) ? 'i' : 'u';
  return fmt::format("{}{}", kind, element_bytes(dtype));
}
std::string all_npy_codes() {
  std::vector<std::string> codes;
  for (const Dtype dtype : kPlainDtypes)
    if (const std::string code = npy_code(dtype); !code.empty()) codes.push_back(code);
  return fmt::format("{}", fmt::join(codes, ", "));
}

struct Header {
  Dtype dtype = Dtype::F32;
  bool swapped = false, fortran = false;
  std::vector<int64_t> dims;
};

/// What a header's Python dictionary says: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Header read() {
    Header header;
    bool type = false, order = false, shape = false;
    take('{');
    while (!accept('}')) {
      const std::string key = quoted();
      take(':');
      if (key == "descr") {
        read_type(header);
        type = true;
      } else if (key == "fortran_order") {
        header.fortran = truth();
        order = true;
      } else if (key == "shape") {
        header.dims = tuple();
        shape = true;
      } else {
        damaged(fmt::format("unexpected key '{}'", key));
      }
      if (!accept(',') && peek() != '}') damaged("a comma is missing");
    }
    if (!type || !order || !shape) damaged("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void damaged(const std::string& why) const {
    fail<FormatError>("{}: the header is damaged: {}; write the file again", where_, why);
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!accept(c)) damaged(fmt::format("'{}' is missing at byte {}", c, at_));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') damaged(fmt::format("a text is missing at byte {}", at_));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) damaged("a string is not closed");
    const std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool truth() {
    blanks();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    damaged("fortran_order is neither True nor False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    take('(');
    while (!accept(')')) {
      blanks();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) damaged("a dim is not a number of at least 0");
      at_ = static_cast<size_t>(end - text_.data());
      accept('L');  // as Python 2 wrote them
      dims.push_back(dim);
      if (!accept(',') && peek() != ')') damaged("a comma is missing in the shape");
    }
    return dims;
  }
  void read_type(Header& header) {
    if (peek() != '\'' && peek() != '"')
      fail<DtypeError>("{}: it holds records of several fields; save one array for each field", where_);
    const std::string code = quoted();
    const std::string_view kind = std::string_view(code).substr(code.empty() ? 0 : 1);
    const auto type = std::ranges::find(kPlainDtypes, kind, npy_code);
    if (kind.empty() || type == kPlainDtypes.end() ||
        std::string_view("<>|=").find(code.front()) == std::string_view::npos)
      fail<DtypeError>("{}: unsupported type '{}'; save it as one of {}", where_, code, all_npy_codes());
    header.dtype = *type;
    header.swapped = code.front() == '>' && element_bytes(*type) > 1;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

void swap_bytes(TensorData& tensor) {
  const auto width = static_cast<size_t>(element_bytes(tensor.dtype));
  for (size_t at = 0; at + width <= tensor.bytes.size(); at += width)
    std::reverse(tensor.bytes.begin() + static_cast<ptrdiff_t>(at),
                 tensor.bytes.begin() + static_cast<ptrdiff_t>(at + width));
}

/// From the first axis running fastest to the last one.
TensorData row_major(const TensorData& columns) {
  TensorData rows(columns.dtype, columns.dims);
  const auto width = static_cast<size_t>(element_bytes(columns.dtype));
  std::vector<int64_t> at(columns.dims.size(), 0);
  for (int64_t from = 0; from < columns.element_count(); ++from) {
    int64_t to = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) to = to * columns.dims[axis] + at[axis];
    std::memcpy(rows.bytes.data() + static_cast<size_t>(to) * width,
                columns.bytes.data() + static_cast<size_t>(from) * width, width);
    for (size_t axis = 0; axis < at.size() && ++at[axis] == columns.dims[axis]; ++axis) at[axis] = 0;
  }
  return rows;
}

TensorData parse(std::string_view file, const std::string& where) {
  if (!file.starts_with(kMagic) || file.size() < 10)
    fail<FormatError>("{}: this is not an .npy file; give a file that numpy.save wrote", where);
  const int version = file[6];
  const size_t width = version == 1 ? 2 : 4, start = 8 + width;
  if (version < 1 || version > 3 || file.size() < start)
    fail<FormatError>("{}: unknown format version {}; save it with another version of NumPy", where, version);
  size_t length = 0;
  for (size_t i = width; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[8 + i]);
  if (length > file.size() - start)
    fail<FormatError>("{}: the header of {} bytes does not fit; the file is truncated", where, length);
  const Header header = Dictionary(file.substr(start, length), where).read();
  int64_t bytes = element_bytes(header.dtype);
  for (const int64_t dim : header.dims)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes))
      fail<FormatError>("{}: dims [{}] are impossible; the file is damaged", where,
                        fmt::join(header.dims, ","));
  if (std::ranges::find(header.dims, 0) != header.dims.end()) bytes = 0;
  const std::string_view content = file.substr(start + length);
  if (static_cast<uint64_t>(bytes) != content.size())
    fail<FormatError>("{}: dims [{}] take {} bytes, and {} follow; the file is damaged", where,
                      fmt::join(header.dims, ","), bytes, content.size());
  TensorData tensor(header.dtype, header.dims);
  if (!content.empty()) std::memcpy(tensor.bytes.data(), content.data(), content.size());
  if (tensor.dtype == Dtype::Bool)  // any other byte in a bool is undefined behaviour
    for (std::byte& byte : tensor.bytes) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
  if (header.swapped) swap_bytes(tensor);
  return header.fortran && header.dims.size() > 1 ? row_major(tensor) : tensor;
}

std::string formatted(const TensorData& tensor, const std::string& where) {
  tensor.check_bytes("npy");
  const std::string code = npy_code(tensor.dtype);
  if (code.empty())
    fail<DtypeError>("{}: the format has no dtype {}; cast it to f32 first", where, name(tensor.dtype));
  std::string shape;
  for (const int64_t dim : tensor.dims) shape += fmt::format("{}, ", dim);
  if (tensor.dims.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.dims.size() == 1) shape.pop_back();
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   element_bytes(tensor.dtype) > 1 ? '<' : '|', code, shape);
  const size_t start = kMagic.size() + 4;
  header.append(kAlignment - 1 - (start + header.size()) % kAlignment, ' ');
  header.push_back('\n');
  std::string file(kMagic);
  file += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file += header;
  file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return file;
}

}  // namespace

TensorData read_npy(const std::filesystem::path& path, size_t limit_bytes) {
  return parse(read_file(path, limit_bytes), fmt::format("[npy] '{}'", path.string()));
}

void write_npy(const std::filesystem::path& path, const TensorData& tensor) {
  write_file_atomic(path, formatted(tensor, fmt::format("[npy] '{}'", path.string())));
}

std::map<std::string, TensorData> read_npz(const std::filesystem::path& path, size_t limit_bytes) {
  const std::string where = fmt::format("[npz] '{}'", path.string());
  std::map<std::string, TensorData> tensors;
  for (const auto& [member, content] : unzip(read_file(path, limit_bytes), where, limit_bytes)) {
    const std::string name = member.ends_with(".npy") ? member.substr(0, member.size() - 4) : member;
    tensors.emplace(name, parse(content, fmt::format("{}, '{}'", where, name)));
  }
  return tensors;
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, TensorData>& tensors,
               bool compressed) {
  std::map<std::string, std::string> members;
  for (const auto& [name, tensor] : tensors)
    members.emplace(name + ".npy", formatted(tensor, fmt::format("[npz] '{}', '{}'", path.string(), name)));
  write_file_atomic(path, zip(members, compressed));
}

}  // namespace luminal
