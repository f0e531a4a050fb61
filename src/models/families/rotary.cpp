#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fail.h"
#include "models/families/family.h"

// How files stretch rotary positions beyond the length that a model was first trained with. Sources: linear
// (Chen et al. 2023), YaRN (Peng et al. 2023), LongRoPE (Ding et al. 2024), Llama 3.1 (Grattafiori et al. 2024);
// names and defaults as in transformers' modeling_rope_utils.
namespace luminal::models {
namespace {

using nlohmann::json;

/// The facts of rotary positions, whose places in config.json changed over time: "rope_parameters", with a level for
/// each kind of layer or without, or "rope_scaling" beside "rope_theta".
class RotaryFacts {
 public:
  RotaryFacts(const Facts& facts, std::string_view kind) : facts_(facts) {
    const std::string nested = "rope_parameters/" + std::string(kind) + "/";
    const auto has = [&](const std::string& place) {
      return !facts.is_gguf() && facts.number({"", place + "rope_theta"}).has_value();
    };
    if (!kind.empty() && has(nested))
      place_ = nested;
    else if (has("rope_parameters/"))
      place_ = "rope_parameters/";
  }
  [[nodiscard]] std::optional<double> number(std::string_view gguf, const std::string& name) const {
    const std::string place = name.empty() ? "" : place_ + name;
    return facts_.number({gguf, place});
  }
  [[nodiscard]] double base() const {
    const auto stated = place_ == kOld ? facts_.number({"rope.freq_base", "rope_theta"})
                                       : number("rope.freq_base", "rope_theta");
    return stated.value_or(10'000);
  }
  [[nodiscard]] std::string type() const {
    std::optional<std::string> type = facts_.text({"rope.scaling.type", place_ + "rope_type"});
    if (!type) type = facts_.text({"", place_ + "type"});
    return type.value_or("default");
  }
  [[nodiscard]] double share() const {
    const auto here = number("", "partial_rotary_factor");
    return here ? *here : facts_.number({"", "partial_rotary_factor"}).value_or(1);
  }
  [[nodiscard]] std::vector<double> factors(bool long_text, const SmallTensor& tensor) const {
    if (facts_.is_gguf()) return tensor(long_text ? "rope_factors_long.weight" : "rope_factors_short.weight");
    return facts_.numbers({"", place_ + (long_text ? "long_factor" : "short_factor")});
  }
  [[nodiscard]] double original_context(int64_t trained) const {
    const auto here = number("rope.scaling.original_context_length", "original_max_position_embeddings");
    if (here) return *here;
    return facts_.number({"", "original_max_position_embeddings"}).value_or(static_cast<double>(trained));
  }
  [[nodiscard]] bool flag(const std::string& name, bool otherwise) const {
    return facts_.flag({"", place_ + name}).value_or(otherwise);
  }

 private:
  static constexpr std::string_view kOld = "rope_scaling/";
  const Facts& facts_;
  std::string place_{kOld};
};

void stretch_yarn(Rotary& rotary, const RotaryFacts& facts, double base, double factor, double original,
                  bool truncates) {
  const auto size = static_cast<double>(2 * rotary.frequencies.size());
  const auto turns_at = [&](double turns) {
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = turns_at(facts.number("rope.scaling.yarn_beta_fast", "beta_fast").value_or(32));
  double high = turns_at(facts.number("rope.scaling.yarn_beta_slow", "beta_slow").value_or(1));
  if (facts.flag("truncate", truncates)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < rotary.frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rotary.frequencies[i] *= stretched / factor + (1 - stretched);
  }
  const auto length = [&](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
  const auto mscale = facts.number("", "mscale"), of_all = facts.number("", "mscale_all_dim");
  const double usual =
      mscale && of_all && *mscale != 0 && *of_all != 0 ? length(*mscale) / length(*of_all) : length(1);
  rotary.magnitude = facts.number("", "attention_factor").value_or(usual) *
                     facts.number("rope.scaling.attn_factor", "").value_or(1);
}

void stretch_llama3(Rotary& rotary, const RotaryFacts& facts, double factor, double original) {
  const double low = facts.number("", "low_freq_factor").value_or(1);
  const double high = facts.number("", "high_freq_factor").value_or(4);
  for (double& frequency : rotary.frequencies) {
    const double turns = original * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency *= kept + (1 - kept) / factor;
  }
}

void divide_by(Rotary& rotary, const std::vector<double>& factors, std::string_view what) {
  if (factors.size() != rotary.frequencies.size())
    fail<FormatError>("[model] the file has {} {} for {} rotary frequencies; give one for each",
                      factors.size(), what, rotary.frequencies.size());
  for (size_t i = 0; i < factors.size(); ++i) rotary.frequencies[i] /= factors[i];
}

void stretch_longrope(Rotary& rotary, const RotaryFacts& facts, const SmallTensor& tensor, double original,
                      int64_t trained, int64_t context) {
  divide_by(rotary, facts.factors(static_cast<double>(context) > original, tensor), "factors");
  const double factor = static_cast<double>(trained) / original;
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  rotary.magnitude = facts.number("rope.scaling.attn_factor", "attention_factor").value_or(usual);
}

/// The base of plain positions, from the second frequency of so many.
double base_of(const std::vector<double>& frequencies) {
  if (frequencies.size() < 2) return 10'000;
  return std::pow(frequencies[1], -static_cast<double>(frequencies.size()));
}

/// Llama 3's scaling with these factors by frequency: the greatest is that of the lowest frequencies, and those
/// between are a line in the frequency, from low_freq_factor = 1 on.
json llama3_scaling(const Rotary& plain, const std::vector<double>& factors, int64_t trained) {
  const double factor = *std::ranges::max_element(factors);
  std::vector<std::pair<double, double>> between;  // frequency, share of it that is kept
  for (size_t i = 0; i < factors.size() && factor > 1; ++i)
    if (factors[i] > 1 + 1e-6 && factors[i] < factor * (1 - 1e-6))
      between.emplace_back(plain.frequencies[i], (1 / factors[i] - 1 / factor) / (1 - 1 / factor));
  double low = 1, high = 4, original = std::min<double>(8192, static_cast<double>(trained));
  if (between.size() >= 2) {
    const auto [f0, kept0] = between.front();
    const auto [f1, kept1] = between.back();
    const double slope = (kept0 - kept1) / (f0 - f1),
                 offset = kept0 - slope * f0;  // kept = slope * f + offset
    if (offset < 0) {
      high = low - low / offset;
      original = std::round(slope * (high - low) * 2 * std::numbers::pi);
    }
  }
  return {{"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", low},
          {"high_freq_factor", std::round(high * 1e4) / 1e4},
          {"original_max_position_embeddings", static_cast<int64_t>(original)}};
}

json longrope_scaling(const RotaryFacts& facts, const SmallTensor& tensor) {
  json scaling{{"rope_type", "longrope"},
               {"short_factor", facts.factors(false, tensor)},
               {"long_factor", facts.factors(true, tensor)}};
  if (const auto magnitude = facts.number("rope.scaling.attn_factor", ""))
    scaling["attention_factor"] = *magnitude;
  return scaling;
}

}  // namespace

RotaryMetadata rotary_metadata(const DecoderOptions& options, const Facts& config) {
  RotaryMetadata result;
  const Rotary& rotary = options.rotary;
  if (rotary.frequencies.empty()) return result;
  const RotaryFacts facts(config, "full_attention");
  const std::string type = facts.type();
  const double factor = facts.number("", "factor").value_or(1);
  const auto say = [&](const char* key, GgufValue value) { result.keys.emplace_back(key, std::move(value)); };
  const auto number = [&](const char* key, double value) { say(key, GgufValue(static_cast<float>(value))); };
  const auto size = 2 * static_cast<int64_t>(rotary.frequencies.size());
  say("rope.dimension_count", GgufValue(static_cast<uint32_t>(size)));
  number("rope.freq_base", facts.base());
  const auto original = [&] {
    say("rope.scaling.original_context_length",
        GgufValue(static_cast<uint32_t>(facts.original_context(options.context))));
  };
  const auto factors_of = [&](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  if (type == "linear" || type == "yarn") {
    say("rope.scaling.type", GgufValue(type));
    number("rope.scaling.factor", factor);
  }
  if (type == "yarn") {
    original();
    for (const auto& [key, name] : {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"),
                                    std::pair("rope.scaling.yarn_beta_slow", "beta_slow")})
      if (const auto stated = facts.number("", name)) number(key, *stated);
    const double usual = factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
    if (std::abs(rotary.magnitude / usual - 1) > 1e-9)
      number("rope.scaling.attn_factor", rotary.magnitude / usual);
  } else if (type == "longrope" || type == "su") {
    original();
    number("rope.scaling.attn_factor", rotary.magnitude);
    for (const bool is_long : {false, true})
      result.tensors.emplace_back(is_long ? "rope_factors_long.weight" : "rope_factors_short.weight",
                                  factors_of(facts.factors(is_long, {})));
  } else if (type == "llama3") {
    std::vector<double> factors = plain_rotary(size, facts.base()).frequencies;
    for (size_t i = 0; i < factors.size(); ++i) factors[i] /= rotary.frequencies[i];
    result.tensors.emplace_back("rope_freqs.weight", factors_of(factors));
  }
  const std::vector<double>& local = options.local_rotary.frequencies;
  if (options.window > 0 && !local.empty() && local != rotary.frequencies)
    number("rope.freq_base_swa", base_of(local));
  return result;
}

void configure_rotary(const DecoderOptions& options, const Facts& file, const SmallTensor& tensor,
                      json& config) {
  if (options.rotary.frequencies.empty()) return;
  const RotaryFacts facts(file, "");
  const auto size = 2 * static_cast<int64_t>(options.rotary.frequencies.size());
  config["rope_theta"] = facts.base();
  if (size != options.head_size)
    config["partial_rotary_factor"] = static_cast<double>(size) / static_cast<double>(options.head_size);
  json scaling;
  const std::string type = facts.type();
  if (const std::vector<double> factors = tensor("rope_freqs.weight"); !factors.empty()) {
    scaling = llama3_scaling(plain_rotary(size, facts.base()), factors, options.context);
  } else if (!tensor("rope_factors_long.weight").empty()) {
    scaling = longrope_scaling(facts, tensor);
    config["original_max_position_embeddings"] =
        static_cast<int64_t>(facts.original_context(options.context));
  } else if (type == "linear" || type == "yarn") {
    scaling = {{"rope_type", type}, {"factor", facts.number("rope.scaling.factor", "").value_or(1)}};
    if (type == "yarn") {
      scaling["original_max_position_embeddings"] =
          static_cast<int64_t>(facts.original_context(options.context));
      for (const auto& [key, name] : {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"),
                                      std::pair("rope.scaling.yarn_beta_slow", "beta_slow")})
        if (const auto stated = facts.number(key, "")) scaling[name] = *stated;
      if (facts.number("rope.scaling.attn_factor", ""))
        scaling["attention_factor"] = options.rotary.magnitude;
    }
  }
  config["rope_scaling"] = scaling;
  if (options.window > 0 && options.local_rotary.frequencies != options.rotary.frequencies)
    config["rope_local_base_freq"] = base_of(options.local_rotary.frequencies);
}

Rotary plain_rotary(int64_t size, double base) {
  Rotary rotary;
  for (int64_t i = 0; i < size / 2; ++i)
    rotary.frequencies.push_back(std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(size)));
  return rotary;
}

Rotary rotary_of(const DecoderOptions& options, const Facts& given, const SmallTensor& tensor,
                 std::string_view kind, bool truncates) {
  const RotaryFacts facts(given, kind);
  const auto of_share = static_cast<int64_t>(static_cast<double>(options.head_size) * facts.share());
  const int64_t size = given.integer({"rope.dimension_count", ""}).value_or(of_share);
  if (size < 0 || size > options.head_size)
    fail<FormatError>("[model] rotary positions turn {} elements of heads of {}", size, options.head_size);
  const double base = facts.base();
  if (!(base > 1)) fail<FormatError>("[model] the base of rotary positions is {}; give more than 1", base);
  Rotary rotary = plain_rotary(size, base);
  const std::string type = facts.type();
  const double factor = facts.number("rope.scaling.factor", "factor").value_or(1);
  const double original = facts.original_context(options.context);
  if (!(factor > 0) || !(original > 1))
    fail<FormatError>("[model] rotary positions are stretched {} times from {} tokens", factor, original);
  if (const std::vector<double> factors =
          given.is_gguf() ? tensor("rope_freqs.weight") : std::vector<double>();
      !factors.empty())
    divide_by(rotary, factors, "rope_freqs");
  else if (given.is_gguf() && !tensor("rope_factors_long.weight").empty())  // the type is seldom stated
    stretch_longrope(rotary, facts, tensor, original, options.context, given.context());
  else if (type == "linear")
    for (double& frequency : rotary.frequencies) frequency /= factor;
  else if (type == "llama3")
    stretch_llama3(rotary, facts, factor, original);
  else if (type == "yarn")
    stretch_yarn(rotary, facts, base, factor, original, truncates);
  else if (type == "longrope" || type == "su")
    stretch_longrope(rotary, facts, tensor, original, options.context, given.context());
  else if (type != "default" && type != "none")
    fail<FormatError>(
        "[model] rotary positions of type '{}' are not known; known are linear, llama3, yarn, longrope",
        type);
  return rotary;
}

}  // namespace luminal::models
