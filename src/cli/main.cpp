#include <iostream>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
  luminal::cli::Console console{std::cout, std::cerr};
  return luminal::cli::run(std::vector<std::string>(argv + 1, argv + argc), console);
}
