#pragma once
#include <functional>
#include <memory>
#include <string>

#include "luminal/session.h"
#include "search/pipeline.h"

namespace luminal::search {

/// Compiles graphs for a device (pipeline.h). A graph with named dims gets a plan for each bucket of sizes,
/// on first use; at most eight live at once.
[[nodiscard]] std::shared_ptr<Session> make_session(BackEnd target);

/// Adds a device that compiles graphs: to the registry of devices, and as a session of the same name.
void register_device(const std::string& name, std::function<std::shared_ptr<backends::Device>()> make);

}  // namespace luminal::search
