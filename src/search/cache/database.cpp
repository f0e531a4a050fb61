#include "search/cache/database.h"

#include <fmt/format.h>

#include <cctype>

namespace luminal::search {
namespace {

constexpr int kMostTextBytes = 1 << 28;  // of a text or blob

/// A path as SQLite takes it with options behind it.
std::string uri_of(const std::filesystem::path& file, const char* options) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string())
    uri += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '_' || c == '-'
               ? std::string(1, c)
               : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  return uri + options;
}

}  // namespace

bool DatabaseError::is_damage() const {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_ERROR:  // our statements do not change: a table or column of them is missing
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return false;
  }
}

void Database::open(const std::filesystem::path& file, Access access) {
  const int how = access == Access::ReadWrite  ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                  : access == Access::ReadOnly ? SQLITE_OPEN_READONLY
                                               : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  const std::string name = access == Access::Immutable ? uri_of(file, "?immutable=1") : file.string();
  const int code = sqlite3_open_v2(name.c_str(), &handle_, how | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const std::string message = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    close();
    throw DatabaseError{code, message};
  }
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMostTextBytes);
  // A file may come from anywhere: what it says of itself calls no functions.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

void Database::close() {
  sqlite3_close_v2(handle_);
  handle_ = nullptr;
}

void Database::run(const std::string& text) {
  char* message = nullptr;
  const int code = sqlite3_exec(handle_, text.c_str(), nullptr, nullptr, &message);
  const std::string reason = message ? message : sqlite3_errstr(code);
  sqlite3_free(message);
  if (code != SQLITE_OK) throw DatabaseError{code, reason};
}

int64_t Database::layout() {
  Statement version(*this, "PRAGMA user_version");
  return version.step() ? version.integer(0) : 0;
}

std::vector<std::string> Database::schema() {
  std::vector<std::string> statements;
  Statement rows(*this, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
  while (rows.step()) statements.push_back(rows.text(0));
  return statements;
}

Statement::Statement(const Database& database, const char* text) : database_(database.handle()) {
  check(sqlite3_prepare_v2(database_, text, -1, &statement_, nullptr));
}
Statement& Statement::bind(int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}
Statement& Statement::bind(const std::string& value) {
  check(sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()),
                          SQLITE_TRANSIENT));
  return *this;
}
Statement& Statement::bind(std::span<const std::byte> value) {
  if (value.empty()) {  // whose address may be null, which would be no blob at all
    check(sqlite3_bind_zeroblob(statement_, ++bound_, 0));
    return *this;
  }
  check(sqlite3_bind_blob64(statement_, ++bound_, value.data(), value.size(), SQLITE_STATIC));
  return *this;
}
bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
  return code == SQLITE_ROW;
}
std::string Statement::text(int column) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}
std::vector<std::byte> Statement::blob(int column) {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
  return {bytes, bytes + sqlite3_column_bytes(statement_, column)};
}

}  // namespace luminal::search
