#include "serving/chat_messages.h"

#include <fmt/format.h>

#include "serving/api_error.h"

namespace luminal::serving {
namespace {

/// The texts of a content, which is a string or a list of parts.
std::string parse_content(const Json* given, const std::string& path) {
  if (given == nullptr) return {};
  if (given->is_string()) return given->get<std::string>();
  if (!given->is_array()) refuse_field(path, *given, "a string or a list of parts");
  std::string content;
  for (size_t i = 0; i < given->size(); ++i) {
    Fields part((*given)[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.text("type").value_or("");
    if (type != "text" && type != "refusal")
      refuse_field(part.path_of("type"), type, "\"text\": the model reads texts alone");
    content += part.text(type.c_str()).value_or("");
    part.finish();
  }
  return content;
}

/// Templates print arguments as JSON, so they are given what the string holds. What a model wrote need not be JSON: it
/// stays a string then.
Json arguments_in(const std::string& text) {
  if (text.empty()) return Json::object();
  try {
    return parse_json(text);
  } catch (const Json::exception&) {
    return text;
  }
}

Json parse_call(const Json& given, const std::string& path) {
  Fields call(given, path);
  const std::string id = call.text("id").value_or(""), type = call.text("type").value_or("function");
  if (type != "function") refuse_field(call.path_of("type"), type, "\"function\"");
  const Json* inner = call.object("function");
  if (inner == nullptr) refuse_field(call.path_of("function"), {}, "an object with a name and arguments");
  Fields function(*inner, call.path_of("function"));
  const auto name = function.text("name");
  if (!name || name->empty()) refuse_field(function.path_of("name"), {}, "the name of the tool");
  Json arguments = Json::object();
  if (const Json* given_arguments = function.any("arguments")) {
    arguments = *given_arguments;
    if (arguments.is_string()) arguments = arguments_in(arguments.get<std::string>());
  }
  function.finish();
  call.ignore({"index"});
  call.finish();
  return {
      {"id", id}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", std::move(arguments)}}}};
}

Json parse_message(const Json& given, const std::string& path) {
  Fields fields(given, path);
  const auto role = fields.text("role");
  if (!role || (*role != "system" && *role != "developer" && *role != "user" && *role != "assistant" &&
                *role != "tool"))
    refuse_field(fields.path_of("role"), role ? Json(*role) : Json(),
                 "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
  const Json* content = fields.any("content");
  // OpenAI's newer name of the same; templates know the older one.
  Json message{{"role", *role == "developer" ? "system" : *role},
               {"content", parse_content(content, fields.path_of("content"))}};
  const Json* calls = fields.list("tool_calls");
  if (calls != nullptr && !calls->empty()) {
    message["tool_calls"] = Json::array();
    for (size_t i = 0; i < calls->size(); ++i)
      message["tool_calls"].push_back(
          parse_call((*calls)[i], fmt::format("{}[{}]", fields.path_of("tool_calls"), i)));
  } else if (content == nullptr) {
    refuse_field(fields.path_of("content"), {}, "the text of the message");
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content"})
    if (const auto text = fields.text(name)) message[name] = *text;
  fields.ignore({"refusal", "audio", "annotations", "function_call"});
  fields.finish();
  return message;
}

Json parse_tool(const Json& given, const std::string& path) {
  Fields tool(given, path);
  if (const std::string type = tool.text("type").value_or(""); type != "function")
    refuse_field(tool.path_of("type"), type, "\"function\"");
  const Json* inner = tool.object("function");
  if (inner == nullptr) refuse_field(tool.path_of("function"), {}, "an object with a name and parameters");
  Fields function(*inner, tool.path_of("function"));
  const auto name = function.text("name");
  if (!name || name->empty()) refuse_field(function.path_of("name"), {}, "the name of the tool");
  (void)function.text("description");
  (void)function.object("parameters");
  function.ignore({"strict"});
  function.finish();
  tool.finish();
  return given;
}

bool has_tool(const Json& tools, const std::string& name) {
  return std::ranges::any_of(tools, [&](const Json& tool) { return tool["function"]["name"] == name; });
}

void parse_tool_choice(const Json& choice, ChatRequest& request) {
  const std::string wanted = "\"none\", \"auto\", \"required\" or the function of a tool";
  if (choice == "none") {
    request.tools = nullptr;
  } else if (choice == "required") {
    request.must_call = true;
  } else if (choice.is_object()) {
    Fields fields(choice, "tool_choice");
    if (fields.text("type") != "function") refuse_field("tool_choice", choice, wanted);
    const Json* inner = fields.object("function");
    if (inner == nullptr) refuse_field("tool_choice.function", {}, "an object with a name");
    Fields function(*inner, "tool_choice.function");
    request.called_tool = function.text("name").value_or("");
    function.finish();
    fields.finish();
    if (!has_tool(request.tools, request.called_tool))
      refuse_field("tool_choice.function.name", request.called_tool, "the name of one of 'tools'");
    request.must_call = true;
  } else if (choice != "auto") {
    refuse_field("tool_choice", choice, wanted);
  }
}

}  // namespace

Json parse_messages(Fields& fields) {
  const Json* given = fields.list("messages");
  if (given == nullptr || given->empty())
    refuse_field("messages", given == nullptr ? Json() : *given, "at least one message");
  Json messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i)
    messages.push_back(parse_message((*given)[i], fmt::format("messages[{}]", i)));
  return messages;
}

void parse_tools(Fields& fields, ChatRequest& request) {
  constexpr size_t kMostTools = 128;
  const Json* tools = fields.list("tools");
  const Json* choice = fields.any("tool_choice");
  request.several_calls = fields.flag("parallel_tool_calls").value_or(true);
  if (tools == nullptr || tools->empty()) {
    if (choice != nullptr && *choice != "none" && *choice != "auto")
      throw ApiError(400, "'tool_choice' needs 'tools'; give at least one", "tool_choice");
    return;
  }
  if (tools->size() > kMostTools) refuse_field("tools", *tools, fmt::format("at most {} tools", kMostTools));
  request.tools = Json::array();
  for (size_t i = 0; i < tools->size(); ++i)
    request.tools.push_back(parse_tool((*tools)[i], fmt::format("tools[{}]", i)));
  if (choice != nullptr) parse_tool_choice(*choice, request);
}

}  // namespace luminal::serving
