#pragma once

namespace luminal::cli {

/// Opens /dev/null in the place of standard input, output and error where the program was started without
/// them (`luminal ... >&-`): the next file that is opened would get their number, and be written to in their
/// stead.
void open_missing_descriptors();

}  // namespace luminal::cli
