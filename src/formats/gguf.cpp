#include "luminal/gguf.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/fail.h"
#include "base/file.h"
#include "base/suggest.h"
#include "formats/gguf_header.h"
#include "formats/safetensors_header.h"
#include "luminal/block_format.h"

namespace luminal {
namespace {

using safetensors::printable;

constexpr std::string_view kSplitNumber = "split.no", kSplitCount = "split.count";
constexpr int64_t kMostFiles = 99999;  // five digits in names

struct OpenedGguf {
  explicit OpenedGguf(const std::filesystem::path& path)
      : where(fmt::format("[gguf] '{}'", path.string())),
        file(path, "gguf"),
        header(gguf::parse(file, where)) {}

  /// What a key of a split model says; 0 without it.
  [[nodiscard]] int64_t split(std::string_view key) const {
    const GgufValue* value = gguf::find(header.metadata, key);
    if (value == nullptr) return 0;
    const auto number = value->integer();
    if (!number || *number < 0 || *number > kMostFiles)
      fail<FormatError>("{}: {} is {}; it must be a number from 0 to {}", where, key, to_text(*value),
                        kMostFiles);
    return *number;
  }

  std::string where;
  OpenedFile file;
  gguf::Header header;
};

constexpr size_t kPieceElements = size_t{1} << 18;  ///< decoded at a time

template <class T>
void numbers_to_f32(std::span<const std::byte> bytes, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

void plain_to_f32(const GgufTensorInfo& tensor, std::span<const std::byte> bytes, std::span<float> out) {
  if (tensor.type->dtype)
    visit_dtype(*tensor.type->dtype, [&]<class T>(T) { numbers_to_f32<T>(bytes, out); });
  else if (tensor.type->name == "I16")
    numbers_to_f32<int16_t>(bytes, out);
  else
    LUMINAL_CHECK(false, "the type {} has no decoder", tensor.type->name);
}

/// "model-00002-of-00003.gguf" for the file of index 1 of 3.
std::string split_suffix(int64_t index, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

/// All files of the model that `path` belongs to, in order.
std::vector<std::unique_ptr<OpenedGguf>> open_all(const std::filesystem::path& path) {
  auto given = std::make_unique<OpenedGguf>(path);
  const int64_t count = given->split(kSplitCount), number = given->split(kSplitNumber);
  std::vector<std::unique_ptr<OpenedGguf>> files;
  if (count <= 1) {
    files.push_back(std::move(given));
    return files;
  }
  const std::string file_name = path.filename().string(), suffix = split_suffix(number, count);
  if (number >= count || !file_name.ends_with(suffix))
    fail<FormatError>("{} is file {} of {} of a split model, so its name must end with '{}'", given->where,
                      number + 1, count, suffix);
  const std::string stem = file_name.substr(0, file_name.size() - suffix.size());
  for (int64_t i = 0; i < count; ++i) {
    if (i == number)
      files.push_back(std::move(given));
    else
      files.push_back(std::make_unique<OpenedGguf>(path.parent_path() / (stem + split_suffix(i, count))));
    const OpenedGguf& file = *files.back();
    if (file.split(kSplitCount) != count || file.split(kSplitNumber) != i)
      fail<FormatError>("{} says that it is file {} of {}, but its name says {} of {}", file.where,
                        file.split(kSplitNumber) + 1, file.split(kSplitCount), i + 1, count);
  }
  return files;
}

}  // namespace

struct GgufFile::Content {
  struct Place {
    size_t tensor = 0, file = 0, begin = 0;
  };

  explicit Content(const std::filesystem::path& path) : files(open_all(path)) {
    metadata = std::move(files.front()->header.metadata);
    if (files.size() > 1)
      std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("split."); });
    for (size_t f = 0; f < files.size(); ++f) {
      gguf::Header& header = files[f]->header;
      for (size_t i = 0; i < header.tensors.size(); ++i) {
        const auto [at, is_new] =
            places.try_emplace(header.tensors[i].name, Place{tensors.size(), f, header.begins[i]});
        if (!is_new)
          fail<FormatError>("{}: tensor {} is in '{}' too", files[f]->where, printable(at->first),
                            files[at->second.file]->where);
        tensors.push_back(std::move(header.tensors[i]));
      }
    }
  }

