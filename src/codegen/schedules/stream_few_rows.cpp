#include <fmt/format.h>

#include <algorithm>

#include "codegen/schedules/specialise.h"
#include "codegen/schedules/stream.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/axes.h"

// The form for few rows, such as one query against a cache of keys: too few to fill lanes. Lanes lie along the summed
// axes for products inside the stream, along the stream for folds, along columns for sums with columns. So what is
// read is read in whole vectors where it lies, once for all rows. Tasks share the stream: each walks over a part of it,
// a second stage merges what they found (Dao et al. 2023, "Flash-Decoding").
namespace luminal::codegen::stream {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

using Ids = std::vector<Id>;

class FewRowsLowering {
 public:
  FewRowsLowering(const KernelSpec& spec, Stream stream, FewRowsForm form, const Target& target)
      : spec_(spec),
        s_(std::move(stream)),
        form_(form),
        lanes_(target.lanes(static_cast<int>(element_bytes(s_.dtype)))),
        tile_(target.vector_registers / 2),
        program_(program_for(spec, "stream")) {
    batch_ = group_of(spec.extents(), s_.batch);
    rows_ = group_of(spec.extents(), s_.rows);
    streamed_ = group_of(spec.extents(), s_.streamed);
    row_count_ = *rows_.size().constant();
    for (const Inner& i : s_.inner) summed_.push_back(group_of(spec.extents(), i.summed));
    for (const Columns& c : s_.columns) columns_.push_back(group_of(spec.extents(), c.axes));
    add_buffers();
  }

  Program lower() {
    {
      StageBuilder b(program_, batch_.size() * form_.splits);
      Coordinates at(spec_.extents().size(), 0);
      batch_.place(b.task() / form_.splits, at);
      begin(b, at);
      stream_part(b, at, b.task() % form_.splits);
      b.finish();
    }
    StageBuilder b(program_, batch_.size() * row_count_);
    Coordinates at(spec_.extents().size(), 0);
    batch_.place(b.task() / row_count_, at);
    const Expression row = b.task() % row_count_;
    rows_.place(row, at);
    merge(b, at, b.task() / row_count_, row);
    b.finish();
    return std::move(program_);
  }

 private:
  /// Streamed positions.
  struct Block {
    Expression first, count;
  };

  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }
  [[nodiscard]] Type vector() const { return {s_.dtype, lanes_}; }
  [[nodiscard]] Expression whole_vectors(const Expression& n) const { return n.ceil_div(lanes_); }

  int add(const std::string& name, Space space, const Expression& elements) {
    return add_buffer(program_, {.name = name, .space = space, .dtype = s_.dtype, .elements = elements});
  }
  void add_buffers() {
    const int64_t block = form_.block * row_count_;
    for (size_t k = 0; k < s_.inner.size(); ++k) {
      packed_.push_back(add(fmt::format("packed{}", k), Space::Local,
                            row_count_ * whole_vectors(summed_[k].size()) * lanes_));
      tiles_.push_back(add(fmt::format("tile{}", k), Space::Local, block));
    }
    const Expression parts = batch_.size() * form_.splits;
    for (size_t k = 0; k < s_.columns.size(); ++k) {
      sums_.push_back(add(fmt::format("sums{}", k), Space::Shared,
                          parts * row_count_ * whole_vectors(columns_[k].size()) * lanes_));
      weights_.push_back(add(fmt::format("weights{}", k), Space::Local, block));
      scales_.push_back(add(fmt::format("scales{}", k), Space::Local, form_.splits));
    }
    const auto keep = [&](const std::optional<kernel::Online>& online) {
      if (online && !kept_.contains(online->maximum))
        kept_[online->maximum] = add(fmt::format("kept{}", online->maximum), Space::Local, block);
    };
    for (const Fold& f : s_.folds) keep(f.online);
    for (const Columns& c : s_.columns) keep(c.online);
    if (!s_.folds.empty()) folds_ = add("folds", Space::Shared, parts * fold_stride());
  }

