#pragma once
#include <memory>
#include <vector>

#include "backends/opencl/kernel.h"

namespace luminal::backends::opencl {

/// `at_once`: tasks of a stage that share the list's scratch memory, where they have workspaces of their own.
[[nodiscard]] std::unique_ptr<LaunchList> make_list(std::vector<ListedLaunch> launches, int64_t at_once);
[[nodiscard]] std::unique_ptr<Stream> make_queue(std::shared_ptr<const Card> card);
[[nodiscard]] std::unique_ptr<Event> make_mark();
/// Errors: DeviceError if one of them is not complete.
[[nodiscard]] double microseconds_between(const Event& from, const Event& to);

}  // namespace luminal::backends::opencl