  [[nodiscard]] const Place& find(std::string_view name) const {
    const auto found = places.find(name);
    if (found != places.end()) return found->second;
    std::vector<std::string> names;
    for (const GgufTensorInfo& tensor : tensors) names.push_back(tensor.name);
    fail<FormatError>("{} has no tensor {}, but {} others{}", files.front()->where, printable(name),
                      names.size(), did_you_mean(name, names));
  }

  std::vector<std::unique_ptr<OpenedGguf>> files;
  GgufMetadata metadata;
  std::vector<GgufTensorInfo> tensors;
  std::map<std::string, Place, std::less<>> places;
};

GgufFile::GgufFile(const std::filesystem::path& path) : content_(std::make_unique<Content>(path)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

uint32_t GgufFile::version() const { return content_->files.front()->header.version; }
size_t GgufFile::file_count() const { return content_->files.size(); }
size_t GgufFile::size_bytes() const {
  size_t sum = 0;
  for (const auto& opened : content_->files) sum += opened->file.size_bytes();
  return sum;
}
const GgufMetadata& GgufFile::metadata() const { return content_->metadata; }
const GgufValue* GgufFile::find(std::string_view key) const { return gguf::find(content_->metadata, key); }
const std::vector<GgufTensorInfo>& GgufFile::tensors() const { return content_->tensors; }
const GgufTensorInfo& GgufFile::tensor(std::string_view name) const {
  return content_->tensors[content_->find(name).tensor];
}

void GgufFile::read(std::string_view name, size_t offset, std::span<std::byte> out) const {
  const Content::Place& place = content_->find(name);
  const auto size = static_cast<size_t>(content_->tensors[place.tensor].size_bytes());
  if (offset > size || out.size() > size - offset)
    fail<ShapeError>("[gguf] bytes {} to {} of tensor {} were asked for, which has {}", offset,
                     offset + out.size(), printable(name), size);
  if (!out.empty()) content_->files[place.file]->file.read(place.begin + offset, out);
}

TensorData GgufFile::read(std::string_view name) const {
  const GgufTensorInfo& info = tensor(name);
  if (!info.type->dtype)
    fail<DtypeError>("[gguf] tensor {} is {}, which is no dtype of Luminal; read_f32() decodes it",
                     printable(name), info.type->name);
  TensorData data(*info.type->dtype, info.dims);
  read(name, 0, data.bytes);
  return data;
}

TensorData GgufFile::read_f32(std::string_view name) const {
  const GgufTensorInfo& info = tensor(name);
  TensorData result(Dtype::F32, info.dims);
  const std::span<float> values = result.as<float>();
  const BlockFormat* const format = find_block_format(info.type->name);
  const size_t block_elements = format != nullptr ? static_cast<size_t>(format->block_elements) : 1;
  const auto block_bytes = static_cast<size_t>(info.type->block_bytes);
  const size_t piece = kPieceElements / block_elements * block_elements;
  std::vector<std::byte> bytes;
  for (size_t begin = 0; begin < values.size(); begin += piece) {
    const auto out = values.subspan(begin, std::min(piece, values.size() - begin));
    bytes.resize(out.size() / block_elements * block_bytes);
    read(name, begin / block_elements * block_bytes, bytes);
    if (format != nullptr)
      decode_blocks(*format, bytes, out);
    else
      plain_to_f32(info, bytes, out);
  }
  return result;
}

int64_t GgufTensorInfo::element_count() const {
  int64_t count = 1;
  for (const int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      fail<ShapeError>("[gguf] tensor {} has impossible dims [{}]", printable(name), fmt::join(dims, ","));
  return count;
}

int64_t GgufTensorInfo::size_bytes() const {
  const int64_t elements = element_count(), row = dims.empty() ? 1 : dims.back();
  if (row % type->block_elements != 0)
    fail<ShapeError>("[gguf] tensor {} of {}[{}] has rows of {} elements, which are not whole blocks of {}",
                     printable(name), type->name, fmt::join(dims, ","), row, type->block_elements);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / type->block_elements, int64_t{type->block_bytes}, &bytes))
    fail<ShapeError>("[gguf] tensor {} has impossible dims [{}]", printable(name), fmt::join(dims, ","));
  return bytes;
}

struct GgufWriter::State {
  State(const std::filesystem::path& path, const GgufMetadata& metadata, std::vector<GgufTensorInfo> planned)
      : step(gguf::alignment(metadata, "[gguf]")), tensors(std::move(planned)) {
    const std::string header = gguf::serialize(metadata, tensors);
    file.emplace(path);
    file->write(header);
    skip_full();
  }

