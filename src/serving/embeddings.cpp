#include "serving/embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "serving/api_error.h"
#include "serving/fields.h"

namespace luminal::serving {
namespace {

constexpr size_t kMostTexts = 2048, kTextsOfATurn = 16;

std::vector<std::string> parse_texts(Fields& fields) {
  const Json* given = fields.any("input");
  const std::string wanted = fmt::format("a string or up to {} strings, none of them empty", kMostTexts);
  if (given == nullptr) refuse_field("input", {}, wanted);
  const Json list = given->is_string() ? Json::array({*given}) : *given;
  if (!list.is_array() || list.empty() || list.size() > kMostTexts) refuse_field("input", *given, wanted);
  std::vector<std::string> texts;
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) refuse_field("input", text, wanted);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

Json vector_json(const std::vector<float>& values, bool base64) {
  if (!base64) return values;
  return base64_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

}  // namespace

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t three = 0;
    for (size_t i = 0; i < 3; ++i)
      three = three << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) text += at + i <= bytes.size() ? kDigits[three >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

EmbeddingRequest parse_embedding_request(const Json& body, int64_t size) {
  Fields fields(body);
  EmbeddingRequest request;
  request.model = fields.text("model").value_or("");
  request.texts = parse_texts(fields);
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    refuse_field("encoding_format", format, "\"float\" or \"base64\"");
  request.base64 = format == "base64";
  if (const auto dimensions = fields.whole("dimensions", 1); dimensions && *dimensions != size)
    refuse_field("dimensions", *dimensions, fmt::format("{}, or leave it out: vectors are not cut", size));
  fields.ignore({"user"});
  fields.finish();
  return request;
}

Json Embedder::answer(const EmbeddingRequest& request, const std::function<void()>& go_on) {
  Json data = Json::array();
  int64_t tokens = 0;
  for (std::span<const std::string> rest(request.texts); !rest.empty();) {
    go_on();
    const auto part = rest.first(std::min(rest.size(), kTextsOfATurn));
    rest = rest.subspan(part.size());
    std::vector<models::Embedding> found;
    {
      const std::lock_guard turn(turn_);
      found = model_.embed(part);
    }
    for (const models::Embedding& each : found) {
      tokens += each.tokens;
      data.push_back({{"object", "embedding"},
                      {"index", data.size()},
                      {"embedding", vector_json(each.values, request.base64)}});
    }
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", name_},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

}  // namespace luminal::serving
