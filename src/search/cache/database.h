#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// SQLite, as much of it as the cache needs.
namespace luminal::search {

inline constexpr int kBusyMilliseconds = 5000;  ///< to wait for other processes

/// What SQLite answered.
struct DatabaseError {
  int code;
  std::string message;
  /// The file is not what was written: bytes, or tables and columns that our statements do not find.
  [[nodiscard]] bool is_damage() const;
  [[nodiscard]] bool is_busy() const { return (code & 0xff) == SQLITE_BUSY; }
};

class Database {
 public:
  enum class Access : uint8_t {
    ReadWrite,
    ReadOnly,
    Immutable  ///< nobody writes it: no locks, and no files beside it
  };
  Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() { close(); }
  /// Errors (all): DatabaseError.
  void open(const std::filesystem::path& file, Access access);
  void close();
  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  [[nodiscard]] bool is_read_only() const { return sqlite3_db_readonly(handle_, "main") == 1; }
  void run(const std::string& text);
  [[nodiscard]] int64_t layout();  ///< the number a program notes for itself; 0: a new file
  /// The statements that made what it holds, sorted by name.
  [[nodiscard]] std::vector<std::string> schema();
  [[nodiscard]] sqlite3* handle() const { return handle_; }

 private:
  sqlite3* handle_ = nullptr;
};

class Statement {
 public:
  Statement(const Database& database, const char* text);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(const std::string& value);
  Statement& bind(std::span<const std::byte> value);
  /// Whether there is a row.
  bool step();
  int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  double real(int column) { return sqlite3_column_double(statement_, column); }
  std::string text(int column);
  std::vector<std::byte> blob(int column);

 private:
  void check(int code) {
    if (code != SQLITE_OK) throw DatabaseError{code, sqlite3_errmsg(database_)};
  }
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace luminal::search
