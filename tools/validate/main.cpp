#include <cstdio>
#include <exception>

#include "validate/cases/case.h"

// luminal_validate DEVICE FOLDER: runs every case and leaves inputs and results for compare.py.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: luminal_validate DEVICE FOLDER\n");
    return 2;
  }
  try {
    const auto suite = luminal::validate::all_specs();
    luminal::validate::write_cases(luminal::validate::cases_of(suite), argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "luminal_validate: %s\n", error.what());
    return 1;
  }
}
