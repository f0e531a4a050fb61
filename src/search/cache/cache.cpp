#include "search/cache/cache.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/environment.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "search/cache/database.h"

namespace luminal::search {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLayout = 2;  ///< of the tables and their checksums; who changes it changes the file's name too
constexpr const char* kName = "tuning";
constexpr int kMostDamaged = 16;  ///< files that are set aside before nothing more is remembered
constexpr int64_t kMostCandidates = 1'000'000;
/// As SQLite keeps them, by name: what differs is damage.
const std::vector<std::string> kTables{
    "CREATE TABLE choices(high INTEGER, low INTEGER, content TEXT NOT NULL, measured_us REAL NOT NULL, "
    "candidates INTEGER NOT NULL, verified INTEGER NOT NULL, check_sum INTEGER NOT NULL, PRIMARY KEY(high, "
    "low)) WITHOUT ROWID",
    "CREATE TABLE objects(high INTEGER, low INTEGER, bytes BLOB NOT NULL, check_sum INTEGER NOT NULL, "
    "PRIMARY "
    "KEY(high, low))"};

template <class... Args>
void log_formatted(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

Statement& bind(Statement& statement, const CacheKey& key) {
  return statement.bind(static_cast<int64_t>(key.high)).bind(static_cast<int64_t>(key.low));
}

void require_tables(Database& database) {
  if (database.schema() != kTables) throw DatabaseError{SQLITE_CORRUPT, "its tables are not this program's"};
}

int64_t check_sum(const CacheKey& key, const void* bytes, size_t size) {
  return static_cast<int64_t>(hash_bytes(bytes, size, combine(key.high, key.low)));
}

/// A row's content as text, and back; a text that does not read is damage.
std::string to_text(const Cache::Choice& choice) {
  json parameters = json::object();
  for (const auto& [name, value] : choice.parameters) parameters[name] = value;
  json content{{"schedule", choice.schedule}, {"parameters", parameters}, {"code", choice.code}};
  if (!choice.costs.empty()) content["costs"] = choice.costs;
  return content.dump();
}

std::optional<Cache::Choice> parse_choice(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("schedule") || !parsed["schedule"].is_string() ||
      !parsed.contains("parameters") || !parsed["parameters"].is_object() || !parsed.contains("code") ||
      !parsed["code"].is_number_unsigned())
    return std::nullopt;
  Cache::Choice choice{.schedule = parsed["schedule"].get<std::string>(),
                       .parameters = {},
                       .code = parsed["code"].get<uint64_t>()};
  for (const auto& [name, value] : parsed["parameters"].items()) {
    if (!value.is_number_integer()) return std::nullopt;
    choice.parameters[name] = value.get<int64_t>();
  }
  if (const auto costs = parsed.find("costs"); costs != parsed.end()) {
    if (!costs->is_object()) return std::nullopt;
    for (const auto& [name, value] : costs->items()) {
      if (!value.is_number()) return std::nullopt;
      choice.costs[name] = value.get<double>();
    }
  }
  return choice;
}

constexpr const char* kChoiceColumns = "content, measured_us, candidates, verified, check_sum";

/// Over everything in a row.
int64_t check_sum(const CacheKey& key, const Cache::Choice& choice) {
  const std::string content = to_text(choice);
  const uint64_t numbers =
      combine(combine(std::bit_cast<uint64_t>(choice.measured_us), static_cast<uint64_t>(choice.effort)),
              choice.verified_here ? 1 : 0);
  return check_sum({combine(key.high, numbers), key.low}, content.data(), content.size());
}

/// A row whose columns from `first` on are kChoiceColumns; nothing if it is not what was written.
std::optional<Cache::Choice> read_choice(Statement& row, int first, const CacheKey& key) {
  auto choice = parse_choice(row.text(first));
  if (!choice) return std::nullopt;
  choice->measured_us = row.real(first + 1);
  const int64_t candidates = row.integer(first + 2);
  if (!(choice->measured_us > 0) || !std::isfinite(choice->measured_us) || candidates < 0 ||
      candidates > kMostCandidates)
    return std::nullopt;
  choice->effort = static_cast<int>(candidates);
  choice->verified_here = row.integer(first + 3) != 0;
  if (row.integer(first + 4) != check_sum(key, *choice)) return std::nullopt;
  return choice;
}

}  // namespace