  /// Folds of one part: whole cache lines, so that no two tasks write to the same one.
  [[nodiscard]] int64_t fold_stride() const {
    constexpr int64_t kLine = 16;
    return (static_cast<int64_t>(s_.folds.size()) * row_count_ + kLine - 1) / kLine * kLine;
  }
  [[nodiscard]] Expression fold_place(const Expression& part, size_t f, const Expression& row) const {
    return part * fold_stride() + static_cast<int64_t>(f) * row_count_ + row;
  }
  /// Vector `v` of a row's sums with columns.
  [[nodiscard]] Expression sum_place(const Expression& part, size_t k, const Expression& row,
                                     const Expression& v) const {
    return ((part * row_count_ + row) * whole_vectors(columns_[k].size()) + v) * lanes_;
  }
  [[nodiscard]] Expression packed_place(size_t k, const Expression& row, const Expression& v) const {
    return (row * whole_vectors(summed_[k].size()) + v) * lanes_;
  }

  [[nodiscard]] Ramp ramp_of(StageBuilder& b, const AxisGroup& group, const Expression& start,
                             const Expression& count, std::span<const Operand> operands) const {
    Ramp ramp(b, group, start, lanes_, count % lanes_ == Expression(0) ? start + lanes_ : count);
    for (const Operand& o : operands) ramp.prepare(o);
    return ramp;
  }
  void each_row(StageBuilder& b, const Coordinates& at,
                const std::function<void(const Expression& row, const Coordinates& at)>& body) const {
    b.loop(row_count_, LoopKind::Serial, [&](const Expression& row) {
      Coordinates here = at;
      rows_.place(row, here);
      body(row, here);
    });
  }

  // --- One part of the stream

  void begin(StageBuilder& b, const Coordinates& at) const {
    each_row(b, at, [&](const Expression& row, const Coordinates& here) {
      for (size_t k = 0; k < s_.inner.size(); ++k) {
        const Inner& inner = s_.inner[k];
        const std::vector<Operand>& operands = value(inner.value).operands;
        b.loop(whole_vectors(summed_[k].size()), LoopKind::Serial, [&](const Expression& v) {
          const Ramp ramp = ramp_of(b, summed_[k], v * lanes_, summed_[k].size(), operands);
          std::map<int, Id> none;
          const Id x = ramp.evaluate(spec_, inner.packed, operands, here, none);
          b.store(packed_[k], packed_place(k, row, v), guarded(b, ramp, fold_op(Monoid::Add, s_.dtype), x));
        });
      }
      for (size_t f = 0; f < s_.folds.size(); ++f) {
        const FoldOp op = fold_op(*value(s_.folds[f].value).monoid, s_.dtype);
        b.store(folds_, fold_place(b.task(), f, row), b.constant_bits({s_.dtype, 1}, op.neutral));
      }
      for (size_t k = 0; k < s_.columns.size(); ++k) {
        const Id zero = b.constant(vector(), 0);
        b.loop(whole_vectors(columns_[k].size()), LoopKind::Serial,
               [&](const Expression& v) { b.store(sums_[k], sum_place(b.task(), k, row, v), zero); });
      }
    });
  }

