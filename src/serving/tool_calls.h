#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/json.h"
#include "serving/stop_filter.h"

namespace luminal::serving {

/// How a model writes that it calls a tool. Its chat template shows it.
enum class ToolStyle : uint8_t {
  Tagged,  ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>, once for each call: Hermes, Qwen
  Listed,  ///< [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]: Mistral
  Plain    ///< {"name": ..., "parameters": {...}} is the whole answer: Llama 3
};

/// Nothing if the template does not know tools.
[[nodiscard]] std::optional<ToolStyle> tool_style_of(std::string_view chat_template);

/// A grammar of answers that are calls: of the tool `name`, or of any of them if that is empty. Errors: as
/// text::json_schema_grammar, for the parameters of a tool.
[[nodiscard]] std::string tool_call_grammar(const Json& tools, const std::string& name, ToolStyle style,
                                            bool several);

struct ToolCall {
  std::string name, arguments;  ///< the arguments as JSON
};

/// Reads an answer piece by piece: what is no call is text.
class ToolReader {
 public:
  explicit ToolReader(ToolStyle style);
  /// Text that certainly belongs to no call.
  [[nodiscard]] std::string push(std::string_view piece);
  /// At the end: the calls. Where what looked like a call is none, it is text.
  [[nodiscard]] std::vector<ToolCall> finish(std::string& text);

 private:
  ToolStyle style_;
  StopFilter before_;                          ///< the text before the first call
  std::string all_;                            ///< all that was pushed
  bool decided_ = false, plain_text_ = false;  ///< Plain: whether the answer is a text
};

}  // namespace luminal::serving
