#include "luminal/tuning.h"

#include "base/fail.h"
#include "search/cache/cache.h"

namespace luminal {

using search::Cache;

TuningState tuning_state() {
  Cache& cache = Cache::of_process();
  const Cache::Statistics counted = cache.statistics();
  return {.file = cache.file(),
          .choices = counted.choices,
          .objects = counted.objects,
          .object_bytes = counted.bytes,
          .trouble = cache.trouble()};
}

void export_tuning(const std::filesystem::path& file) { Cache::of_process().export_to(file); }

int import_tuning(const std::filesystem::path& file) {
  Cache& cache = Cache::of_process();
  if (!cache.trouble().empty())
    fail("[cache] nothing is remembered here ({}); see LUMINAL_CACHE in `luminal env`", cache.trouble());
  return cache.merge(file);
}

}  // namespace luminal