  void stream_part(StageBuilder& b, const Coordinates& at, const Expression& part) const {
    const Expression length = streamed_.size(), share = whole_vectors(length).ceil_div(form_.splits) * lanes_;
    const Expression first = part * share, count = (length - first).min(share).max(0);
    // A round for what no mask excludes, and where masks exclude blocks under conditions one for those.
    const int64_t rounds = this->rounds(at);
    b.loop(rounds, LoopKind::Serial, [&](const Expression& round) {
      b.loop(share.ceil_div(form_.block), LoopKind::Serial, [&](const Expression& block) {
        const Block here{first + block * form_.block, (count - block * form_.block).min(form_.block).max(0)};
        const Expression some = here.count.gte(1);
        if (rounds == 1 && some == Expression(1) && excluded(spec_, s_, box(at, here)).where == Expression(0))
          return walk(b, at, here);
        b.if_true(counts(b, at, here, some, round), [&] { walk(b, at, here); });
      });
    });
  }
  [[nodiscard]] Box box(const Coordinates& at, const Block& block) const {
    Box box{at, at};
    bound(box, rows_, 0, row_count_);
    bound(box, streamed_, block.first, block.count);
    return box;
  }
  [[nodiscard]] int64_t rounds(const Coordinates& at) const {
    return excluded(spec_, s_, box(at, {0, streamed_.size()})).comes_last() ? 2 : 1;
  }
  /// Whether to walk over a block, of `some` positions, in this round.
  Id counts(StageBuilder& b, const Coordinates& at, const Block& block, const Expression& some,
            const Expression& round) const {
    const Excluded e = excluded(spec_, s_, box(at, block));
    const Id here = b.compute(ScalarOp::Ne, {b.index(some), b.constant({Dtype::I64, 1}, 0)});
    const Id mine = b.compute(ScalarOp::Eq, {b.index(e.where), b.index(e.comes_last() ? round : 0)});
    const auto both = [&](Id x, Id y) { return b.compute(ScalarOp::And, {x, y}); };
    const auto either = [&](Id x, Id y) { return b.compute(ScalarOp::Or, {x, y}); };
    if (!e.has_conditions()) return both(here, mine);
    const auto row_counts = [&](const Expression& row, std::span<const Id> now) {
      Coordinates place = at;
      rows_.place(row, place);
      std::map<int, Id> maxima;
      for (size_t f = 0; f < s_.folds.size(); ++f)
        if (e.most.contains(s_.folds[f].value))
          maxima[s_.folds[f].value] = b.load(folds_, fold_place(b.task(), f, row));
      return Ids{either(now[0], rows_count(b, spec_, s_, e, Ramp(b), place, maxima))};
    };
    const Id no = b.compute(ScalarOp::Eq, {b.constant({Dtype::I64, 1}, 0), b.constant({Dtype::I64, 1}, 1)});
    Id count = b.loop(row_count_, LoopKind::Serial, {no}, row_counts)[0];
    if (e.streams())
      count = either(count, b.reduce(ScalarOp::Or, positions_count(b, spec_, e, streamed_, lanes_,
                                                                   block.first, block.count, at)));
    if (!e.comes_last()) return both(here, either(mine, count));
    const Id first = b.compute(ScalarOp::Eq, {b.index(round), b.constant({Dtype::I64, 1}, 0)});
    return both(both(here, mine), either(first, count));
  }

  void walk(StageBuilder& b, const Coordinates& at, const Block& block) const {
    for (size_t k = 0; k < s_.inner.size(); ++k) add_inner(b, k, at, block);
    each_row(b, at, [&](const Expression& row, const Coordinates& here) { fold_row(b, here, row, block); });
    for (size_t k = 0; k < s_.columns.size(); ++k) add_columns(b, k, at, block);
  }

  /// As many positions as there are lanes at a time: their sums for a tile of rows, lane by lane, then across lanes.
  void add_inner(StageBuilder& b, size_t k, const Coordinates& at, const Block& block) const {
    const auto some = [&](const Expression& first, const Expression& last) {
      int64_t done = 0;
      for (const int64_t rows : {4, 2, 1}) {
        if (rows > lanes_) continue;
        const int64_t tiles = (row_count_ - done) / rows;
        b.loop(tiles, LoopKind::Serial, [&](const Expression& tile) {
          add_products(b, k, at, block.first, {first, last}, done + tile * rows, rows);
        });
        done += tiles * rows;
      }
    };
    const Expression whole = block.count / lanes_, most = form_.block;
    b.loop(whole, LoopKind::Serial, [&](const Expression& i) { some(i * lanes_, most); });
    // Positions behind the last one repeat it: nothing reads their sums.
    b.loop(whole_vectors(block.count) - whole, LoopKind::Serial,
           [&](const Expression&) { some(whole * lanes_, block.count - 1); });
  }

  /// Positions `first` and on, none behind `last`, of a block.
  struct Positions {
    Expression first, last;
  };
  /// Register tiles of rows by positions whose sums fill a vector, until each row has one of its own.
  void add_products(StageBuilder& b, size_t k, const Coordinates& at, const Expression& block_first,
                    const Positions& positions, const Expression& row, int64_t rows) const {
    const int64_t size = lanes_ / rows;
    Ids mixed;  // lane r * size + i: row r at position i
    for (int64_t part = 0; part < rows; ++part) {
      std::vector<Coordinates> places(static_cast<size_t>(size), at);
      for (int64_t i = 0; i < size; ++i)
        streamed_.place(block_first + (positions.first + part * size + i).min(positions.last),
                        places[static_cast<size_t>(i)]);
      mixed.push_back(across(b, products(b, k, places, row, rows)));
    }
    for (int64_t r = 0; r < rows; ++r)
      b.store(tiles_[k], (row + r) * form_.block + positions.first, joined(b, mixed, r * size, size));
  }