std::string key_text(const codegen::Target& target) {
  return fmt::format("{} {} {} {} bytes x {}, {} threads", target.name, target.cpu, target.features,
                     target.vector_bytes, target.vector_registers, target.threads);
}

std::string key_text_of_caches(const codegen::Target& target) {
  return fmt::format("{} {} {}", target.l1_bytes, target.l2_bytes, target.l3_bytes);
}

CacheKey make_key(std::span<const std::string> parts) {
  CacheKey key{1, 2};
  for (const std::string& part : parts) {
    key.high = combine(key.high, hash_bytes(part.data(), part.size(), 0x6c756d696e616cULL));
    key.low = combine(key.low, hash_bytes(part.data(), part.size(), 0x63616368655f6bULL));
  }
  return key;
}

struct Cache::State {
  fs::path folder;
  Database database;
  std::mutex mutex;
  std::string trouble;
  bool writable = true;
  int hits = 0, misses = 0;
  int number = 0;  ///< of the file: how many before it are damaged

  [[nodiscard]] fs::path file() const {
    return folder / (number == 0 ? fmt::format("{}.db", kName) : fmt::format("{}-{}.db", kName, number));
  }
  /// An empty file that says to everyone that the one beside it is damaged.
  [[nodiscard]] fs::path mark() const { return file().concat(".damaged"); }

  void give_up(const std::string& reason) {
    if (trouble.empty())
      log_formatted("[cache] {}: {}; tuning results are not kept", file().string(), reason);
    trouble = reason;
    database.close();
  }

  void open_file() {
    std::error_code error;
    while (number < kMostDamaged && fs::exists(mark(), error)) ++number;
    if (const std::string why = distrust_of(file()); !why.empty()) throw DatabaseError{SQLITE_PERM, why};
    writable = can_be_written(folder);
    if (!writable) return open_to_read();
    database.open(file(), Database::Access::ReadWrite);
    const int64_t layout = checked_layout();
    if (database.is_read_only()) {
      writable = false;
      if (layout == 0) throw DatabaseError{SQLITE_READONLY, "the file cannot be written"};
      return require_tables(database);
    }
    database.run("PRAGMA synchronous=NORMAL");
    if (layout == kLayout) return require_tables(database);
    database.run("PRAGMA journal_mode=WAL");
    database.run("BEGIN IMMEDIATE");
    if (database.layout() == 0) {  // another process may have been here first
      for (const std::string& table : kTables) database.run(table);
      database.run(fmt::format("PRAGMA user_version={}", kLayout));
    }
    database.run("COMMIT");
    require_tables(database);
  }

  int64_t checked_layout() {
    const int64_t layout = database.layout();
    if (layout != 0 && layout != kLayout)
      throw DatabaseError{SQLITE_NOTADB,
                          fmt::format("its layout is {}, this program writes {}", layout, kLayout)};
    return layout;
  }

  /// Where nothing can be written SQLite reads with others if they have the file open (what they share lies
  /// beside it); where nobody has, there is nothing to lock with, and nobody who writes.
  void open_to_read() {
    std::error_code error;
    if (!fs::exists(file(), error)) throw DatabaseError{SQLITE_READONLY, "the folder cannot be written"};
    try {
      database.open(file(), Database::Access::ReadOnly);
      (void)checked_layout();
    } catch (const DatabaseError& reason) {
      const int primary = reason.code & 0xff;
      if (primary != SQLITE_CANTOPEN && primary != SQLITE_READONLY) throw;
      database.close();
      database.open(file(), Database::Access::Immutable);
      (void)checked_layout();
    }
    require_tables(database);
  }

  void open() {
    if (folder.empty()) {
      trouble = "switched off";
      return;
    }
    try {
      if (const std::string why = make_private_folder(folder); !why.empty()) return give_up(why);
    } catch (const fs::filesystem_error& error) {
      return give_up(fmt::format("the folder cannot be created ({})", error.code().message()));
    }
    try {
      open_among_others();
    } catch (const DatabaseError& reason) {
      if (reason.is_damage()) return start_anew(reason.message);
      give_up(reason.message);
    }
  }

