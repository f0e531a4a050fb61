#include "search/cache.h"

#include <sqlite3.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/environment.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"

namespace luminal::search {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kLayout = 1;  ///< of the tables; who changes it changes the file's name too
constexpr const char* kName = "kernels";
constexpr int kMostDamaged = 16;  ///< files that are set aside before nothing more is remembered
constexpr int kBusyMilliseconds = 5000;
constexpr const char* kTables = R"(
  CREATE TABLE IF NOT EXISTS choices(high INTEGER, low INTEGER, content TEXT NOT NULL, measured_us REAL NOT NULL,
    candidates INTEGER NOT NULL, verified INTEGER NOT NULL, check_sum INTEGER NOT NULL,
    PRIMARY KEY(high, low)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS objects(high INTEGER, low INTEGER, bytes BLOB NOT NULL, check_sum INTEGER NOT NULL,
    PRIMARY KEY(high, low));
)";

template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

/// What SQLite answered; thrown inside this file only.
struct DatabaseError {
  int code;
  std::string message;
};

class Statement {
 public:
  Statement(sqlite3* database, const char* text) : database_(database) {
    check(sqlite3_prepare_v2(database, text, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int64_t value) {
    check(sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
  }
  Statement& bind(double value) {
    check(sqlite3_bind_double(statement_, ++bound_, value));
    return *this;
  }
  Statement& bind(const std::string& value) {
    check(sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(std::span<const std::byte> value) {
    if (value.empty()) {  // whose address may be null, which would be no blob at all
      check(sqlite3_bind_zeroblob(statement_, ++bound_, 0));
      return *this;
    }
    check(sqlite3_bind_blob64(statement_, ++bound_, value.data(), value.size(), SQLITE_STATIC));
    return *this;
  }
  Statement& bind(const CacheKey& key) {
    return bind(static_cast<int64_t>(key.high)).bind(static_cast<int64_t>(key.low));
  }
  /// Whether there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
    return code == SQLITE_ROW;
  }
  int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  double real(int column) { return sqlite3_column_double(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
  }
  std::vector<std::byte> blob(int column) {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    return {bytes, bytes + sqlite3_column_bytes(statement_, column)};
  }

 private:
  void check(int code) {
    if (code != SQLITE_OK) throw DatabaseError{code, sqlite3_errmsg(database_)};
  }
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

int64_t check_sum(const CacheKey& key, const void* bytes, size_t size) {
  return static_cast<int64_t>(hash_bytes(bytes, size, combine(key.high, key.low)));
}

/// A row's content as text, and back; a text that does not read is damage.
std::string to_text(const Cache::Choice& choice) {
  json parameters = json::object();
  for (const auto& [name, value] : choice.parameters) parameters[name] = value;
  return json{{"schedule", choice.schedule}, {"parameters", parameters}, {"code", choice.code}}.dump();
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
  return choice;
}

bool is_damage(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
}

}  // namespace

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
  sqlite3* database = nullptr;
  std::mutex mutex;
  std::string trouble;
  bool writable = true;
  int hits = 0, misses = 0;
  int number = 0;  ///< of the file: how many before it are damaged

  ~State() { close(); }

  [[nodiscard]] fs::path file() const {
    return folder / (number == 0 ? fmt::format("{}.db", kName) : fmt::format("{}-{}.db", kName, number));
  }
  /// An empty file that says to everyone that the one beside it is damaged.
  [[nodiscard]] fs::path mark() const { return file().concat(".damaged"); }

  void close() {
    sqlite3_close_v2(database);
    database = nullptr;
  }

  void give_up(const std::string& reason) {
    if (trouble.empty()) tell("[cache] {}: {}; tuning results are not kept", file().string(), reason);
    trouble = reason;
    close();
  }

  void run(const char* text) {
    char* message = nullptr;
    const int code = sqlite3_exec(database, text, nullptr, nullptr, &message);
    const std::string reason = message ? message : sqlite3_errstr(code);
    sqlite3_free(message);
    if (code != SQLITE_OK) throw DatabaseError{code, reason};
  }

  int64_t layout_of_file() {
    Statement version(database, "PRAGMA user_version");
    return version.step() ? version.integer(0) : 0;
  }

  void open_file() {
    std::error_code error;
    while (number < kMostDamaged && fs::exists(mark(), error)) ++number;
    const int code = sqlite3_open_v2(
        file().c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (code != SQLITE_OK)
      throw DatabaseError{code, database ? sqlite3_errmsg(database) : sqlite3_errstr(code)};
    sqlite3_busy_timeout(database, kBusyMilliseconds);
    const int64_t layout = layout_of_file();
    if (layout != 0 && layout != kLayout)
      throw DatabaseError{SQLITE_NOTADB,
                          fmt::format("its layout is {}, this program writes {}", layout, kLayout)};
    if (sqlite3_db_readonly(database, "main") == 1) {
      writable = false;
      if (layout == 0) throw DatabaseError{SQLITE_READONLY, "the folder cannot be written"};
      return;
    }
    run("PRAGMA synchronous=NORMAL");
    if (layout == kLayout) return;
    run("PRAGMA journal_mode=WAL");
    run("BEGIN IMMEDIATE");
    run(kTables);
    run(fmt::format("PRAGMA user_version={}", kLayout).c_str());
    run("COMMIT");
  }

  void open() {
    if (folder.empty()) {
      trouble = "switched off";
      return;
    }
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return give_up(fmt::format("the folder cannot be made ({})", error.message()));
    try {
      open_among_others();
    } catch (const DatabaseError& reason) {
      if (is_damage(reason.code)) return start_anew(reason.message);
      give_up(reason.message);
    }
  }

  /// Several processes that make the file at the same moment: SQLite does not wait where two of them read it
  /// and both ask to write (they would wait for each other), so each begins again.
  void open_among_others() {
    using Clock = std::chrono::steady_clock;
    for (const auto limit = Clock::now() + std::chrono::milliseconds(kBusyMilliseconds);;) {
      try {
        return open_file();
      } catch (const DatabaseError& reason) {
        if ((reason.code & 0xff) != SQLITE_BUSY || Clock::now() > limit) throw;
      }
      close();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  /// The damaged file stays where it is, marked, for whoever wants to look, and the next one is begun. It is
  /// neither moved nor removed: other processes may have it open, and by the time they find it damaged too,
  /// another one may stand under its name.
  void start_anew(std::string reason) {
    for (;;) {
      close();
      if (number + 1 >= kMostDamaged)
        return give_up(fmt::format("{} files before it are damaged; remove them", number));
      std::error_code error;
      if (!fs::exists(mark(), error)) {
        tell("[cache] {} is damaged ({}); it stays for whoever wants to look, and a new one is begun",
             file().string(), reason);
        std::ofstream(mark()).flush();
        if (!fs::exists(mark(), error)) return give_up("it is damaged, and the folder cannot be written");
      }
      try {
        return open_among_others();
      } catch (const DatabaseError& again) {
        if (!is_damage(again.code)) return give_up(again.message);
        reason = again.message;
      }
    }
  }

  /// Runs `work` on the open database; trouble is told and leads to `nothing`.
  template <class Result, class Work>
  Result guarded(Result nothing, const Work& work) {
    const std::lock_guard lock(mutex);
    if (!database) return nothing;
    try {
      return work();
    } catch (const DatabaseError& reason) {
      if (is_damage(reason.code))
        start_anew(reason.message);
      else if ((reason.code & 0xff) != SQLITE_BUSY)
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
    Statement row(
        state_->database,
        "SELECT content, measured_us, candidates, verified, check_sum FROM choices WHERE high=? AND low=?");
    row.bind(key);
    if (!row.step()) return std::nullopt;
    const std::string content = row.text(0);
    auto choice = parse_choice(content);
    if (choice && row.integer(4) == check_sum(key, content.data(), content.size()) && row.real(1) > 0) {
      choice->measured_us = row.real(1);
      choice->measured_candidates = static_cast<int>(row.integer(2));
      choice->verified_here = row.integer(3) != 0;
      return choice;
    }
    if (state_->writable)
      Statement(state_->database, "DELETE FROM choices WHERE high=? AND low=?").bind(key).step();
    return std::nullopt;
  });
  ++(found ? state_->hits : state_->misses);
  return found;
}

void Cache::store(const CacheKey& key, const Choice& choice) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    const std::string content = to_text(choice);
    Statement row(
        state_->database,
        "INSERT INTO choices VALUES(?,?,?,?,?,?,?) ON CONFLICT(high, low) DO UPDATE SET "
        "content=excluded.content, measured_us=excluded.measured_us, candidates=excluded.candidates, "
        "verified=excluded.verified, check_sum=excluded.check_sum WHERE excluded.candidates > candidates OR "
        "(excluded.candidates = candidates AND excluded.measured_us < measured_us)");
    row.bind(key).bind(content).bind(choice.measured_us).bind(int64_t{choice.measured_candidates});
    row.bind(int64_t{choice.verified_here}).bind(check_sum(key, content.data(), content.size()));
    return row.step();
  });
}

void Cache::mark_verified(const CacheKey& key) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    return Statement(state_->database, "UPDATE choices SET verified=1 WHERE high=? AND low=?")
        .bind(key)
        .step();
  });
}

void Cache::forget(const CacheKey& key) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    return Statement(state_->database, "DELETE FROM choices WHERE high=? AND low=?").bind(key).step();
  });
}

