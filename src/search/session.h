#pragma once
#include <memory>

#include "backends/device.h"
#include "luminal/search_options.h"
#include "luminal/session.h"
#include "search/choose.h"

namespace luminal::search {

/// What a session needs to know of its device and of how kernels are chosen.
struct SessionParts {
  std::string device;
  std::shared_ptr<backends::Device> backend;
  /// Chooses kernels in a mode; null: by the model (choose_by_model) in every mode.
  std::function<Choose(const CompilationMode& mode)> chooser;
};

/// Compiles graphs for a device: encode, saturate, cover, choose, compile, plan. A graph with named dims gets
/// a variant for each bucket of sizes, on first use; at most eight live at once.
[[nodiscard]] std::shared_ptr<Session> make_session(SessionParts parts);

/// Adds a device that compiles graphs: to the registry of devices, and as a session of the same name.
void register_device(const std::string& name, std::function<std::shared_ptr<backends::Device>()> make);

}  // namespace luminal::search
