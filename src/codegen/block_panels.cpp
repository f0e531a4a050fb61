#include "codegen/block_panels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "codegen/block_reader.h"
#include "scalar/block_positions.h"

namespace luminal::codegen {
namespace {

constexpr int kNeighbours = 4;  ///< numbers of a row that lie side by side

/// Lanes of several rows, as many of each, at neighbouring positions of their blocks.
class PanelReader : public EvenReader {
 public:
  PanelReader(StageBuilder& b, int buffer, const BlockFormat& format, const BlockPanels& panels,
              const Expression& set, const Expression& first, LanePlaces places)
      : EvenReader(b, buffer, format, set, first, std::move(places)), panels_(panels) {}

  /// Whether all bytes could be read.
  [[nodiscard]] bool is_whole() const { return is_whole_; }

 private:
  /// Bytes of all rows that hold those of a place: in the piece of the first lane's byte, or the next one of its size.
  struct Bytes {
    BlockPanels::Piece piece;       ///< where the first lane is at firsts[0]
    int skipped = 0;                ///< bytes of the piece before the least
    std::vector<int> behind_least;  ///< by lane
    Expression begin;               ///< of the piece, in a block
  };

  std::optional<Bytes> bytes_of(const Node& place) const {
    const auto values = values_by_position(format_, place);
    const auto differ = differences(values, 0);
    const auto first = first_lane(place);
    if (!differ || !first) return std::nullopt;
    const auto [least, greatest] = std::ranges::minmax(*differ);
    Bytes bytes;
    for (size_t k = 0; k < places_.firsts.size(); ++k) {
      const int from = static_cast<int>(at(values, k, 0)) + least, to = from + greatest - least;
      const BlockPanels::Piece here = panels_.piece_of(from);
      if (k == 0) bytes.piece = here, bytes.skipped = from - here.begin;
      if (here.size != bytes.piece.size || from - here.begin != bytes.skipped) return std::nullopt;
      const bool one = to < here.begin + here.size;
      if (!one && panels_.piece_of(to) != BlockPanels::Piece{here.begin + here.size, here.size})
        return std::nullopt;
    }
    for (const int d : *differ) bytes.behind_least.push_back(d - least);
    bytes.begin = *first + (least - bytes.skipped);
    return bytes;
  }
  [[nodiscard]] Expression address(const Bytes& bytes) const {
    return block_ * panels_.set_bytes() + bytes.begin * panels_.rows();
  }

  Id byte(const Node& place) override {
    const auto bytes = bytes_of(place);
    if (!bytes) {
      is_whole_ = false;
      return b_.constant_bits({Dtype::U8, lanes_}, 0);
    }
    const int size = bytes->piece.size, all = panels_.rows() * size;
    std::vector<int> pattern;
    bool is_identity = lanes_ == all, has_next = false;
    for (int l = 0; l < lanes_; ++l) {
      const int byte = bytes->skipped + bytes->behind_least[static_cast<size_t>(l)];
      const int row = l * panels_.rows() / lanes_;
      pattern.push_back(byte / size * all + row * size + byte % size);
      has_next = has_next || byte >= size;
      is_identity = is_identity && pattern.back() == l;
    }
    const Id here = b_.load(buffer_, address(*bytes), all);
    if (is_identity) return here;
    return b_.shuffle(here, has_next ? b_.load(buffer_, address(*bytes) + all, all) : here,
                      std::move(pattern));
  }
  Id word(const Node& place) override {
    const auto bytes = bytes_of(place);
    if (!bytes || bytes->piece.size != 2 || bytes->skipped != 0 || lanes_ != panels_.rows() ||
        std::ranges::any_of(bytes->behind_least, [](int d) { return d != 0; }))
      return kNone;
    return b_.load_words(buffer_, address(*bytes), lanes_);
  }

