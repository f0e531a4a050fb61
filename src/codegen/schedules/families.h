#pragma once
#include "codegen/schedule.h"

namespace luminal::codegen {

/// The families: a file and a line each. The order decides between equal predictions; `nest`, which takes
/// every spec, is the last.
#define LUMINAL_SCHEDULES(family)                                                                         \
  family(block_contract) family(block_reduce) family(block_row) family(block_map) family(contract)        \
      family(stream) family(phases) family(routed) family(dot) family(reduce) family(row) family(moments) \
          family(pick) family(map) family(nest)

#define LUMINAL_DECLARE_SCHEDULE(family) [[nodiscard]] const Schedule& family##_schedule();
LUMINAL_SCHEDULES(LUMINAL_DECLARE_SCHEDULE)
#undef LUMINAL_DECLARE_SCHEDULE

}  // namespace luminal::codegen