  /// For each row the sums of products at these places, lane by lane along the summed axes.
  [[nodiscard]] Ids products(StageBuilder& b, size_t k, std::span<const Coordinates> places,
                             const Expression& row, int64_t rows) const {
    const Inner& inner = s_.inner[k];
    const std::vector<Operand>& operands = value(inner.value).operands;
    const auto step = [&](const Expression& v, std::span<const Id> sums) {
      const Ramp ramp = ramp_of(b, summed_[k], v * lanes_, summed_[k].size(), operands);
      Ids read, next(sums.begin(), sums.end());
      for (const Coordinates& place : places) {
        std::map<int, Id> none;
        const Id x = ramp.evaluate(spec_, inner.read, operands, place, none);
        read.push_back(guarded(b, ramp, fold_op(Monoid::Add, s_.dtype), x));
      }
      for (int64_t r = 0; r < rows; ++r) {
        const Id packed = b.load(packed_[k], packed_place(k, row + r, v), lanes_);
        for (size_t i = 0; i < read.size(); ++i) {
          Id& sum = next[static_cast<size_t>(r) * read.size() + i];
          sum = b.compute(ScalarOp::Fma, {read[i], packed, sum});
        }
      }
      return next;
    };
    return b.loop(whole_vectors(summed_[k].size()), LoopKind::Serial,
                  Ids(static_cast<size_t>(lanes_), b.constant(vector(), 0)), step);
  }

  /// Lane i: the sum of the lanes of vector i. Each step adds neighbours at a distance, of two vectors at once.
  [[nodiscard]] Id across(StageBuilder& b, Ids sums) const {
    for (int distance = lanes_ / 2; distance >= 1; distance /= 2) {
      std::vector<int> own, other;
      for (int lane = 0; lane < lanes_; ++lane) {
        const bool second = (lane & distance) != 0;
        own.push_back(second ? lanes_ + lane : lane);
        other.push_back(second ? lanes_ + lane - distance : lane + distance);
      }
      Ids next;
      for (size_t i = 0; i < static_cast<size_t>(distance); ++i) {
        const Id first = sums[i], second = sums[i + static_cast<size_t>(distance)];
        next.push_back(
            b.compute(ScalarOp::Add, {b.shuffle(first, second, own), b.shuffle(first, second, other)}));
      }
      sums = std::move(next);
    }
    return sums[0];
  }

  /// Lanes `from` .. `from + size - 1` of each vector, one after the other.
  [[nodiscard]] Id joined(StageBuilder& b, Ids vectors, int64_t from, int64_t size) const {
    for (; vectors.size() > 1; from = 0, size *= 2) {
      std::vector<int> pattern(static_cast<size_t>(lanes_), 0);
      for (int64_t i = 0; i < size; ++i) {
        pattern[static_cast<size_t>(i)] = static_cast<int>(from + i);
        pattern[static_cast<size_t>(size + i)] = static_cast<int>(lanes_ + from + i);
      }
      Ids next;
      for (size_t i = 0; i < vectors.size(); i += 2)
        next.push_back(b.shuffle(vectors[i], vectors[i + 1], pattern));
      vectors = std::move(next);
    }
    return vectors[0];
  }

  /// Maxima and other folds that follow none, then those that do, with the weights of sums with columns.
  void fold_row(StageBuilder& b, const Coordinates& at, const Expression& row, const Block& block) const {
    const auto follows = [](const Fold& f) { return f.online.has_value(); };
    const auto firsts = static_cast<size_t>(std::ranges::find_if(s_.folds, follows) - s_.folds.begin());
    std::map<int, Id> before, after, maxima;
    for (size_t f = 0; f < firsts; ++f)
      before[s_.folds[f].value] = b.load(folds_, fold_place(b.task(), f, row));
    fold_vectors(b, at, row, block, {0, firsts}, before, after, {}, false);
    for (const auto& [v, id] : after)
      if (value(v).monoid == Monoid::Max) maxima[v] = finite(b, id);
    rescale_columns(b, at, row, before, after);
    fold_vectors(b, at, row, block, {firsts, s_.folds.size()}, before, after, maxima, true);
  }

  [[nodiscard]] Id factor(StageBuilder& b, const Coordinates& at, int v, const kernel::Online& online,
                          Id before, Id after) const {
    return apply(b, Ramp(b), online.rescale, value(v).operands, at, {before, after});
  }

