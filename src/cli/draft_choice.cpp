#include "cli/draft_choice.h"

#include <CLI/CLI.hpp>

#include "base/fail.h"

namespace luminal::cli {

void declare_drafts(CLI::App& app, DraftChoice& choice) {
  app.add_option("--spec-type", choice.type,
                 "Guess tokens and check several in one step: none, ngram-simple (by what followed the last "
                 "tokens before) or draft-simple (by --model-draft, which implies it)");
  app.add_option("--model-draft,--spec-draft-model", choice.model,
                 "A smaller model with the same tokenizer, which guesses tokens");
  app.add_option("--draft-max,--spec-draft-n-max", choice.most, "Tokens that are guessed at once at most")
      ->capture_default_str();
  app.add_option("--draft-p-min,--spec-draft-p-min", choice.least_probability,
                 "The draft model stops guessing at a token less probable than this")
      ->capture_default_str();
}

std::unique_ptr<models::Drafter> open_drafter(const DraftChoice& choice, const ModelChoice& like,
                                              models::LanguageModel& model) {
  const std::string type = !choice.type.empty()   ? choice.type
                           : choice.model.empty() ? "none"
                                                  : "draft-simple";
  if (type != "none" && type != "ngram-simple" && type != "draft-simple")
    fail("[draft] --spec-type is '{}'; choose none, ngram-simple or draft-simple", type);
  if ((type == "draft-simple") == choice.model.empty())
    fail("[draft] --spec-type is {} and --model-draft '{}'; a draft model goes with draft-simple alone", type,
         choice.model);
  if (type == "none") return nullptr;
  if (type == "ngram-simple") return std::make_unique<models::LookUpDrafter>();
  ModelChoice draft = like;
  draft.model = choice.model;
  draft.context = model.context();
  return std::make_unique<models::ModelDrafter>(open_language_model(draft), model, choice.least_probability);
}

}  // namespace luminal::cli