  const BlockPanels& panels_;
  bool is_whole_ = true;
};

/// Lane l at position first + l % each of a block that it has to itself.
LanePlaces places_of(const BlockFormat& format, const Expression& first, int lanes, int each) {
  const auto places =
      lane_places(first, lanes, format.block_elements, [&](int l) { return int64_t{l % each}; });
  LUMINAL_CHECK(places, "{} elements from {} on do not lie in one block", each, first.to_string());
  return *places;
}

/// Whether what a level does with bytes is the same `period` elements further on.
bool repeats_after(const BlockFormat& format, const BlockExpression::Node& node, int64_t period) {
  if (node.op == BlockExpression::Op::Byte) return true;
  if (node.has_bytes)
    return repeats_after(format, *node.a, period) && (!node.b || repeats_after(format, *node.b, period));
  const auto values = values_by_position(format, node);
  for (size_t i = static_cast<size_t>(period); i < values.size(); ++i)
    if (values[i] != values[i - static_cast<size_t>(period)]) return false;
  return true;
}

}  // namespace

int64_t panel_group(const BlockFormat& format) { return std::min<int64_t>(group_elements(format), 32); }

BlockPanels::BlockPanels(const BlockFormat& format, int rows, int head)
    : format_(&format), rows_(rows), head_(head), period_(panel_group(format)) {
  while (period_ < format.block_elements && !repeats_after(format, *format.level.node(), period_))
    period_ *= 2;
}

BlockPanels::Piece BlockPanels::piece_of(int byte) const {
  if (byte < head_) return {0, head_};
  const int end = head_ + (format_->block_bytes - head_) / kNeighbours * kNeighbours;
  if (byte >= end) return {end, format_->block_bytes - end};
  return {byte - (byte - head_) % kNeighbours, kNeighbours};
}

void BlockPanels::store(StageBuilder& b, int slot, std::span<const Expression> elements, int panels,
                        const Expression& set) const {
  const int end = head_ + (format_->block_bytes - head_) / kNeighbours * kNeighbours;
  std::vector<Expression> from;  // bytes
  for (const Expression& e : elements) from.push_back(e / format_->block_elements * format_->block_bytes);
  const auto copy = [&](const Expression& begin, int size) {
    for (size_t r = 0; r < from.size(); ++r)
      b.store(panels, set * set_bytes() + begin * rows_ + static_cast<int64_t>(r) * size,
              b.load_bytes(slot, from[r] + begin, size));
  };
  if (head_ > 0) copy(0, head_);
  b.loop((end - head_) / kNeighbours, LoopKind::Serial,
         [&](const Expression& four) { copy(four * kNeighbours + head_, kNeighbours); });
  if (end < format_->block_bytes) copy(end, format_->block_bytes - end);
}

Id BlockPanels::numbers(StageBuilder& b, int panels, const Expression& set, const Expression& first) const {
  PanelReader reader(b, panels, *format_, *this, set, first,
                     places_of(*format_, first, kNeighbours * rows_, kNeighbours));
  const BlockNumbers n = reader.numbers(false);
  LUMINAL_CHECK(reader.is_whole(), "numbers of {} from {} on in panels", format_->name, first.to_string());
  return n.numbers;
}

BlockFactors BlockPanels::factors(StageBuilder& b, int panels, const Expression& set, int64_t first) const {
  PanelReader reader(b, panels, *format_, *this, set, first, places_of(*format_, first, rows_, 1));
  const BlockFactors f = reader.factors();
  LUMINAL_CHECK(reader.is_whole(), "factors of {} from {} on in panels", format_->name, first);
  return f;
}

std::optional<int64_t> BlockPanels::price() {
  Program program{.name = "price", .dims = {}, .buffers = {}, .stages = {}, .native = nullptr};
  const int panels = add_buffer(program, {.name = "panels", .dtype = Dtype::U8, .elements = set_bytes()});
  StageBuilder b(program, 1);
  bool is_whole = true;
  const auto read_numbers = [&](const Expression& begin) {
    for (int64_t i = 0; i < period_; i += kNeighbours) {
      const Expression first = begin + i;
      PanelReader reader(b, panels, *format_, *this, 0, first,
                         places_of(*format_, first, kNeighbours * rows_, kNeighbours));
      const BlockNumbers n = reader.numbers(false);
      shift_ = n.shift, greatest_ = n.greatest;
      is_whole = is_whole && reader.is_whole();
    }
  };
  if (period_ == format_->block_elements)
    read_numbers(0);
  else
    b.loop(format_->block_elements / period_, LoopKind::Serial,
           [&](const Expression& at) { read_numbers(at * period_); });
  for (int64_t first = 0; first < format_->block_elements; first += panel_group(*format_)) {
    PanelReader reader(b, panels, *format_, *this, 0, first, places_of(*format_, first, rows_, 1));
    (void)reader.factors();
    is_whole = is_whole && reader.is_whole();
  }
  b.finish();
  if (!is_whole) return std::nullopt;
  int64_t count = 0;
  for_each_instruction(program.stages[0].body, [&](const Instruction&) { ++count; });
  return count;
}

std::optional<BlockPanels> BlockPanels::of(const BlockFormat& format, int rows) {
  static std::mutex mutex;
  static std::map<std::pair<const BlockFormat*, int>, std::optional<BlockPanels>> known;
  const std::scoped_lock lock(mutex);
  const auto [entry, is_new] = known.try_emplace({&format, rows});
  if (!is_new || !has_numbers(format) || panel_group(format) % kNeighbours != 0) return entry->second;
  int64_t least = INT64_MAX;
  for (const int head : {0, 1, 2}) {
    constexpr int kMostLeft = 2;  // bytes, so that vectors of them have lanes of a power of two
    if ((format.block_bytes - head) % kNeighbours > kMostLeft) continue;
    BlockPanels panels(format, rows, head);
    const auto price = panels.price();
    if (price && *price < least) {
      least = *price;
      entry->second = panels;
    }
  }
  return entry->second;
}

}  // namespace luminal::codegen
