#include "serving/tool_calls.h"

#include <fmt/format.h>

#include "luminal/text/json_schema.h"
#include "serving/api_error.h"

namespace luminal::serving {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kList = "[TOOL_CALLS]",
                           kPython = "<|python_tag|>";
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::vector<std::string> openers(ToolStyle style) {
  if (style == ToolStyle::Tagged) return {std::string(kOpen)};
  if (style == ToolStyle::Listed) return {std::string(kList)};
  return {std::string(kPython)};
}

/// Nothing if it is none.
std::optional<ToolCall> call_in(const Json& value) {
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) return std::nullopt;
  for (const char* name : {"arguments", "parameters"}) {
    const auto found = value.find(name);
    if (found == value.end()) continue;
    return ToolCall{value["name"], found->is_string() ? found->get<std::string>() : json_text(*found)};
  }
  return std::nullopt;
}

/// All of a text that is an object, or a list of them; nothing if a part is no call.
std::optional<std::vector<ToolCall>> calls_in(std::string_view text) {
  Json value;
  try {
    value = parse_json(trimmed(text));
  } catch (const std::exception&) {
    return std::nullopt;
  }
  std::vector<ToolCall> calls;
  for (const Json& each : value.is_array() ? value : Json::array({value})) {
    std::optional<ToolCall> call = call_in(each);
    if (!call) return std::nullopt;
    calls.push_back(std::move(*call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

std::optional<std::vector<ToolCall>> tagged_calls(std::string_view text) {
  std::vector<ToolCall> calls;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (!text.starts_with(kOpen)) return std::nullopt;
    text.remove_prefix(kOpen.size());
    const size_t end = std::min(text.find(kClose), text.size());  // the last tag may be an end token
    const auto found = calls_in(text.substr(0, end));
    if (!found) return std::nullopt;
    calls.insert(calls.end(), found->begin(), found->end());
    text.remove_prefix(std::min(text.size(), end + kClose.size()));
  }
  return calls;
}

Json schema_of_call(const Json& function, ToolStyle style) {
  const auto parameters = function.find("parameters");
  const Json values = parameters == function.end() || parameters->is_null()
                          ? Json{{"type", "object"}, {"properties", Json::object()}}
                          : *parameters;
  const char* arguments = style == ToolStyle::Plain ? "parameters" : "arguments";
  return {{"type", "object"},
          {"properties", {{"name", {{"const", function.at("name")}}}, {arguments, values}}},
          {"required", {"name", arguments}}};
}

}  // namespace

std::optional<ToolStyle> tool_style_of(std::string_view chat_template) {
  const auto has = [&](std::string_view what) { return chat_template.find(what) != std::string_view::npos; };
  if (!has("tools")) return std::nullopt;
  if (has(kOpen)) return ToolStyle::Tagged;
  if (has(kList)) return ToolStyle::Listed;
  return ToolStyle::Plain;
}

std::string tool_call_grammar(const Json& tools, const std::string& name, ToolStyle style, bool several) {
  Json choices = Json::array();
  for (const Json& tool : tools)
    if (name.empty() || tool.at("function").at("name") == name)
      choices.push_back(schema_of_call(tool.at("function"), style));
  // The call is the whole text of this grammar, and a part of that which is returned.
  std::string grammar = text::json_schema_grammar(Json{{"anyOf", choices}}.dump());
  constexpr std::string_view kRoot = "root ::=";
  const size_t root = grammar.starts_with(kRoot) ? 0 : grammar.find("\n" + std::string(kRoot)) + 1;
  grammar.replace(root, kRoot.size(), "tool-call ::=");
  switch (style) {
    case ToolStyle::Tagged: {
      const std::string one = fmt::format(R"("{}\n" tool-call "\n{}")", kOpen, kClose);
      return fmt::format("root ::= {}{}\n{}", one, several ? fmt::format(" (\"\\n\" {})*", one) : "",
                         grammar);
    }
    case ToolStyle::Listed:
      return fmt::format("root ::= \"{}\" \" \"? \"[\" tool-call{} \"]\"\n{}", kList,
                         several ? " (\", \" tool-call)*" : "", grammar);
    case ToolStyle::Plain:
      return "root ::= tool-call\n" + grammar;
  }
  return grammar;
}

ToolReader::ToolReader(ToolStyle style) : style_(style), before_(openers(style)) {}

std::string ToolReader::push(std::string_view piece) {
  all_ += piece;
  if (style_ == ToolStyle::Plain && !decided_) {
    // An object from its first character on is a call, or the whole is a text.
    const std::string_view text = trimmed(all_);
    if (text.empty()) return {};
    decided_ = true;
    plain_text_ = text.front() != '{';
    if (plain_text_) return before_.push(all_);
    return {};
  }
  if (style_ == ToolStyle::Plain && !plain_text_) return {};
  return before_.push(piece);
}

std::vector<ToolCall> ToolReader::finish(std::string& text) {
  if (!before_.stopped()) text += before_.finish();
  const std::string_view rest = std::string_view(all_).substr(before_.passed());
  if (rest.empty()) return {};
  std::optional<std::vector<ToolCall>> calls;
  if (style_ == ToolStyle::Tagged)
    calls = tagged_calls(rest);
  else if (style_ == ToolStyle::Listed)
    calls = calls_in(rest.starts_with(kList) ? rest.substr(kList.size()) : rest);
  else
    calls = calls_in(rest.starts_with(kPython) ? rest.substr(kPython.size()) : rest);
  if (calls) return *calls;
  text += rest;
  return {};
}

}  // namespace luminal::serving
