#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "egraph/core/table.h"
#include "egraph/core/team.h"
#include "egraph/core/union_find.h"

namespace luminal::egraph {

/// Looks many keys up in a table and appends those that are missing, on several threads; rows, outputs and
/// differences are exactly those of doing it one key after the other.
///
/// The hash is cut into parts. Threads sort the keys, piece by piece, by the part that their hash belongs to;
/// then each part is looked up by one thread, which writes its slots as if it were alone: what lies in a
/// part stays in that thread's caches. A missing key takes the free slot where its search ended, with its
/// number among the keys as a provisional row. Then rows are numbered in the order of the keys, and written,
/// and the slots that hold other numbers mended. Where a key's slot comes to stand among those of other keys
/// may differ from one thread's; what is found does not.
///
/// Where three of four keys stand in the table already, as is usual near saturation, all are looked up first,
/// piece by piece, while nobody writes, and only the missing ones are sorted: then sorting costs next to
/// nothing.
class ParallelInsert {
 public:
  struct Keys {
    const uint32_t* const* columns;
    uint32_t count;
    const uint32_t*
        outputs;  ///< null: `first_id` and what follows for the new keys, if the table has outputs
    Value first_id;
    const UnionFind* classes = nullptr;  ///< if given: outputs of one class do not differ

    [[nodiscard]] auto at(uint32_t i) const {
      return [all = columns, i](uint32_t c) { return all[c][i]; };
    }
    [[nodiscard]] bool differ(Value present, uint32_t i) const {
      const Value other = outputs[i];
      return present != other && (classes == nullptr || classes->find(present) != classes->find(other));
    }
  };
  /// Key `at` stands in the table already, or came before, with `present`, which is not its own output.
  struct Difference {
    uint32_t at;
    Value present;
  };

  explicit ParallelInsert(Team& team)
      : team_(team),
        parts_(kPartsPerPiece * team.pieces()),
        pieces_(team.pieces()),
        shares_(pieces_.size() * parts_) {}

  /// Returns how many rows were appended. `results` gets each key's output where ids are made, and is null
  /// otherwise. No rows may be waiting for deletion, and the caller reserved room.
  uint32_t run(Table& table, const Keys& keys, uint32_t* results);
  /// Calls body(difference) for those of the last run, in order; only where outputs were given.
  template <class Body>
  void each_difference(Body&& body) const {
    for (const Piece& piece : pieces_)
      for (const Difference& difference : piece.differences) body(difference);
  }

 private:
  struct Missing {
    uint32_t at;  ///< which key
    size_t slot;
  };
  struct Repeat {
    uint32_t at, first;  ///< a missing key, and the one it repeats
  };
  /// The keys of one piece that belong to one part, in order.
  struct alignas(64) Share {
    Buffer<uint64_t> keys;          ///< hash << 32 | at; once looked up, output << 32 | at
    std::vector<uint32_t> outside;  ///< which of them have their slot past the end of the part
    std::vector<Missing> missing;   ///< without repeats
    std::vector<Repeat> repeats;    ///< where ids are made
    std::vector<Difference> differences;
  };
  struct alignas(64) Piece {
    uint32_t begin = 0, end = 0;
    std::atomic<uint32_t> fresh = 0;  ///< missing keys, from all parts
    uint32_t fresh_before = 0;
    std::vector<uint64_t> is_missing;  ///< bit set of its keys
    std::vector<Difference> differences;
  };
  /// Looking up takes longest: finer parts, so that a thread that is done waits less for the other one's
  /// last.
  static constexpr uint32_t kPartsPerPiece = 2;
  class Groups;
  template <uint32_t K>
  struct View;

  [[nodiscard]] Share& share(size_t piece, size_t part) { return shares_[piece * parts_ + part]; }
  /// Of a few of the keys.
  template <uint32_t K>
  [[nodiscard]] bool many_are_missing() const;
  template <uint32_t K>
  void sort_by_part(uint32_t piece);
  template <uint32_t K>
  void find_missing(uint32_t piece);
  template <uint32_t K>
  void look_up(uint32_t part);
  template <uint32_t K>
  void look_up_outside();
  [[nodiscard]] uint32_t number_rows();
  template <uint32_t K>
  void write_rows(uint32_t piece);
  void mend(uint32_t part);

  Team& team_;
  Table* table_ = nullptr;
  Keys keys_{};
  uint32_t* results_ = nullptr;
  Row base_ = 0;          ///< rows before; a missing key's provisional row is base_ + its number
  const uint32_t parts_;  ///< of the hash
  std::vector<Piece> pieces_;
  std::vector<Share> shares_;
  std::atomic<bool> any_outside_ = false;
  Column number_;  ///< by missing key: missing ones before it
};

}  // namespace luminal::egraph
