#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/gguf.h"

/// What a file says of a model, whichever kind of file it is.
namespace luminal::models {

/// A fact's names: in GGUF metadata, behind "<architecture>.", and in config.json, with '/' between levels.
/// Empty: that kind of file does not have it.
struct FactKey {
  std::string_view gguf, huggingface;
};

/// Thread safety: any number of threads may read one.
class Facts {
 public:
  /// The metadata must live longer. `context`: tokens that will be seen at most, on which some rotary positions depend.
  Facts(const GgufMetadata& metadata, std::string architecture, int64_t context);
  Facts(nlohmann::json config, int64_t context) : config_(std::move(config)), context_(context) {}

  [[nodiscard]] bool is_gguf() const { return gguf_ != nullptr; }
  [[nodiscard]] int64_t context() const { return context_; }
  // Nothing where the file does not say it, or says null. Errors: FormatError for a value of another kind.
  [[nodiscard]] std::optional<int64_t> integer(FactKey key) const;
  [[nodiscard]] std::optional<double> number(FactKey key) const;
  [[nodiscard]] std::optional<bool> flag(FactKey key) const;
  [[nodiscard]] std::optional<std::string> text(FactKey key) const;
  [[nodiscard]] std::vector<double> numbers(FactKey key) const;
  [[nodiscard]] std::vector<std::string> texts(FactKey key) const;

 private:
  [[nodiscard]] std::string name_of(FactKey key) const;
  [[nodiscard]] nlohmann::json find(FactKey key) const;
  const GgufMetadata* gguf_ = nullptr;
  std::string prefix_;
  nlohmann::json config_;
  int64_t context_;
};

}  // namespace luminal::models