  /// Several processes that make the file at the same moment: SQLite does not wait where two of them read it
  /// and both ask to write (they would wait for each other), so each begins again.
  void open_among_others() {
    for (const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
         ;) {
      try {
        return open_file();
      } catch (const DatabaseError& reason) {
        if (!reason.is_busy() || std::chrono::steady_clock::now() > limit) throw;
      }
      database.close();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  /// The damaged file stays where it is, marked, for whoever wants to look, and the next one is begun. It is
  /// neither moved nor removed: other processes may have it open, and by the time they find it damaged too,
  /// another one may stand under its name.
  void start_anew(std::string reason) {
    for (;;) {
      database.close();
      if (number + 1 >= kMostDamaged)
        return give_up(fmt::format("{} files before it are damaged; remove them", number));
      std::error_code error;
      if (!fs::exists(mark(), error)) {
        log_formatted("[cache] {} is damaged ({}); it is left as it is, and a new file is used",
                      file().string(), reason);
        std::ofstream(mark()).flush();
        if (!fs::exists(mark(), error)) return give_up("it is damaged, and the folder cannot be written");
      }
      try {
        return open_among_others();
      } catch (const DatabaseError& again) {
        if (!again.is_damage()) return give_up(again.message);
        reason = again.message;
      }
    }
  }

  /// Runs `work` on the open database; failures are reported and give `nothing`.
  template <class Result, class Work>
  Result guarded(Result nothing, const Work& work) {
    const std::lock_guard lock(mutex);
    if (!database.is_open()) return nothing;
    try {
      return work();
    } catch (const DatabaseError& reason) {
      if (reason.is_damage())
        start_anew(reason.message);
      else if (!reason.is_busy())
        give_up(reason.message);
      return nothing;
    }
  }
};

Cache& Cache::of_process() {
  static Cache cache(environment::cache_folder());
  return cache;
}

Cache::Cache(fs::path folder) : state_(std::make_unique<State>()) {
  state_->folder = std::move(folder);
  state_->open();
}
Cache::~Cache() = default;

std::optional<Cache::Choice> Cache::find(const CacheKey& key) {
  auto found = state_->guarded(std::optional<Choice>{}, [&]() -> std::optional<Choice> {
    Statement row(state_->database,
                  fmt::format("SELECT {} FROM choices WHERE high=? AND low=?", kChoiceColumns).c_str());
    if (!bind(row, key).step()) return std::nullopt;
    if (auto choice = read_choice(row, 0, key)) return choice;
    if (state_->writable) {
      Statement drop(state_->database, "DELETE FROM choices WHERE high=? AND low=?");
      bind(drop, key).step();
    }
    return std::nullopt;
  });
  ++(found ? state_->hits : state_->misses);
  return found;
}

void Cache::store(const CacheKey& key, const Choice& choice) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    Statement row(
        state_->database,
        "INSERT INTO choices VALUES(?,?,?,?,?,?,?) ON CONFLICT(high, low) DO UPDATE SET "
        "content=excluded.content, measured_us=excluded.measured_us, candidates=excluded.candidates, "
        "verified=excluded.verified, check_sum=excluded.check_sum WHERE excluded.candidates > candidates OR "
        "(excluded.candidates = candidates AND excluded.measured_us < measured_us)");
    bind(row, key).bind(to_text(choice)).bind(choice.measured_us).bind(int64_t{choice.effort});
    return row.bind(int64_t{choice.verified_here}).bind(check_sum(key, choice)).step();
  });
}

void Cache::mark_verified(const CacheKey& key) {
  if (!state_->writable) return;
  auto choice = find(key);
  if (!choice) return;
  const int64_t before = check_sum(key, *choice);
  choice->verified_here = true;
  state_->guarded(false, [&] {
    // Another process may have stored a better one meanwhile, which nobody has verified.
    Statement row(state_->database,
                  "UPDATE choices SET verified=1, check_sum=? WHERE high=? AND low=? AND check_sum=?");
    return bind(row.bind(check_sum(key, *choice)), key).bind(before).step();
  });
}

