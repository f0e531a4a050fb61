#pragma once
#include <memory>

#include "luminal/session.h"
#include "search/pipeline.h"

namespace luminal::search {

/// Compiles graphs for a device (pipeline.h). A graph with named dims gets a plan for each bucket of sizes,
/// on first use; at most eight live at once.
[[nodiscard]] std::shared_ptr<Session> make_session(BackEnd target);

}  // namespace luminal::search