  void fold_vectors(StageBuilder& b, const Coordinates& at, const Expression& row, const Block& block,
                    std::pair<size_t, size_t> range, const std::map<int, Id>& before,
                    std::map<int, Id>& after, const std::map<int, Id>& maxima, bool weigh) const {
    const auto [from, to] = range;
    if (from == to && !weigh) return;
    std::vector<FoldOp> ops;
    Ids carried;
    for (size_t f = from; f < to; ++f) {
      ops.push_back(fold_op(*value(s_.folds[f].value).monoid, s_.dtype));
      carried.push_back(b.constant_bits(vector(), ops.back().neutral));
    }
    const auto step = [&](const Expression& i, std::span<const Id> now) {
      const Expression kept_at = row * form_.block + i * lanes_;
      Ramp ramp(b, streamed_, block.first + i * lanes_, lanes_, block.first + block.count);
      for (const Value& each : spec_.values())
        for (const Operand& o : each.operands) ramp.prepare(o);
      const auto evaluate = [&](const ScalarFunction& f, int of,
                                const std::optional<kernel::Online>& online) {
        std::map<int, Id> known = maxima;
        for (size_t k = 0; k < s_.inner.size(); ++k)
          known[s_.inner[k].value] = b.load(tiles_[k], kept_at, lanes_);
        const Id kept = online ? b.load(kept_.at(online->maximum), kept_at, lanes_) : kNone;
        return terms(b, ramp, f, value(of).operands, at, known, kept);
      };
      Ids next(now.begin(), now.end());
      for (size_t f = from; f < to; ++f) {
        const Fold& fold = s_.folds[f];
        const Id term = evaluate(fold.terms, fold.value, fold.online);
        if (const auto kept = kept_.find(fold.value); kept != kept_.end())
          b.store(kept->second, kept_at, term);
        Id& total = next[f - from];
        total = b.compute(ops[f - from].op, {total, guarded(b, ramp, ops[f - from], term)});
      }
      if (weigh)
        for (size_t k = 0; k < s_.columns.size(); ++k) {
          const Columns& c = s_.columns[k];
          b.store(weights_[k], kept_at, evaluate(c.weight, c.value, c.online));
        }
      return next;
    };
    carried = b.loop(whole_vectors(block.count), LoopKind::Serial, std::move(carried), step);
    for (size_t f = from; f < to; ++f) {
      const Fold& fold = s_.folds[f];
      Id total = b.load(folds_, fold_place(b.task(), f, row));
      if (fold.online) {
        const int m = fold.online->maximum;
        total = b.compute(ScalarOp::Mul,
                          {total, factor(b, at, fold.value, *fold.online, before.at(m), after.at(m))});
      }
      total = b.compute(ops[f - from].op, {total, b.reduce(ops[f - from].op, carried[f - from])});
      b.store(folds_, fold_place(b.task(), f, row), total);
      after[fold.value] = total;
    }
  }

  /// Where a maximum has risen.
  void rescale_columns(StageBuilder& b, const Coordinates& at, const Expression& row,
                       const std::map<int, Id>& before, const std::map<int, Id>& after) const {
    for (size_t k = 0; k < s_.columns.size(); ++k) {
      const Columns& c = s_.columns[k];
      if (!c.online) continue;
      const Id old = before.at(c.online->maximum), now = after.at(c.online->maximum);
      b.if_true(b.compute(ScalarOp::Ne, {old, now}), [&] {
        const Id by = b.broadcast(factor(b, at, c.value, *c.online, old, now), lanes_);
        b.loop(whole_vectors(columns_[k].size()), LoopKind::Serial, [&](const Expression& v) {
          const Expression place = sum_place(b.task(), k, row, v);
          b.store(sums_[k], place, b.compute(ScalarOp::Mul, {b.load(sums_[k], place, lanes_), by}));
        });
      });
    }
  }

