#include "luminal/models/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/team.h"
#include "luminal/block_format.h"
#include "models/gguf_source.h"
#include "models/importance.h"
#include "models/quantize_mix.h"

namespace luminal::models {
namespace {

constexpr int64_t kTurn = 1 << 16;  ///< elements of a thread's turn: whole blocks of every format

int64_t bytes_of(const GgufType& type, int64_t elements) {
  return elements / type.block_elements * type.block_bytes;
}

/// Elements of one type as f32.
void widen(const GgufType& type, std::span<const std::byte> bytes, std::span<float> values) {
  if (is_quantized(*type.dtype)) {
    decode_blocks(block_format(*type.dtype), bytes, values);
    return;
  }
  visit_dtype(*type.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(value);
    }
  });
}

/// f32 to elements of one type. `importance`: as encode_blocks takes it.
void narrow(const GgufType& type, std::span<const float> values, std::span<const float> importance,
            std::span<std::byte> bytes) {
  if (is_quantized(*type.dtype)) {
    encode_blocks(block_format(*type.dtype), values, bytes, importance);
    return;
  }
  visit_dtype(*type.dtype, [&]<class T>(T) {
    for (size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      if (std::isfinite(values[i]) && !std::isfinite(static_cast<float>(value)))
        fail("it holds {}, which {} cannot; choose BF16 or F32", values[i], type.name);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
}

/// One importance for each input of each matrix, repeated for all of the matrix's rows.
class ImportanceRows {
 public:
  ImportanceRows(const Importance& all, const GgufTensorInfo& tensor) {
    const auto found = all.find(tensor.name);
    if (found == all.end()) return;
    row_ = tensor.dims.back();
    rows_ = tensor.dims[tensor.dims.size() - 2];
    const int64_t matrices = tensor.element_count() / std::max<int64_t>(1, row_ * rows_);
    if (std::ssize(found->second) != row_ * matrices)
      fail("[quantize] the importance matrix has {} numbers for '{}', which has {} inputs in {} matrices",
           found->second.size(), tensor.name, row_, matrices);
    values_ = found->second;
  }
  /// Of elements `begin` and those behind it; nothing without importances.
  void take(int64_t begin, size_t count, std::vector<float>& to) const {
    to.clear();
    if (values_.empty()) return;
    for (size_t i = 0; i < count; ++i) {
      const int64_t element = begin + static_cast<int64_t>(i), matrix = element / (row_ * rows_);
      to.push_back(values_[static_cast<size_t>(matrix * row_ + element % row_)]);
    }
  }

 private:
  std::span<const float> values_;
  int64_t row_ = 0, rows_ = 0;
};

/// A tensor's bytes in another type, made by all threads.
std::vector<std::byte> converted(const GgufTensorInfo& tensor, const GgufType& to,
                                 std::span<const std::byte> bytes, const ImportanceRows& importance) {
  const int64_t total = tensor.element_count();
  std::vector<std::byte> result(static_cast<size_t>(bytes_of(to, total)));
  std::atomic<int64_t> next{0};
  Team::shared().run(Team::shared().size(), [&](int) {
    std::vector<float> values, weights;
    for (int64_t begin = 0; (begin = next.fetch_add(kTurn)) < total;) {
      throw_if_cancelled();
      const int64_t count = std::min(kTurn, total - begin);
      const auto part = [&](const GgufType& type, auto all) {
        return all.subspan(static_cast<size_t>(bytes_of(type, begin)),
                           static_cast<size_t>(bytes_of(type, count)));
      };
      values.resize(static_cast<size_t>(count));
      widen(*tensor.type, part(*tensor.type, bytes), values);
      importance.take(begin, values.size(), weights);
      narrow(to, values, weights, part(to, std::span(result)));
    }
  });
  return result;
}

MixFacts facts_of(const GgufMetadata& metadata) {
  MixFacts facts;
  const GgufValue* architecture = find_metadata(metadata, "general.architecture");
  const auto* text = architecture ? std::get_if<std::string>(architecture) : nullptr;
  if (!text) fail<FormatError>("[quantize] the file does not say its 'general.architecture'; it is no model");
  facts.architecture = *text;
  const auto number = [&](std::string_view key) {
    const GgufValue* value = find_metadata(metadata, fmt::format("{}.{}", *text, key));
    return value ? value->integer().value_or(0) : 0;
  };
  facts.layers = number("block_count"), facts.experts = number("expert_count");
  facts.heads = number("attention.head_count"), facts.kv_heads = number("attention.head_count_kv");
  return facts;
}

void check_source(const GgufTensorInfo& tensor, const GgufType& to, const QuantizeOptions& options) {
  const std::optional<Dtype> dtype = tensor.type->dtype;
  if (!dtype || !(is_float(*dtype) || is_quantized(*dtype)))
    fail<FormatError>("[quantize] '{}' is {}; weights are floats or blocks of them", tensor.name,
                      tensor.type->name);
  if (is_quantized(*dtype) && !options.allow_requantize)
    fail(
        "[quantize] '{}' is {} already, and making {} of it loses more; start from a file of floats, or "
        "allow it "
        "(--allow-requantize)",
        tensor.name, tensor.type->name, to.name);
}

const GgufType* type_or_none(const std::string& name) {
  if (name.empty()) return nullptr;
  const GgufType& type = gguf_type(name);
  const bool possible = type.dtype && (is_quantized(*type.dtype) ? can_encode(block_format(*type.dtype))
                                                                 : is_float(*type.dtype));
  if (!possible) fail<DtypeError>("[quantize] {} cannot be made; choose another type", type.name);
  return &type;
}

}  // namespace

std::vector<std::string> quantize_types() {
  std::vector<std::string> names;
  for (const QuantizeMix& mix : quantize_mixes()) names.emplace_back(mix.name);
  return names;
}

QuantizeReport quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              std::string_view type, const QuantizeOptions& options) {
  const QuantizeMix& mix = quantize_mix(type);
  const std::unique_ptr<GgufSource> source = open_gguf_source(from);
  const Importance importance =
      options.importance.empty() ? Importance() : read_importance(options.importance);
  MixFacts facts = facts_of(source->metadata());
  facts.has_importance = !importance.empty();
  const auto [types, smaller_blocks] = mixed_types({.mix = &mix,
                                                    .output = type_or_none(options.output_type),
                                                    .embedding = type_or_none(options.embedding_type),
                                                    .pure = options.pure},
                                                   facts, source->tensors());
  GgufMetadata metadata = source->metadata();
  set_metadata(metadata, "general.quantization_version", GgufValue(uint32_t{2}));
  set_metadata(metadata, "general.file_type", GgufValue(mix.file_type));
  std::vector<GgufTensorInfo> tensors = source->tensors();
  QuantizeReport report{.smaller_blocks = smaller_blocks};
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (types[i] != tensors[i].type) check_source(tensors[i], *types[i], options);
    report.bytes_before += tensors[i].size_bytes();
    tensors[i].type = types[i];
    report.bytes_after += tensors[i].size_bytes();
    report.elements += tensors[i].element_count();
    ++report.tensors;
  }
  GgufWriter writer(to, metadata, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    throw_if_cancelled();
    const GgufTensorInfo& stored = source->tensors()[i];
    std::vector<std::byte> bytes = source->read(i);
    if (types[i] != stored.type) {
      const ImportanceRows rows(importance, stored);
      try {
        bytes = converted(stored, *types[i], bytes, rows);
      } catch (const Cancelled&) {
        throw;
      } catch (const Error& error) {
        fail("[quantize] '{}': {}", stored.name, error.what());
      }
    }
    writer.append(bytes);
    if (options.progress)
      options.progress({stored.name, std::string(stored.type->name), std::string(types[i]->name), stored.dims,
                        i + 1, tensors.size()});
  }
  writer.finish();
  return report;
}

}  // namespace luminal::models