  /// Goes on to the first tensor that lacks bytes, and pads those that are full.
  void skip_full() {
    while (current < tensors.size() && done == static_cast<uint64_t>(tensors[current].size_bytes())) {
      file->write(std::string(gguf::align_up(done, step) - done, '\0'));
      done = 0;
      ++current;
    }
  }

  uint64_t step;
  std::vector<GgufTensorInfo> tensors;
  std::optional<AtomicFile> file;
  size_t current = 0;
  uint64_t done = 0;  ///< bytes of the current tensor
};

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::vector<GgufTensorInfo> tensors)
    : state_(std::make_unique<State>(path, metadata, std::move(tensors))) {}
GgufWriter::~GgufWriter() = default;

void GgufWriter::append(std::span<const std::byte> piece) {
  if (piece.empty()) return;
  if (state_->current == state_->tensors.size())
    fail<ShapeError>("[gguf] {} bytes come after the last tensor, which has all of its own", piece.size());
  const GgufTensorInfo& tensor = state_->tensors[state_->current];
  const uint64_t lacking = static_cast<uint64_t>(tensor.size_bytes()) - state_->done;
  if (piece.size() > lacking)
    fail<ShapeError>("[gguf] tensor {} lacks {} bytes, {} were given", printable(tensor.name), lacking,
                     piece.size());
  state_->file->write({reinterpret_cast<const char*>(piece.data()), piece.size()});
  state_->done += piece.size();
  state_->skip_full();
}

void GgufWriter::finish() {
  if (state_->current < state_->tensors.size())
    fail<ShapeError>("[gguf] the file lacks bytes from tensor {} on, of which it has {}",
                     printable(state_->tensors[state_->current].name), state_->done);
  state_->file->commit();
}

std::string_view name(GgufKind kind) {
  constexpr std::array<std::string_view, 13> kNames{"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                    "bool", "text", "array", "u64", "i64", "f64"};
  return kNames.at(static_cast<size_t>(kind));
}

bool operator==(const GgufArray& a, const GgufArray& b) { return a.kind == b.kind && a.values == b.values; }

// Not std::variant's, whose constraints clang 19 follows in circles through the array of values.
bool operator==(const GgufValue& a, const GgufValue& b) {
  using Alternatives = GgufValue::variant;
  return a.index() == b.index() &&
         std::visit([&]<class T>(const T& value) { return value == *std::get_if<T>(&b); },
                    static_cast<const Alternatives&>(a));
}

std::optional<int64_t> GgufValue::integer() const {
  return std::visit(
      []<class T>(const T& v) -> std::optional<int64_t> {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
          if (std::in_range<int64_t>(v)) return static_cast<int64_t>(v);
        return {};
      },
      static_cast<const variant&>(*this));
}

std::string to_text(const GgufValue& value, size_t max_items) {
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    std::vector<std::string> items;
    for (const GgufValue& item : std::span(array->values).first(std::min(max_items, array->values.size())))
      items.push_back(to_text(item, max_items));
    if (items.size() < array->values.size()) items.emplace_back("...");
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  return std::visit(
      []<class T>(const T& v) -> std::string {
        if constexpr (std::is_arithmetic_v<T>)
          return fmt::format("{}", v);
        else
          return {};
      },
      static_cast<const GgufValue::variant&>(value));
}

}  // namespace luminal