  /// Register tiles of rows by vectors of columns: as many vectors as fit, so that what is read is one stream.
  void add_columns(StageBuilder& b, size_t k, const Coordinates& at, const Block& block) const {
    const Expression all = whole_vectors(columns_[k].size());
    const int64_t most = std::max<int64_t>(1, tile_ / 2);
    const int64_t vectors = std::min(most, all.constant().value_or(most));
    const int64_t rows = std::clamp<int64_t>(tile_ / vectors, 1, row_count_);
    const auto each_vector = [&](const Expression& row, int64_t row_tile) {
      const Expression whole = all / vectors;
      b.loop(whole, LoopKind::Serial,
             [&](const Expression& v) { add_tile(b, k, at, block, row, row_tile, v * vectors, vectors); });
      if (all % vectors == Expression(0)) return;
      b.loop(all - whole * vectors, LoopKind::Serial,
             [&](const Expression& v) { add_tile(b, k, at, block, row, row_tile, whole * vectors + v, 1); });
    };
    b.loop(row_count_ / rows, LoopKind::Serial, [&](const Expression& r) { each_vector(r * rows, rows); });
    if (const int64_t left = row_count_ % rows; left > 0) each_vector(row_count_ - left, left);
  }
  void add_tile(StageBuilder& b, size_t k, const Coordinates& at, const Block& block, const Expression& row,
                int64_t rows, const Expression& first, int64_t vectors) const {
    const Columns& c = s_.columns[k];
    const std::vector<Operand>& operands = value(c.value).operands;
    std::vector<Ramp> ramps;
    Ids sums;
    for (int64_t v = 0; v < vectors; ++v)
      ramps.push_back(ramp_of(b, columns_[k], (first + v) * lanes_, columns_[k].size(), operands));
    const auto place = [&](int64_t r, int64_t v) { return sum_place(b.task(), k, row + r, first + v); };
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v) sums.push_back(b.load(sums_[k], place(r, v), lanes_));
    sums = b.loop(block.count, LoopKind::Serial, std::move(sums),
                  [&](const Expression& i, std::span<const Id> now) {
                    Coordinates there = at;
                    streamed_.place(block.first + i, there);
                    Ids read, next(now.begin(), now.end());
                    for (const Ramp& ramp : ramps) {
                      std::map<int, Id> none;
                      read.push_back(ramp.widen(ramp.evaluate(spec_, c.read, operands, there, none)));
                    }
                    for (int64_t r = 0; r < rows; ++r) {
                      const Id weight = b.broadcast(b.load(weights_[k], (row + r) * form_.block + i), lanes_);
                      for (size_t v = 0; v < read.size(); ++v) {
                        Id& sum = next[static_cast<size_t>(r) * read.size() + v];
                        sum = b.compute(ScalarOp::Fma, {weight, read[v], sum});
                      }
                    }
                    return next;
                  });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        b.store(sums_[k], place(r, v), sums[static_cast<size_t>(r * vectors + v)]);
  }

  // --- The parts together

  void merge(StageBuilder& b, const Coordinates& at, const Expression& batch, const Expression& row) const {
    const auto part = [&](const Expression& split) { return batch * form_.splits + split; };
    std::map<int, size_t> number;
    std::map<int, Id> totals;
    const auto factor_of = [&](int v, const kernel::Online& online, const Expression& split) {
      const Id before = b.load(folds_, fold_place(part(split), number.at(online.maximum), row));
      return factor(b, at, v, online, before, totals.at(online.maximum));
    };
    const auto nothing = [&](int v, const kernel::Online& online) {
      return apply(b, Ramp(b), online.nothing, value(v).operands, at, {totals.at(online.maximum)});
    };
    for (size_t f = 0; f < s_.folds.size(); ++f) {
      const Fold& fold = s_.folds[f];
      number[fold.value] = f;
      const FoldOp op = fold_op(*value(fold.value).monoid, s_.dtype);
      const auto step = [&](const Expression& split, std::span<const Id> now) {
        Id x = b.load(folds_, fold_place(part(split), f, row));
        if (fold.online) x = b.compute(ScalarOp::Mul, {x, factor_of(fold.value, *fold.online, split)});
        return Ids{b.compute(op.op, {now[0], x})};
      };
      Id total =
          b.loop(form_.splits, LoopKind::Serial, {b.constant_bits({s_.dtype, 1}, op.neutral)}, step)[0];
      if (fold.online) total = b.compute(ScalarOp::Mul, {total, nothing(fold.value, *fold.online)});
      totals[fold.value] = total;
    }
    for (size_t k = 0; k < s_.columns.size(); ++k) {
      const Columns& c = s_.columns[k];
      if (!c.online) continue;
      const Id empty = nothing(c.value, *c.online);
      b.loop(form_.splits, LoopKind::Serial, [&](const Expression& split) {
        b.store(scales_[k], split, b.compute(ScalarOp::Mul, {factor_of(c.value, *c.online, split), empty}));
      });
    }
    for (size_t o = 0; o < spec_.outputs().size(); ++o) write(b, at, o, totals, part, row);
  }

  void write(StageBuilder& b, const Coordinates& at, size_t o, const std::map<int, Id>& totals,
             const std::function<Expression(const Expression& split)>& part, const Expression& row) const {
    const kernel::Output& output = spec_.outputs()[o];
    const auto buffer = static_cast<int>(spec_.slots().size() + o);
    std::map<int, Id> known = totals;
    if (!has_columns(spec_, s_, output)) {
      const Ramp one(b);
      return one.store(buffer, output.index, one.value(spec_, output.value, at, known), at);
    }
    const AxisGroup& columns = columns_[0];
    b.loop(whole_vectors(columns.size()), LoopKind::Serial, [&](const Expression& v) {
      Ramp ramp = ramp_of(b, columns, v * lanes_, columns.size(), {});
      for (const Value& each : spec_.values())
        for (const Operand& operand : each.operands) ramp.prepare(operand);
      ramp.prepare(output.index);
      std::map<int, Id> here = totals;
      for (size_t k = 0; k < s_.columns.size(); ++k) here[s_.columns[k].value] = merged(b, k, part, row, v);
      ramp.store(buffer, output.index, ramp.value(spec_, output.value, at, here), at);
    });
  }

  [[nodiscard]] Id merged(StageBuilder& b, size_t k,
                          const std::function<Expression(const Expression& split)>& part,
                          const Expression& row, const Expression& v) const {
    const auto step = [&](const Expression& split, std::span<const Id> now) {
      const Id x = b.load(sums_[k], sum_place(part(split), k, row, v), lanes_);
      if (!s_.columns[k].online) return Ids{b.compute(ScalarOp::Add, {now[0], x})};
      const Id by = b.broadcast(b.load(scales_[k], split), lanes_);
      return Ids{b.compute(ScalarOp::Fma, {x, by, now[0]})};
    };
    return b.loop(form_.splits, LoopKind::Serial, {b.constant(vector(), 0)}, step)[0];
  }

  const KernelSpec& spec_;
  Stream s_;
  FewRowsForm form_;
  int lanes_, tile_;  ///< vectors that a register tile holds
  Program program_;
  AxisGroup batch_, rows_, streamed_;
  int64_t row_count_ = 1;
  std::vector<AxisGroup> summed_, columns_;  ///< of inner products, of sums with columns
  std::vector<int> packed_, tiles_, weights_, sums_, scales_;
  std::map<int, int> kept_;  ///< by maximum, the buffer of what is maximised
  int folds_ = -1;
};

}  // namespace

