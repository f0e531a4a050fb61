#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/schedule.h"

/// What tuning found, kept across processes and machines: one SQLite file, keyed by content.
///
///   Cache cache(environment::cache_folder());
///   if (auto known = cache.find(key)) ...          // schedule, parameters, measured time
///
/// Any number of processes may read and write at once. Nothing here ever stops a compile: a folder that
/// cannot be written, a full disk or a damaged file means that less is remembered, reported once. Damaged entries
/// are dropped, never trusted; a file that is no database is marked, left as it is, and a new one begun.
namespace luminal::search {

/// 128 bits over what an entry depends on: canonical spec, bucket, target, version of the code generator.
struct CacheKey {
  uint64_t high = 0, low = 0;
  friend bool operator==(const CacheKey&, const CacheKey&) = default;
};
[[nodiscard]] CacheKey make_key(std::span<const std::string> parts);
/// A target in keys: all that decides which code is made for it and how fast that is.
[[nodiscard]] std::string key_text(const codegen::Target& target);
/// How large its caches are, on which predictions and tiles depend: for keys of what is not handed on to other machines.
[[nodiscard]] std::string key_text_of_caches(const codegen::Target& target);

class Cache {
 public:
  using Costs = std::map<std::string, double, std::less<>>;  ///< by the name of what they are of
  /// The process's: in LUMINAL_CACHE.
  [[nodiscard]] static Cache& of_process();
  /// An empty folder means: remember nothing.
  explicit Cache(std::filesystem::path folder);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// The winner for a spec; or, with "plan" as its schedule, the costs by which the plan of a program was
  /// found.
  struct Choice {
    std::string schedule;
    codegen::Parameters parameters;
    Costs costs = {};  ///< of a plan
    uint64_t code =
        0;  ///< hash of the program that was measured: other code of equal parameters is another kernel
    double measured_us = 0;      ///< an entry without a time is damaged
    int effort = 0;              ///< how many candidates were worth looking at when it was found
    bool verified_here = false;  ///< false for imported entries: to be verified at first use
  };
  [[nodiscard]] std::optional<Choice> find(const CacheKey& key);
  /// Of two choices for a key the one found with more effort stays, then the faster.
  void store(const CacheKey& key, const Choice& choice);
  void mark_verified(const CacheKey& key);
  void forget(const CacheKey& key);

  /// Compiled objects.
  [[nodiscard]] std::optional<std::vector<std::byte>> find_object(const CacheKey& key);
  void store_object(const CacheKey& key, std::span<const std::byte> object);

  /// Takes over the choices (not the objects) of another cache file. Returns how many were new.
  /// Errors: FormatError if it is no cache.
  int merge(const std::filesystem::path& other);
  /// Writes all choices to a new file that `merge` reads. Errors: Error if it cannot be written.
  void export_to(const std::filesystem::path& file);

  struct Statistics {
    int64_t choices = 0, objects = 0, bytes = 0;
    int hits = 0, misses = 0;  ///< of this process
  };
  [[nodiscard]] Statistics statistics();
  /// Why nothing is remembered, or "".
  [[nodiscard]] const std::string& trouble() const;
  [[nodiscard]] std::filesystem::path file() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::search
