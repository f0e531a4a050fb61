#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "egraph/core/table.h"
#include "egraph/core/team.h"

namespace luminal::egraph {

/// Looks many keys up in a table and appends those that are missing, on several threads; rows, outputs and
/// differences are exactly those of doing it one key after the other.
///
/// A thread owns a range of hashes, and with it a range of slots that only it reads and writes. Threads sort
/// the keys of their piece by owner. Owners look the keys up in order, and a new one claims its slot. New
/// keys are counted, which gives each its row; then rows are written by piece, and slots by owner. The few
/// keys whose slots reach past a range are treated in between, alone.
class ParallelInsert {
 public:
  struct Keys {
    const uint32_t* const* columns;
    uint32_t count;
    const uint32_t*
        outputs;  ///< null: `first_id` and what follows for the new keys, if the table has outputs
    Value first_id;
  };
  /// Key `at` stands in the table already, or came before, with `present`, which is not its own output.
  struct Difference {
    uint32_t at;
    Value present;
  };

  explicit ParallelInsert(Team& team) : team_(team), pieces_(team.size()), owned_(team.size()) {}

  /// Returns how many rows were appended. `results`: null, or gets each key's output in the table. No rows
  /// may be waiting for deletion, and the caller reserved room.
  uint32_t run(Table& table, const Keys& keys, uint32_t* results);
  /// Of the last run, in order; only where outputs were given.
  [[nodiscard]] std::span<const Difference> differences() const { return differences_; }

 private:
  struct Entry {
    uint32_t at, hash;
    Row row;           ///< where the key stands, perhaps provisionally; kNoRow if it is new
    uint32_t present;  ///< output of that row; of a new key the distance of its slot from home
  };
  struct alignas(64) Piece {
    uint32_t begin = 0, end = 0, fresh = 0, fresh_before = 0;
    std::vector<std::vector<Entry>> by_owner;
    std::vector<Difference> differences;
  };
  struct alignas(64) Owned {
    size_t end = 0;  ///< of its range of slots
    std::vector<Entry*> deferred;
  };

  template <uint32_t K>
  void sort_by_owner(Piece& piece);
  template <uint32_t K>
  void find_owned(uint32_t owner);
  template <uint32_t K>
  bool find(Entry& key, size_t from, size_t end);
  template <uint32_t K>
  void find_deferred();
  void rank(Piece& piece);
  template <uint32_t K>
  void write_rows(Piece& piece, uint32_t* results);
  void write_slots(uint32_t owner);
  [[nodiscard]] uint32_t owner_of(uint32_t hash) const {
    return static_cast<uint32_t>((uint64_t{hash} * team_.size()) >> 32);
  }
  [[nodiscard]] Value output_of_new(uint32_t at) const;

  Team& team_;
  Table* table_ = nullptr;
  Keys keys_{};
  Row base_ = 0;  ///< rows before; base_ + i is the provisional row of key i
  std::vector<Piece> pieces_;
  std::vector<Owned> owned_;
  std::vector<uint32_t> rank_;  ///< of new keys, within their piece
  std::vector<Difference> differences_;
};

}  // namespace luminal::egraph
