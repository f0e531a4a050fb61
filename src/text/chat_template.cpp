#include "luminal/text/chat_template.h"

#include "base/bounded_json.h"
#include "base/fail.h"
#include "text/jinja/evaluator.h"

namespace luminal::text {
namespace {

using OrderedJson = nlohmann::ordered_json;

jinja::Value template_value(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_integer:
      return json.get<int64_t>();
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return json.get<double>();
      return json.get<int64_t>();
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return json.get<std::string>();
    case OrderedJson::value_t::array: {
      jinja::List list;
      for (const OrderedJson& entry : json) list.push_back(template_value(entry));
      return jinja::Value::list(std::move(list));
    }
    case OrderedJson::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, entry] : json.items()) dict.set(key, template_value(entry));
      return jinja::Value::dict(std::move(dict));
    }
    default:
      return jinja::None{};
  }
}

jinja::Value read_json(std::string_view text) {
  try {
    return template_value(parse_bounded_json<OrderedJson>(text, "chat template"));
  } catch (const nlohmann::json::exception& error) {
    fail<FormatError>("[chat template] {} is not JSON: {}", text.substr(0, 64), error.what());
  }
}

}  // namespace

struct ChatTemplate::Parts {
  std::vector<jinja::Statement> program;
  TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::string_view source, TemplateLimits limits)
    : parts_(new Parts{jinja::parse(jinja::tokenize(source)), limits}) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::render(const ChatRequest& request, std::optional<std::tm> now) const {
  jinja::Dict variables;
  variables.set("messages", read_json(request.messages));
  variables.set("tools", request.tools.empty() ? jinja::Value(jinja::None{}) : read_json(request.tools));
  variables.set("documents", jinja::None{});
  variables.set("add_generation_prompt", request.add_generation_prompt);
  variables.set("bos_token", request.begin_token);
  variables.set("eos_token", request.end_token);
  if (!request.variables.empty()) {
    const jinja::Value further = read_json(request.variables);
    if (!further.mapping())
      fail<FormatError>("[chat template] the further variables are {}, not an object", further.kind());
    for (const auto& [name, value] : further.mapping()->entries()) variables.set(name, value);
  }
  return jinja::evaluate(parts_->program, variables, parts_->limits, now);
}

std::string ChatTemplate::render_json(std::string_view variables, std::optional<std::tm> now) const {
  const jinja::Value given = read_json(variables);
  if (!given.mapping())
    fail<FormatError>("[chat template] the variables are {}, not an object", given.kind());
  return jinja::evaluate(parts_->program, *given.mapping(), parts_->limits, now);
}

}  // namespace luminal::text
