#include <cstdio>
#include <exception>

#include "validate/cases/case.h"

// luminal_validate PLACE FOLDER: runs the cases, on "cpu:optimal" a sample of them, and leaves inputs and
// results for compare.py.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: luminal_validate PLACE FOLDER\n");
    return 2;
  }
  try {
    using namespace luminal::validate;
    const Suite suite = all_specs();
    const Place place = Place::parse(argv[1]);
    std::vector<Case> cases = cases_of(suite);
    if (place.optimal) cases = sample_of(cases);
    write_cases(cases, place, argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "luminal_validate: %s\n", error.what());
    return 1;
  }
}
