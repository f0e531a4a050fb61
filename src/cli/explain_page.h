#pragma once
#include <string>

#include "luminal/compile_report.h"

namespace luminal::cli {

/// The report as one HTML page without any outside reference: phases as a bar, kernels as a table with bars
/// of their share of the time and of the roofline, and for each kernel its spec, rejected alternatives,
/// loops, source, assembly.
[[nodiscard]] std::string explain_page(const std::string& title, const CompileReport& report);

}  // namespace luminal::cli
