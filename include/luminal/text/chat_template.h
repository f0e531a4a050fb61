#pragma once
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Chat templates: what turns messages into the one text that a model was trained on.
///
///   text::ChatTemplate chat(spec.chat_template);
///   std::string prompt = chat.render({.messages = R"([{"role": "user", "content": "Hi"}])",
///                                     .add_generation_prompt = true, .begin_token = spec.begin_token});
///
/// The language is Jinja, rendered to the same bytes as Python's jinja2 with the settings of `transformers`
/// (trim_blocks, lstrip_blocks, loop controls, raise_exception, strftime_now, its tojson). Not read are
/// inheritance, imports, call blocks and auto-escaping, which no chat template uses.
namespace luminal::text {

struct ChatRequest {
  std::string messages = "[]";                   ///< JSON: a list of objects with role and content
  bool add_generation_prompt = false;            ///< end where the model's answer begins
  std::string begin_token = {}, end_token = {};  ///< bos_token and eos_token
  std::string tools = {};                        ///< JSON; empty for none
  std::string variables = {};  ///< JSON: an object with further variables, such as enable_thinking
};

struct TemplateLimits {
  size_t steps = 10'000'000;  ///< nodes evaluated, and characters made divided by 16
  size_t output_bytes = size_t{1} << 26;
};

/// Thread safety: any number of threads may render one.
class ChatTemplate {
 public:
  /// Errors: FormatError with the line of what is not understood.
  explicit ChatTemplate(std::string_view source, TemplateLimits limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// `now`, local time, is what strftime_now prints; without it the clock's.
  /// Errors: FormatError for JSON that is none; Error for what the template raises, for operations on values that
  /// do not have them, and past the limits, with the line.
  [[nodiscard]] std::string render(const ChatRequest& request, std::optional<std::tm> now = {}) const;
  /// The same with all variables in one JSON object.
  [[nodiscard]] std::string render_json(std::string_view variables, std::optional<std::tm> now = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace luminal::text