bool has_columns(const KernelSpec& spec, const Stream& s, const kernel::Output& output) {
  const kernel::AxisSet all = kernel::axes_of(spec.values()[static_cast<size_t>(output.value)].axes);
  return (all & ~kernel::axes_of(s.rows) & ~kernel::axes_of(s.batch)) != 0;
}

bool takes_few_rows(const KernelSpec& spec, const Stream& s) {
  constexpr int64_t kMostRows = 16;
  const auto rows = group_of(spec.extents(), s.rows).size().constant();
  if (!rows || *rows > kMostRows || s.folds.empty()) return false;
  const auto same = [&](const Columns& c) { return c.axes == s.columns[0].axes; };
  if (!std::ranges::all_of(s.columns, same)) return false;
  const kernel::AxisSet columns = s.columns.empty() ? 0 : kernel::axes_of(s.columns[0].axes);
  return std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
    const kernel::AxisSet own = kernel::axes_of(spec.values()[static_cast<size_t>(o.value)].axes) &
                                ~kernel::axes_of(s.rows) & ~kernel::axes_of(s.batch);
    return own == 0 || own == columns;
  });
}

Program lower_few_rows(const KernelSpec& spec, Stream stream, FewRowsForm form, const Target& target) {
  return FewRowsLowering(spec, std::move(stream), form, target).lower();
}

}  // namespace luminal::codegen::stream
