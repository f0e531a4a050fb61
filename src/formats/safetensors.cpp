#include "luminal/safetensors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "formats/opened_file.h"
#include "formats/safetensors_header.h"

namespace luminal {
namespace {

std::string place(const std::filesystem::path& path) {
  return fmt::format("[safetensors] '{}'", path.string());
}

const safetensors::StoredDtype& stored(const std::string& name, Dtype dtype) {
  const auto types = safetensors::stored_dtypes();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const auto& type) { return type.dtype == dtype; });
  if (found == types.end())
    fail<DtypeError>(
        "[safetensors] tensor {} is {}, which the format cannot hold; cast it to a float type first",
        safetensors::printable(name), luminal::name(dtype));
  return *found;
}

/// One tensor to write: what the header says of it, and its bytes.
struct Planned {
  std::string name;
  safetensors::Entry entry;
  std::span<const std::byte> bytes;
};

Planned plan(const std::string& name, const TensorView& tensor) {
  if (name == "__metadata__")
    fail(
        "[safetensors] a tensor cannot be named '__metadata__', a name that the format reserves; choose "
        "another");
  Planned planned{name, {&stored(name, tensor.dtype), tensor.dims, 0, 0}, tensor.bytes};
  int64_t elements = 1;
  for (const int64_t dim : tensor.dims)
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements))
      fail<ShapeError>("[safetensors] tensor {} has impossible dims [{}]", safetensors::printable(name),
                       fmt::join(tensor.dims, ","));
  const auto needed = static_cast<size_t>(size_bytes(tensor.dtype, elements));
  if (needed != tensor.bytes.size())
    fail<ShapeError>("[safetensors] tensor {} of {}[{}] takes {} bytes, {} were given",
                     safetensors::printable(name), luminal::name(tensor.dtype), fmt::join(tensor.dims, ","),
                     needed, tensor.bytes.size());
  return planned;
}

}  // namespace

struct SafetensorsFile::Content {
  explicit Content(const std::filesystem::path& path)
      : where(place(path)), file(path, "safetensors"), header(read_header()) {
    for (const auto& [name, entry] : header.tensors) names.push_back(name);
  }

  [[nodiscard]] safetensors::Header read_header() const {
    std::array<std::byte, safetensors::kLengthBytes> first{};
    const auto begin = std::span(first).first(std::min(first.size(), file.size_bytes()));
    file.read(0, begin);
    std::string text(safetensors::header_bytes(begin, file.size_bytes(), where), '\0');
    file.read(first.size(), std::as_writable_bytes(std::span(text)));
    return safetensors::parse(text, file.size_bytes(), where);
  }

  [[nodiscard]] const safetensors::Entry& find(std::string_view name) const {
    const auto found = header.tensors.find(name);
    if (found == header.tensors.end())
      fail<FormatError>("{} has no tensor {}, but {} others{}", where, safetensors::printable(name),
                        names.size(), did_you_mean(name, names));
    if (!found->second.type->dtype)
      fail<DtypeError>("{}: tensor {} has the unsupported type {}; convert it before writing the file", where,
                       safetensors::printable(name), found->second.type->name);
    return found->second;
  }

  std::string where;
  OpenedFile file;
  safetensors::Header header;
  std::vector<std::string> names;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : content_(std::make_unique<Content>(path)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::vector<std::string>& SafetensorsFile::names() const { return content_->names; }
bool SafetensorsFile::contains(std::string_view name) const {
  return content_->header.tensors.contains(name);
}
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return content_->header.metadata;
}

TensorInfo SafetensorsFile::info(std::string_view name) const {
  const safetensors::Entry& entry = content_->find(name);
  return {*entry.type->dtype, entry.dims};
}

TensorData SafetensorsFile::read(std::string_view name) const {
  const safetensors::Entry& entry = content_->find(name);
  TensorData tensor(*entry.type->dtype, entry.dims);
  content_->file.read(content_->header.data_begin + entry.begin, tensor.bytes);
  if (tensor.dtype == Dtype::Bool)  // any other byte in a bool is undefined behaviour
    for (std::byte& byte : tensor.bytes) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
  return tensor;
}

void SafetensorsFile::read(std::string_view name, size_t offset, std::span<std::byte> out) const {
  const safetensors::Entry& entry = content_->find(name);
  const size_t size = entry.end - entry.begin;
  if (offset > size || out.size() > size - offset)
    fail<ShapeError>("{}: bytes {} to {} of tensor {} were asked for, which has {}", content_->where, offset,
                     offset + out.size(), safetensors::printable(name), size);
  if (!out.empty()) content_->file.read(content_->header.data_begin + entry.begin + offset, out);
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<Planned> order;
  for (const auto& [name, tensor] : tensors) order.push_back(plan(name, tensor));
  std::sort(order.begin(), order.end(), [](const Planned& a, const Planned& b) {
    return a.entry.type != b.entry.type ? a.entry.type > b.entry.type : a.name < b.name;
  });
  std::vector<std::pair<std::string, safetensors::Entry>> entries;
  size_t end = 0;
  for (Planned& planned : order) {
    planned.entry.begin = end;
    planned.entry.end = end += planned.bytes.size();
    entries.emplace_back(planned.name, planned.entry);
  }
  const std::string header = safetensors::serialize(entries, metadata);
  std::vector<std::string_view> pieces{header};
  for (const Planned& planned : order)
    pieces.emplace_back(reinterpret_cast<const char*>(planned.bytes.data()), planned.bytes.size());
  write_file_atomic(path, pieces);
}

}  // namespace luminal
