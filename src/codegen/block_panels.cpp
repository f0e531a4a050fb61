#include "codegen/block_panels.h"

#include <algorithm>
#include <functional>
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
  /// The first lane is at places.firsts[step].
  PanelReader(StageBuilder& b, int buffer, const BlockFormat& format, const BlockPanels& panels,
              const Expression& set, const Expression& step, const Expression& first, LanePlaces places)
      : EvenReader(b, buffer, format, set, first, std::move(places)), panels_(panels), step_(step) {}

  /// Whether all bytes could be read.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// Of the first step, in the order in which they are read.
  [[nodiscard]] const std::vector<BlockPanels::Piece>& pieces() const { return pieces_; }

 private:
  /// Bytes of all rows that hold those of a place: in the piece of the first lane's byte, or the next one of its size.
  struct Bytes {
    BlockPanels::Piece piece;       ///< of the first step
    int skipped = 0;                ///< bytes of the piece before the least
    std::vector<int> behind_least;  ///< by lane
    Expression begin;               ///< of the piece, in a set; of each row
    [[nodiscard]] int greatest() const { return skipped + std::ranges::max(behind_least); }
  };

  std::optional<Bytes> bytes_of(const Node& place) {
    const auto values = values_by_position(format_, place);
    const auto differ = differences(values, 0);
    if (!differ) return std::nullopt;
    const auto [least, greatest] = std::ranges::minmax(*differ);
    Bytes bytes;
    int begin = 0, apart = 0;  // from step to step
    for (size_t k = 0; k < places_.firsts.size(); ++k) {
      const int from = static_cast<int>(at(values, k, 0)) + least, to = from + greatest - least;
      const BlockPanels::Piece here = panels_.piece_of(from);
      const int offset = panels_.offset_of(here);
      if (k == 0) bytes.piece = here, bytes.skipped = from - here.begin, begin = offset;
      if (k == 1) apart = offset - begin;
      if (here.size != bytes.piece.size || from - here.begin != bytes.skipped ||
          offset != begin + static_cast<int>(k) * apart)
        return std::nullopt;
      if (to < here.begin + here.size) continue;
      const BlockPanels::Piece next = panels_.piece_of(to);
      if (next != BlockPanels::Piece{here.begin + here.size, here.size} ||
          panels_.offset_of(next) != offset + here.size)
        return std::nullopt;
    }
    for (const int d : *differ) bytes.behind_least.push_back(d - least);
    bytes.begin = step_ * apart + begin;
    pieces_.push_back(bytes.piece);
    if (bytes.greatest() >= bytes.piece.size)
      pieces_.push_back({bytes.piece.begin + bytes.piece.size, bytes.piece.size});
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
  Expression step_;
  bool is_whole_ = true;
  std::vector<BlockPanels::Piece> pieces_;
};

/// Lane l at position first + l % each of a block that it has to itself; the first ones of all steps from `at` on.
LanePlaces places_of(const BlockFormat& format, const Expression& step, int64_t period, int64_t at, int lanes,
                     int each) {
  LanePlaces places;
  if (const auto known = step.constant())
    places.firsts = {*known * period + at};
  else
    for (int64_t first = at; first < format.block_elements; first += period) places.firsts.push_back(first);
  for (int l = 0; l < lanes; ++l) {
    places.blocks.push_back(0);
    places.offsets.push_back(l % each);
  }
  return places;
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
  put_in_order({});
}

std::vector<BlockPanels::Piece> BlockPanels::pieces() const {
  std::vector<Piece> list;
  for (int byte = 0; byte < format_->block_bytes; byte += list.back().size) list.push_back(piece_of(byte));
  return list;
}

void BlockPanels::put_in_order(std::span<const Piece> used) {
  offsets_.assign(static_cast<size_t>(format_->block_bytes), -1);
  int offset = 0;
  const auto add = [&](const Piece& piece) {
    int& own = offsets_[static_cast<size_t>(piece.begin)];
    if (own >= 0) return;
    own = offset;
    offset += piece.size;
  };
  std::ranges::for_each(used, add);
  std::ranges::for_each(pieces(), add);
}

BlockPanels::Piece BlockPanels::piece_of(int byte) const {
  if (byte < head_) return {0, head_};
  const int end = head_ + (format_->block_bytes - head_) / kNeighbours * kNeighbours;
  if (byte >= end) return {end, format_->block_bytes - end};
  return {byte - (byte - head_) % kNeighbours, kNeighbours};
}

