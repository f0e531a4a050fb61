#pragma once

#include "serving/fields.h"
#include "serving/requests.h"

namespace luminal::serving {

/// The messages of a chat as templates take them: contents are strings, arguments of calls objects.
/// Errors: ApiError 400 that names the field, "messages[2].content".
[[nodiscard]] Json parse_messages(Fields& fields);
/// The fields `tools`, `tool_choice` and `parallel_tool_calls`. Errors: as above.
void parse_tools(Fields& fields, ChatRequest& request);

}  // namespace luminal::serving