std::optional<std::vector<std::byte>> Cache::find_object(const CacheKey& key) {
  using Object = std::optional<std::vector<std::byte>>;
  return state_->guarded(Object{}, [&]() -> Object {
    Statement row(state_->database, "SELECT bytes, check_sum FROM objects WHERE high=? AND low=?");
    row.bind(key);
    if (!row.step()) return std::nullopt;
    std::vector<std::byte> bytes = row.blob(0);
    if (row.integer(1) == check_sum(key, bytes.data(), bytes.size())) return bytes;
    if (state_->writable)
      Statement(state_->database, "DELETE FROM objects WHERE high=? AND low=?").bind(key).step();
    return std::nullopt;
  });
}

void Cache::store_object(const CacheKey& key, std::span<const std::byte> object) {
  if (!state_->writable) return;
  state_->guarded(false, [&] {
    Statement row(state_->database, "INSERT OR REPLACE INTO objects VALUES(?,?,?,?)");
    row.bind(key).bind(object).bind(check_sum(key, object.data(), object.size()));
    return row.step();
  });
}

int Cache::merge(const fs::path& other) {
  std::error_code error;
  if (!fs::is_regular_file(other, error)) fail<FormatError>("[cache] there is no file {}", other.string());
  sqlite3* source = nullptr;
  int added = 0;
  try {
    if (sqlite3_open_v2(other.c_str(), &source, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr) !=
        SQLITE_OK)
      throw DatabaseError{SQLITE_NOTADB, sqlite3_errmsg(source)};
    Statement rows(source, "SELECT high, low, content, measured_us, candidates, check_sum FROM choices");
    while (rows.step()) {
      const CacheKey key{static_cast<uint64_t>(rows.integer(0)), static_cast<uint64_t>(rows.integer(1))};
      const std::string content = rows.text(2);
      auto choice = parse_choice(content);
      if (!choice || rows.integer(5) != check_sum(key, content.data(), content.size()) || !(rows.real(3) > 0))
        continue;
      choice->measured_us = rows.real(3);
      choice->measured_candidates = static_cast<int>(rows.integer(4));
      choice->verified_here = false;
      if (!find(key)) ++added;
      store(key, *choice);
    }
  } catch (const DatabaseError& reason) {
    sqlite3_close_v2(source);
    fail<FormatError>("[cache] {} is no cache of this program: {}", other.string(), reason.message);
  }
  sqlite3_close_v2(source);
  return added;
}

void Cache::export_to(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error)) fail("[cache] {} exists; give the name of a new file", file.string());
  const std::string problem = state_->guarded(state_->trouble, [&]() -> std::string {
    Statement(state_->database, "VACUUM INTO ?").bind(file.string()).step();
    sqlite3* copy = nullptr;
    const int opened =
        sqlite3_open_v2(file.c_str(), &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    const int done = opened == SQLITE_OK
                         ? sqlite3_exec(copy, "DELETE FROM objects; VACUUM", nullptr, nullptr, nullptr)
                         : opened;
    sqlite3_close_v2(copy);
    return done == SQLITE_OK ? "" : sqlite3_errstr(done);
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
