#include <iostream>
#include <vector>

#include "cli/command.h"
#include "cli/descriptors.h"

int main(int argc, char** argv) {
  luminal::cli::open_missing_descriptors();
  luminal::cli::Console console{std::cout, std::cerr};
  return luminal::cli::run(std::vector<std::string>(argv + 1, argv + argc), console);
}