void Cache::forget(const CacheKey& key) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    Statement drop(state_->database, "DELETE FROM choices WHERE high=? AND low=?");
    return bind(drop, key).step();
  });
}

std::optional<std::vector<std::byte>> Cache::find_object(const CacheKey& key) {
  using Object = std::optional<std::vector<std::byte>>;
  return state_->guarded(Object{}, [&]() -> Object {
    Statement row(state_->database, "SELECT bytes, check_sum FROM objects WHERE high=? AND low=?");
    if (!bind(row, key).step()) return std::nullopt;
    std::vector<std::byte> bytes = row.blob(0);
    if (row.integer(1) == check_sum(key, bytes.data(), bytes.size())) return bytes;
    if (state_->writable) {
      Statement drop(state_->database, "DELETE FROM objects WHERE high=? AND low=?");
      bind(drop, key).step();
    }
    return std::nullopt;
  });
}

void Cache::store_object(const CacheKey& key, std::span<const std::byte> object) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    Statement row(state_->database, "INSERT OR REPLACE INTO objects VALUES(?,?,?,?)");
    return bind(row, key).bind(object).bind(check_sum(key, object.data(), object.size())).step();
  });
}

int Cache::merge(const fs::path& other) {
  std::error_code error;
  if (!fs::is_regular_file(other, error)) fail<FormatError>("[cache] there is no file {}", other.string());
  if (!state_->writable)
    fail("[cache] cannot import: {} is not writable; make it writable, or set LUMINAL_CACHE",
         file().string());
  int added = 0;
  try {
    Database source;
    source.open(other, Database::Access::ReadOnly);
    if (const int64_t layout = source.layout(); layout != kLayout)
      throw DatabaseError{SQLITE_NOTADB,
                          fmt::format("its layout is {}, this program reads {}; export it with this version",
                                      layout, kLayout)};
    require_tables(source);
    Statement rows(source, fmt::format("SELECT high, low, {} FROM choices", kChoiceColumns).c_str());
    while (rows.step()) {
      const CacheKey key{static_cast<uint64_t>(rows.integer(0)), static_cast<uint64_t>(rows.integer(1))};
      auto choice = read_choice(rows, 2, key);
      if (!choice) continue;
      choice->verified_here = false;  // whoever made the file may have said anything
      if (!find(key)) ++added;
      store(key, *choice);
    }
  } catch (const DatabaseError& reason) {
    fail<FormatError>("[cache] {} is not a cache of this program: {}", other.string(), reason.message);
  }
  return added;
}

void Cache::export_to(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error)) fail("[cache] {} exists; give the name of a new file", file.string());
  const std::string problem = state_->guarded(state_->trouble, [&]() -> std::string {
    Statement(state_->database, "VACUUM INTO ?").bind(file.string()).step();
    try {
      Database copy;
      copy.open(file, Database::Access::ReadWrite);
      copy.run("DELETE FROM objects; VACUUM");
      return "";
    } catch (const DatabaseError& reason) {
      return reason.message;
    }
  });
  if (!problem.empty() || !fs::exists(file, error))
    fail("[cache] {} could not be written{}{}", file.string(), problem.empty() ? "" : ": ", problem);
}

Cache::Statistics Cache::statistics() {
  Statistics result = state_->guarded(Statistics{}, [&] {
    Statistics counted;
    Statement choices(state_->database, "SELECT count(*) FROM choices");
    if (choices.step()) counted.choices = choices.integer(0);
    Statement objects(state_->database, "SELECT count(*), coalesce(sum(length(bytes)), 0) FROM objects");
    if (objects.step()) {
      counted.objects = objects.integer(0);
      counted.bytes = objects.integer(1);
    }
    return counted;
  });
  result.hits = state_->hits;
  result.misses = state_->misses;
  return result;
}

const std::string& Cache::trouble() const { return state_->trouble; }
fs::path Cache::file() const { return state_->file(); }

}  // namespace luminal::search
