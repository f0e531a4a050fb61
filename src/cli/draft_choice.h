#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "cli/model_choice.h"
#include "luminal/models/speculation.h"

/// How tokens are guessed, for commands that generate text.
namespace luminal::cli {

struct DraftChoice {
  std::string type;   ///< "none", "ngram-simple", "draft-simple"; empty: as `model` says
  std::string model;  ///< a smaller one with the same tokenizer
  int64_t most = models::SpeculativeModel::kUsualDrafts;
  double least_probability = 0.75;
};
/// Declares options with llama.cpp's names.
void declare_drafts(CLI::App& app, DraftChoice& choice);
/// What guesses for `model`, a draft model opened as `like` says; nothing if nothing does. Errors: Error for a type that
/// is not known or lacks its model; as LanguageModel and ModelDrafter.
[[nodiscard]] std::unique_ptr<models::Drafter> open_drafter(const DraftChoice& choice,
                                                            const ModelChoice& like,
                                                            models::LanguageModel& model);

}  // namespace luminal::cli