void BlockPanels::store(StageBuilder& b, int slot, std::span<const Expression> elements, int panels,
                        const Expression& set) const {
  std::vector<Expression> from;  // bytes
  for (const Expression& e : elements) from.push_back(e / format_->block_elements * format_->block_bytes);
  const auto copy = [&](const Expression& begin, const Expression& offset, int size) {
    for (size_t r = 0; r < from.size(); ++r)
      b.store(panels, set * set_bytes() + offset * rows_ + static_cast<int64_t>(r) * size,
              b.load_bytes(slot, from[r] + begin, size));
  };
  // Pieces that are neighbours in both orders are a loop.
  const std::vector<Piece> all = pieces();
  for (size_t i = 0, count = 1; i < all.size(); i += count) {
    const Piece& first = all[i];
    const int offset = offset_of(first), size = first.size;
    for (count = 1; i + count < all.size(); ++count)
      if (all[i + count].size != size || offset_of(all[i + count]) != offset + static_cast<int>(count) * size)
        break;
    if (count == 1)
      copy(first.begin, offset, size);
    else
      b.loop(static_cast<int64_t>(count), LoopKind::Serial,
             [&](const Expression& k) { copy(k * size + first.begin, k * size + offset, size); });
  }
}

Id BlockPanels::numbers(StageBuilder& b, int panels, const Expression& set, const Expression& step,
                        int64_t at) const {
  PanelReader reader(b, panels, *format_, *this, set, step, step * period_ + at,
                     places_of(*format_, step, period_, at, kNeighbours * rows_, kNeighbours));
  const BlockNumbers n = reader.numbers(false);
  LUMINAL_CHECK(reader.is_whole(), "numbers of {} from {} on in panels", format_->name, at);
  return n.numbers;
}

BlockFactors BlockPanels::factors(StageBuilder& b, int panels, const Expression& set, int64_t first) const {
  PanelReader reader(b, panels, *format_, *this, set, 0, first,
                     places_of(*format_, 0, period_, first, rows_, 1));
  const BlockFactors f = reader.factors();
  LUMINAL_CHECK(reader.is_whole(), "factors of {} from {} on in panels", format_->name, first);
  return f;
}

namespace {

/// Calls `read` with a reader of each group's factors and then of all numbers, as kernels read them: `step` says which
/// numbers, or in which loop.
Program read_all(const BlockFormat& format, const BlockPanels& panels, bool in_loop,
                 const std::function<void(PanelReader&, bool is_of_numbers)>& read) {
  Program program{.name = "price", .dims = {}, .buffers = {}, .stages = {}, .native = nullptr};
  const int buffer =
      add_buffer(program, {.name = "panels", .dtype = Dtype::U8, .elements = panels.set_bytes()});
  StageBuilder b(program, 1);
  const int64_t period = panels.period(), steps = format.block_elements / period;
  for (int64_t first = 0; first < format.block_elements; first += panel_group(format)) {
    PanelReader reader(b, buffer, format, panels, 0, 0, first,
                       places_of(format, 0, period, first, panels.rows(), 1));
    read(reader, false);
  }
  const auto read_numbers = [&](const Expression& step) {
    for (int64_t at = 0; at < period; at += kNeighbours) {
      PanelReader reader(b, buffer, format, panels, 0, step, step * period + at,
                         places_of(format, step, period, at, kNeighbours * panels.rows(), kNeighbours));
      read(reader, true);
    }
  };
  if (in_loop && steps > 1)
    b.loop(steps, LoopKind::Serial, read_numbers);
  else
    for (int64_t step = 0; step < steps; ++step) read_numbers(step);
  b.finish();
  return program;
}

}  // namespace

std::optional<std::vector<BlockPanels::Piece>> BlockPanels::use_order() const {
  std::vector<Piece> used;
  bool is_whole = true;
  (void)read_all(*format_, *this, false, [&](PanelReader& reader, bool is_of_numbers) {
    is_of_numbers ? void(reader.numbers(false)) : void(reader.factors());
    is_whole = is_whole && reader.is_whole();
    used.insert(used.end(), reader.pieces().begin(), reader.pieces().end());
  });
  return is_whole ? std::optional(std::move(used)) : std::nullopt;
}

std::optional<int64_t> BlockPanels::price() {
  bool is_whole = true;
  const Program program = read_all(*format_, *this, true, [&](PanelReader& reader, bool is_of_numbers) {
    if (is_of_numbers) {
      const BlockNumbers n = reader.numbers(false);
      shift_ = n.shift, greatest_ = n.greatest;
    } else {
      (void)reader.factors();
    }
    is_whole = is_whole && reader.is_whole();
  });
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
    if (const auto used = panels.use_order()) panels.put_in_order(*used);
    const auto price = panels.price();
    if (price && *price < least) {
      least = *price;
      entry->second = panels;
    }
  }
  return entry->second;
}

}  // namespace luminal::codegen
