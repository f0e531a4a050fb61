#include "codegen/schedules/stream.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/own_axes.h"
#include "codegen/schedules/specialise.h"
#include "codegen/schedules/vector_loops.h"
#include "kernel/axes.h"

// One walk over streamed axes in blocks: products inside (scores), folds, and sums with columns of their own,
// all of one block while it is in the cache. Lanes are rows, so that folds and their rescaling have no step
// across lanes, and what the rows share is read where it lies, one element for all lanes.
namespace luminal::codegen {
namespace stream {
namespace {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::Value;

using Ids = std::vector<Id>;

class StreamLowering {
 public:
  StreamLowering(const KernelSpec& spec, Stream stream, StreamForm form, const Target& target)
      : spec_(spec),
        s_(std::move(stream)),
        form_(form),
        lanes_(target.lanes(static_cast<int>(element_bytes(s_.dtype)))),
        program_(program_for(spec, "stream")) {
    batch_ = group_of(spec.extents(), s_.batch);
    rows_ = group_of(spec.extents(), s_.rows);
    streamed_ = group_of(spec.extents(), s_.streamed);
    for (const Inner& i : s_.inner) summed_.push_back(group_of(spec.extents(), i.summed));
    for (const Columns& c : s_.columns) columns_.push_back(group_of(spec.extents(), c.axes));
    add_buffers();
  }

  Program lower() {
    const Expression width = form_.panels * this->width(), groups = rows_.size().ceil_div(width);
    StageBuilder b(program_, batch_.size() * groups);
    Coordinates at(spec_.extents().size(), 0);
    batch_.place(b.task() / groups, at);
    const Expression first = b.task() % groups * width;
    const Expression panels = (rows_.size() - first).ceil_div(this->width()).min(form_.panels);
    const auto each_panel = [&](const std::function<void(const Panel&)>& body) {
      b.loop(panels, LoopKind::Serial, [&](const Expression& p) { body(panel(b, p, first)); });
    };
    each_panel([&](const Panel& p) { begin(b, at, p); });
    for (const auto& [inner, bound] : read_magnitudes_)
      b.store(bound, 0, b.constant({s_.dtype, 1}, HUGE_VAL));
    const Expression length = streamed_.size();
    const auto each_block = [&](const std::function<void(const Block&)>& body) {
      b.loop(length.ceil_div(form_.block), LoopKind::Serial, [&](const Expression& block) {
        body({block * form_.block, (length - block * form_.block).min(form_.block)});
      });
    };
    // A round for what no mask excludes, and where masks exclude blocks under conditions one for those.
    const int64_t rounds = this->rounds(at);
    b.loop(rounds, LoopKind::Serial, [&](const Expression& round) {
      each_block([&](const Block& here) {
        bound_reads(b, at, here, rounds, round);
        each_panel([&](const Panel& p) {
          const Excluded e = excluded(spec_, s_, box(at, p, here), hidden_);
          if (rounds == 1 && e.where == Expression(0)) return walk(b, at, p, here);
          b.if_true(counts(b, e, at, p, here, round), [&] { walk(b, at, p, here); });
        });
      });
    });
    each_panel([&](const Panel& p) { finish(b, at, p); });
    b.finish();
    return std::move(program_);
  }

 private:
  struct Panel {
    Expression number;
    std::vector<Ramp> ramps;
  };
  /// Streamed positions.
  struct Block {
    Expression first, count;
  };
  /// What is known of a value in each vector of a panel.
  using Known = std::vector<std::map<int, Id>>;

  [[nodiscard]] int64_t width() const { return form_.vectors * lanes_; }
  [[nodiscard]] const Value& value(int v) const { return spec_.values()[static_cast<size_t>(v)]; }
  [[nodiscard]] Type vector() const { return {s_.dtype, lanes_}; }
  [[nodiscard]] size_t vectors() const { return static_cast<size_t>(form_.vectors); }

  int add_local(const std::string& name, const Expression& elements) {
    return add_buffer(program_,
                      {.name = name, .space = Space::Local, .dtype = s_.dtype, .elements = elements});
  }
  void add_buffers() {
    const Expression panels = form_.panels * width();
    for (size_t k = 0; k < s_.inner.size(); ++k) {
      packed_.push_back(add_local(fmt::format("packed{}", k), summed_[k].size() * panels));
      tiles_.push_back(add_local(fmt::format("tile{}", k), form_.block * width()));
    }
    for (size_t k = 0; k < s_.columns.size(); ++k) {
      sums_.push_back(add_local(fmt::format("sums{}", k), columns_[k].size() * panels));
      // Weights take the place of what they are computed from.
      weights_.push_back(k == 0 && !tiles_.empty()
                             ? tiles_[0]
                             : add_local(fmt::format("weights{}", k), form_.block * width()));
    }
    for (const Fold& f : s_.folds)
      if (f.online && !kept_.contains(f.online->maximum)) keep(f.online->maximum);
    for (const Columns& c : s_.columns)
      if (c.online && !kept_.contains(c.online->maximum)) keep(c.online->maximum);
    hidden_ = hidden_by_adding(spec_, s_);
    for (const int v : hidden_) {
      row_magnitudes_[v] = add_local(fmt::format("row_magnitudes{}", v), panels);
      read_magnitudes_[v] = add_local(fmt::format("read_magnitudes{}", v), 1);
    }
    if (!s_.folds.empty()) folds_ = add_local("folds", static_cast<int64_t>(s_.folds.size()) * panels);
  }

  /// A place for what is maximised, for those that follow the maximum: that of the first products, if nothing
  /// else reads them then.
  void keep(int maximum) {
    const auto reads = [&](const ScalarFunction& f, int v) {
      return std::ranges::any_of(f.nodes(), [&](const ScalarNode& n) {
        return n.op == ScalarOp::Input && n.payload < value(v).operands.size() &&
               value(v).operands[n.payload].kind == Operand::Kind::Value &&
               value(v).operands[n.payload].value == s_.inner[0].value;
      });
    };
    bool free = !s_.inner.empty() && kept_.empty();
    for (const Fold& f : s_.folds) free = free && (f.value == maximum || !reads(f.terms, f.value));
    for (const Columns& c : s_.columns) free = free && !reads(c.weight, c.value);
    kept_[maximum] = free ? tiles_[0] : add_local(fmt::format("kept{}", maximum), form_.block * width());
  }

  Panel panel(StageBuilder& b, const Expression& number, const Expression& first_row) const {
    Panel p{number, {}};
    const Expression count = rows_.size();
    const bool whole = count % width() == Expression(0);
    for (size_t v = 0; v < vectors(); ++v) {
      const Expression start = first_row + number * width() + static_cast<int64_t>(v) * lanes_;
      Ramp& ramp = p.ramps.emplace_back(b, rows_, start, lanes_, whole ? start + lanes_ : count);
      for (const Value& each : spec_.values())
        for (const Operand& o : each.operands) ramp.prepare(o);
      for (const kernel::Output& o : spec_.outputs()) ramp.prepare(o.index);
    }
    return p;
  }

  /// Places of vector `v` of row `row` of a panel-wide buffer.
  [[nodiscard]] Expression place(const Expression& row, size_t v) const {
    return row * width() + static_cast<int64_t>(v) * lanes_;
  }
  [[nodiscard]] Expression fold_place(const Panel& p, size_t fold, size_t v) const {
    return place(p.number * static_cast<int64_t>(s_.folds.size()) + static_cast<int64_t>(fold), v);
  }

  /// Nested loops over a group's positions.
  void each_position(StageBuilder& b, const AxisGroup& group, const Coordinates& at,
                     const std::function<void(const Coordinates&, const Expression&)>& body) const {
    const auto nest = [&](const auto& self, size_t k, Coordinates here, const Expression& position) -> void {
      if (k == group.axes.size()) return body(here, position);
      b.loop(group.extents[k], LoopKind::Serial, [&](const Expression& i) {
        Coordinates inside = here;
        inside[static_cast<size_t>(group.axes[k])] = group.first[k] + i;
        self(self, k + 1, std::move(inside), position * group.extents[k] + i);
      });
    };
    nest(nest, 0, at, 0);
  }

  using Step = std::function<Ids(const Expression& i, std::span<const Id> carried)>;
  /// for i in extent, a few steps at a time: what a loop costs beside its arithmetic is paid once for them.
  static Ids in_steps(StageBuilder& b, const Expression& extent, Ids carried, const Step& step) {
    constexpr int64_t kSteps = 4;
    const Expression whole = extent / kSteps;
    carried = b.loop(
        whole, LoopKind::Serial, std::move(carried), [&](const Expression& four, std::span<const Id> sums) {
          return b.loop(
              kSteps, LoopKind::Unrolled, {sums.begin(), sums.end()},
              [&](const Expression& i, std::span<const Id> now) { return step(four * kSteps + i, now); });
        });
    if (extent % kSteps == Expression(0)) return carried;
    return b.loop(
        extent - whole * kSteps, LoopKind::Serial, std::move(carried),
        [&](const Expression& i, std::span<const Id> sums) { return step(whole * kSteps + i, sums); });
  }

  [[nodiscard]] Box box(const Coordinates& at, const Panel& p, const Block& block) const {
    Box box{at, at};
    bound(box, rows_, p.ramps[0].start(), width());
    bound(box, streamed_, block.first, block.count);
    return box;
  }
  [[nodiscard]] int64_t rounds(const Coordinates& at) const {
    Box all{at, at};
    bound(all, rows_, 0, rows_.size());
    bound(all, streamed_, 0, streamed_.size());
    return excluded(spec_, s_, all, hidden_).comes_last() ? 2 : 1;
  }
  /// Bounds for the block on what products read, in the round that asks for them.
  void bound_reads(StageBuilder& b, const Coordinates& at, const Block& block, int64_t rounds,
                   const Expression& round) const {
    if (hidden_.empty()) return;
    const auto each = [&] {
      for (const Inner& i : s_.inner)
        if (hidden_.contains(i.value))
          b.store(read_magnitudes_.at(i.value), 0,
                  greatest_magnitude(b, spec_, i, streamed_, lanes_, block.first, block.count, at));
    };
    if (rounds == 1) return each();
    b.if_true(b.compute(ScalarOp::Eq, {b.index(round), b.constant({Dtype::I64, 1}, 1)}), each);
  }
  /// Of the products in a vector of rows and the block at hand.
  [[nodiscard]] Magnitudes magnitudes(StageBuilder& b, const Panel& p, size_t v) const {
    Magnitudes bounds;
    for (const auto& [inner, rows] : row_magnitudes_)
      bounds[inner] = b.compute(ScalarOp::Mul, {b.load(rows, place(p.number, v), lanes_),
                                                b.broadcast(b.load(read_magnitudes_.at(inner), 0), lanes_)});
    return bounds;
  }
  [[nodiscard]] Magnitudes magnitudes(StageBuilder& b, const Panel& p) const {
    Magnitudes bounds = magnitudes(b, p, 0);
    for (size_t v = 1; v < vectors(); ++v)
      for (const auto& [inner, more] : magnitudes(b, p, v))
        bounds[inner] = b.compute(ScalarOp::Maximum, {bounds[inner], more});
    for (auto& [inner, lanes] : bounds) lanes = b.reduce(ScalarOp::Maximum, lanes);
    return bounds;
  }
  /// Whether to walk over a block in this round.
  Id counts(StageBuilder& b, const Excluded& e, const Coordinates& at, const Panel& p, const Block& block,
            const Expression& round) const {
    const Id mine = b.compute(ScalarOp::Eq, {b.index(e.where), b.index(e.comes_last() ? round : 0)});
    if (!e.has_conditions()) return mine;
    Id any = kNone;
    const auto note = [&](Id lanes) { any = any == kNone ? lanes : b.compute(ScalarOp::Or, {any, lanes}); };
    for (size_t v = 0; v < vectors(); ++v) {
      std::map<int, Id> maxima;
      for (size_t f = 0; f < s_.folds.size(); ++f)
        if (e.most.contains(s_.folds[f].value))
          maxima[s_.folds[f].value] = b.load(folds_, fold_place(p, f, v), lanes_);
      note(rows_count(b, spec_, s_, e, p.ramps[v], at, maxima, magnitudes(b, p, v)));
    }
    if (e.streams())
      note(positions_count(b, spec_, e, streamed_, lanes_, block.first, block.count, at, magnitudes(b, p)));
    const Id count = b.reduce(ScalarOp::Or, any);
    if (!e.comes_last()) return b.compute(ScalarOp::Or, {mine, count});
    const Id first = b.compute(ScalarOp::Eq, {b.index(round), b.constant({Dtype::I64, 1}, 0)});
    return b.compute(ScalarOp::And, {mine, b.compute(ScalarOp::Or, {first, count})});
  }

  // --- Before the stream

  void begin(StageBuilder& b, const Coordinates& at, const Panel& p) const {
    for (size_t k = 0; k < s_.inner.size(); ++k) {
      const Inner& inner = s_.inner[k];
      each_position(b, summed_[k], at, [&](const Coordinates& here, const Expression& position) {
        for (size_t v = 0; v < vectors(); ++v) {
          std::map<int, Id> none;
          const Ramp& ramp = p.ramps[v];
          const Id x = ramp.evaluate(spec_, inner.packed, value(inner.value).operands, here, none);
          b.store(packed_[k], place(p.number * summed_[k].size() + position, v), ramp.widen(x));
        }
      });
      if (!hidden_.contains(inner.value)) continue;
      for (size_t v = 0; v < vectors(); ++v) {
        const auto packed = [&](const Expression& position) {
          return b.load(packed_[k], place(p.number * summed_[k].size() + position, v), lanes_);
        };
        b.store(row_magnitudes_.at(inner.value), place(p.number, v),
                sum_of_magnitudes(b, summed_[k].size(), packed));
      }
    }
    for (size_t f = 0; f < s_.folds.size(); ++f) {
      const FoldOp op = fold_op(*value(s_.folds[f].value).monoid, s_.dtype);
      for (size_t v = 0; v < vectors(); ++v)
        b.store(folds_, fold_place(p, f, v), b.constant_bits(vector(), op.neutral));
    }
    const Id zero = s_.columns.empty() ? kNone : b.constant(vector(), 0);
    for (size_t k = 0; k < s_.columns.size(); ++k)
      b.loop(columns_[k].size(), LoopKind::Serial, [&](const Expression& position) {
        for (size_t v = 0; v < vectors(); ++v)
          b.store(sums_[k], place(p.number * columns_[k].size() + position, v), zero);
      });
  }

  // --- One block

  void walk(StageBuilder& b, const Coordinates& at, const Panel& p, const Block& block) const {
    for (size_t k = 0; k < s_.inner.size(); ++k)
      in_tiles(b, block.count, [&](const Expression& first, int64_t count) {
        add_inner(b, k, at, p, block.first, first, count);
      });
    const auto follows = [](const Fold& f) { return f.online.has_value(); };
    const auto firsts = static_cast<size_t>(std::ranges::find_if(s_.folds, follows) - s_.folds.begin());
    std::map<int, Ids> before, after;
    for (size_t f = 0; f < firsts; ++f) before[s_.folds[f].value] = load_fold(b, p, f);
    fold_block(b, at, p, block, 0, firsts, before, after, {});
    Known known(vectors());
    for (auto& [v, ids] : after) {
      if (value(v).monoid != Monoid::Max) continue;
      for (size_t k = 0; k < vectors(); ++k) known[k][v] = finite(b, ids[k]);
    }
    rescale_columns(b, at, p, before, after);
    fold_block(b, at, p, block, firsts, s_.folds.size(), before, after, known);
    for (size_t k = 0; k < s_.columns.size(); ++k)
      in_tiles(b, columns_[k].size(), [&](const Expression& first, int64_t count) {
        add_columns(b, k, at, p, block, first, count);
      });
  }

  /// body(first, count) for tiles of positions, then one by one for what is left.
  void in_tiles(StageBuilder& b, const Expression& extent,
                const std::function<void(const Expression& first, int64_t count)>& body) const {
    const Expression whole = extent / form_.tile;
    b.loop(whole, LoopKind::Serial, [&](const Expression& i) { body(i * form_.tile, form_.tile); });
    if (extent % form_.tile == Expression(0)) return;
    b.loop(extent - whole * form_.tile, LoopKind::Serial,
           [&](const Expression& i) { body(whole * form_.tile + i, 1); });
  }

  /// One element for all rows, or one for each.
  Ids read_side(StageBuilder& b, const Panel& p, int v, const ScalarFunction& side, bool varies,
                const Coordinates& at) const {
    Ids result;
    std::map<int, Id> none;
    if (!varies) {
      const Id x = Ramp(b).evaluate(spec_, side, value(v).operands, at, none);
      result.assign(vectors(), b.broadcast(x, lanes_));
      return result;
    }
    for (const Ramp& ramp : p.ramps)
      result.push_back(ramp.widen(ramp.evaluate(spec_, side, value(v).operands, at, none)));
    return result;
  }

  /// A register tile of sums of products: streamed positions by vectors of rows.
  void add_inner(StageBuilder& b, size_t k, const Coordinates& at, const Panel& p,
                 const Expression& block_first, const Expression& first, int64_t count) const {
    const Inner& inner = s_.inner[k];
    const AxisGroup& summed = summed_[k];
    std::vector<Coordinates> places(static_cast<size_t>(count), at);
    for (int64_t r = 0; r < count; ++r)
      streamed_.place(block_first + first + r, places[static_cast<size_t>(r)]);
    const auto add = [&](const Coordinates& here, const Expression& position, std::span<const Id> sums) {
      Ids next(sums.begin(), sums.end()), packed;
      for (size_t v = 0; v < vectors(); ++v)
        packed.push_back(b.load(packed_[k], place(p.number * summed.size() + position, v), lanes_));
      for (size_t r = 0; r < places.size(); ++r) {
        Coordinates there = places[r];
        for (const int a : summed.axes) there[static_cast<size_t>(a)] = here[static_cast<size_t>(a)];
        const Ids read = read_side(b, p, inner.value, inner.read, inner.read_varies, there);
        for (size_t v = 0; v < vectors(); ++v) {
          Id& sum = next[r * vectors() + v];
          sum = b.compute(ScalarOp::Fma, {read[v], packed[v], sum});
        }
      }
      return next;
    };
    const auto nest = [&](const auto& self, size_t axis, Coordinates here, const Expression& position,
                          Ids sums) -> Ids {
      const auto step = [&](const Expression& i, std::span<const Id> carried) {
        Coordinates inside = here;
        inside[static_cast<size_t>(summed.axes[axis])] = i;
        const Expression flat = position * summed.extents[axis] + i;
        if (axis + 1 == summed.axes.size()) return add(inside, flat, carried);
        return self(self, axis + 1, std::move(inside), flat, {carried.begin(), carried.end()});
      };
      if (axis + 1 == summed.axes.size()) return in_steps(b, summed.extents[axis], std::move(sums), step);
      return b.loop(summed.extents[axis], LoopKind::Serial, std::move(sums), step);
    };
    const Id zero = b.constant(vector(), 0);
    const Ids sums = nest(nest, 0, at, 0, Ids(places.size() * vectors(), zero));
    for (size_t r = 0; r < places.size(); ++r)
      for (size_t v = 0; v < vectors(); ++v)
        b.store(tiles_[k], place(first + static_cast<int64_t>(r), v), sums[r * vectors() + v]);
  }

  Ids load_fold(StageBuilder& b, const Panel& p, size_t f) const {
    Ids ids;
    for (size_t v = 0; v < vectors(); ++v) ids.push_back(b.load(folds_, fold_place(p, f, v), lanes_));
    return ids;
  }

  Ids factors(StageBuilder& b, const Coordinates& at, const Panel& p, int v, const kernel::Online& online,
              const std::map<int, Ids>& before, const std::map<int, Ids>& after) const {
    Ids result;
    for (size_t k = 0; k < vectors(); ++k)
      result.push_back(apply(b, p.ramps[k], online.rescale, value(v).operands, at,
                             {before.at(online.maximum)[k], after.at(online.maximum)[k]}));
    return result;
  }

  /// Folds `from` .. `to` - 1 over a block, and with the last of them the weights of all sums with columns.
  void fold_block(StageBuilder& b, const Coordinates& at, const Panel& p, const Block& block, size_t from,
                  size_t to, const std::map<int, Ids>& before, std::map<int, Ids>& after,
                  const Known& maxima) const {
    const bool weigh = to == s_.folds.size() && !maxima.empty();
    if (from == to && !(weigh && !s_.columns.empty())) return;
    Ids carried;
    for (size_t f = from; f < to; ++f) {
      const Fold& fold = s_.folds[f];
      Ids now = load_fold(b, p, f);
      if (fold.online) {
        const Ids by = factors(b, at, p, fold.value, *fold.online, before, after);
        for (size_t v = 0; v < vectors(); ++v) now[v] = b.compute(ScalarOp::Mul, {now[v], by[v]});
      }
      carried.insert(carried.end(), now.begin(), now.end());
    }
    const auto step = [&](const Expression& i, std::span<const Id> now) {
      return fold_one(b, at, p, block, i, from, to, now, maxima, weigh);
    };
    carried = b.loop(block.count, LoopKind::Serial, std::move(carried), step);
    for (size_t f = from; f < to; ++f)
      for (size_t v = 0; v < vectors(); ++v) {
        const Id now = carried[(f - from) * vectors() + v];
        after[s_.folds[f].value].push_back(now);
        b.store(folds_, fold_place(p, f, v), now);
      }
  }

  Ids fold_one(StageBuilder& b, const Coordinates& at, const Panel& p, const Block& block,
               const Expression& i, size_t from, size_t to, std::span<const Id> now, const Known& maxima,
               bool weigh) const {
    Coordinates here = at;
    streamed_.place(block.first + i, here);
    Ids next(now.begin(), now.end());
    for (size_t v = 0; v < vectors(); ++v) {
      std::map<int, Id> known;
      if (!maxima.empty()) known = maxima[v];
      // Where a tile has been replaced by what is maximised nothing reads it any more.
      for (size_t k = 0; k < s_.inner.size(); ++k)
        known[s_.inner[k].value] = b.load(tiles_[k], place(i, v), lanes_);
      const Ramp& ramp = p.ramps[v];
      const auto evaluate = [&](const ScalarFunction& f, int of,
                                const std::optional<kernel::Online>& online) {
        const Id kept = online ? b.load(kept_.at(online->maximum), place(i, v), lanes_) : kNone;
        return terms(b, ramp, f, value(of).operands, here, known, kept);
      };
      for (size_t f = from; f < to; ++f) {
        const Fold& fold = s_.folds[f];
        const Id term = evaluate(fold.terms, fold.value, fold.online);
        if (const auto kept = kept_.find(fold.value); kept != kept_.end())
          b.store(kept->second, place(i, v), term);
        Id& total = next[(f - from) * vectors() + v];
        total = b.compute(fold_op(*value(fold.value).monoid, s_.dtype).op, {total, term});
      }
      if (!weigh) continue;
      Ids weights;
      for (const Columns& c : s_.columns) weights.push_back(evaluate(c.weight, c.value, c.online));
      for (size_t k = 0; k < weights.size(); ++k) b.store(weights_[k], place(i, v), weights[k]);
    }
    return next;
  }

  /// Where a maximum has risen in any row.
  void rescale_columns(StageBuilder& b, const Coordinates& at, const Panel& p,
                       const std::map<int, Ids>& before, const std::map<int, Ids>& after) const {
    Id rises = kNone;
    for (const Columns& c : s_.columns) {
      if (!c.online) continue;
      for (size_t v = 0; v < vectors(); ++v) {
        const Id here =
            b.compute(ScalarOp::Ne, {before.at(c.online->maximum)[v], after.at(c.online->maximum)[v]});
        rises = rises == kNone ? here : b.compute(ScalarOp::Or, {rises, here});
      }
    }
    if (rises == kNone) return;
    b.if_true(b.reduce(ScalarOp::Or, rises), [&] {
      for (size_t k = 0; k < s_.columns.size(); ++k) {
        const Columns& c = s_.columns[k];
        if (!c.online) continue;
        const Ids by = factors(b, at, p, c.value, *c.online, before, after);
        b.loop(columns_[k].size(), LoopKind::Serial, [&](const Expression& position) {
          for (size_t v = 0; v < vectors(); ++v) {
            const Expression where = place(p.number * columns_[k].size() + position, v);
            b.store(sums_[k], where, b.compute(ScalarOp::Mul, {b.load(sums_[k], where, lanes_), by[v]}));
          }
        });
      }
    });
  }

  /// A register tile of sums with columns: columns by vectors of rows.
  void add_columns(StageBuilder& b, size_t k, const Coordinates& at, const Panel& p, const Block& block,
                   const Expression& first, int64_t count) const {
    const Columns& c = s_.columns[k];
    std::vector<Coordinates> places(static_cast<size_t>(count), at);
    Ids sums;
    const auto where = [&](size_t r, size_t v) {
      return place(p.number * columns_[k].size() + first + static_cast<int64_t>(r), v);
    };
    for (size_t r = 0; r < places.size(); ++r) {
      columns_[k].place(first + static_cast<int64_t>(r), places[r]);
      for (size_t v = 0; v < vectors(); ++v) sums.push_back(b.load(sums_[k], where(r, v), lanes_));
    }
    sums = in_steps(b, block.count, std::move(sums), [&](const Expression& i, std::span<const Id> carried) {
      Ids next(carried.begin(), carried.end()), weights;
      for (size_t v = 0; v < vectors(); ++v) weights.push_back(b.load(weights_[k], place(i, v), lanes_));
      for (size_t r = 0; r < places.size(); ++r) {
        Coordinates there = places[r];
        streamed_.place(block.first + i, there);
        const Ids read = read_side(b, p, c.value, c.read, c.read_varies, there);
        for (size_t v = 0; v < vectors(); ++v) {
          Id& sum = next[r * vectors() + v];
          sum = b.compute(ScalarOp::Fma, {read[v], weights[v], sum});
        }
      }
      return next;
    });
    for (size_t r = 0; r < places.size(); ++r)
      for (size_t v = 0; v < vectors(); ++v) b.store(sums_[k], where(r, v), sums[r * vectors() + v]);
  }

  // --- Behind the stream

  void finish(StageBuilder& b, const Coordinates& at, const Panel& p) const {
    std::map<int, Ids> totals;
    for (size_t f = 0; f < s_.folds.size(); ++f) totals[s_.folds[f].value] = load_fold(b, p, f);
    const auto nothing = [&](int v, const kernel::Online& online, size_t k) {
      return apply(b, p.ramps[k], online.nothing, value(v).operands, at, {totals.at(online.maximum)[k]});
    };
    for (const Fold& f : s_.folds)
      for (size_t v = 0; f.online && v < vectors(); ++v)
        totals[f.value][v] = b.compute(ScalarOp::Mul, {totals[f.value][v], nothing(f.value, *f.online, v)});
    std::vector<Ids> scales(s_.columns.size());
    for (size_t k = 0; k < s_.columns.size(); ++k)
      for (size_t v = 0; s_.columns[k].online && v < vectors(); ++v)
        scales[k].push_back(nothing(s_.columns[k].value, *s_.columns[k].online, v));
    for (size_t o = 0; o < spec_.outputs().size(); ++o) write(b, at, p, o, totals, scales);
  }

  void write(StageBuilder& b, const Coordinates& at, const Panel& p, size_t o,
             const std::map<int, Ids>& totals, const std::vector<Ids>& scales) const {
    const kernel::Output& output = spec_.outputs()[o];
    std::vector<int> own = value(output.value).axes;
    std::erase_if(own, [&](int a) {
      return std::ranges::find(s_.rows, a) != s_.rows.end() ||
             std::ranges::find(s_.batch, a) != s_.batch.end();
    });
    each_position(b, group_of(spec_.extents(), own), at, [&](const Coordinates& here, const Expression&) {
      for (size_t v = 0; v < vectors(); ++v) {
        std::map<int, Id> known;
        for (const auto& [fold, ids] : totals) known[fold] = ids[v];
        for (size_t k = 0; k < s_.columns.size(); ++k)
          if (std::ranges::includes(own, s_.columns[k].axes))
            known[s_.columns[k].value] = column(b, p, k, v, here, scales[k]);
        const Id x = p.ramps[v].value(spec_, output.value, here, known);
        p.ramps[v].store(static_cast<int>(spec_.slots().size() + o), output.index, x, here);
      }
    });
  }

  Id column(StageBuilder& b, const Panel& p, size_t k, size_t v, const Coordinates& at,
            const Ids& scale) const {
    Expression position = 0;
    for (size_t a = 0; a < columns_[k].axes.size(); ++a)
      position = position * columns_[k].extents[a] + at[static_cast<size_t>(columns_[k].axes[a])];
    const Id sum = b.load(sums_[k], place(p.number * columns_[k].size() + position, v), lanes_);
    return scale.empty() ? sum : b.compute(ScalarOp::Mul, {sum, scale[v]});
  }

  const KernelSpec& spec_;
  Stream s_;
  StreamForm form_;
  int lanes_;
  Program program_;
  AxisGroup batch_, rows_, streamed_;
  std::vector<AxisGroup> summed_, columns_;  ///< of inner products, of sums with columns
  std::vector<int> packed_, tiles_, weights_, sums_;
  std::map<int, int> kept_;  ///< by maximum, the buffer of what is maximised
  std::set<int> hidden_;     ///< products that masks hide by what is added to them
  std::map<int, int> row_magnitudes_, read_magnitudes_;  ///< of these, buffers of bounds on their sides
  int folds_ = -1;
};

StreamForm form_of(const Parameters& p) {
  return {p.at("vectors"), p.at("tile"), p.at("panels"), p.at("block")};
}

Program stream_lower(const KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = with_own_axes(specialised(original, bucket));
  const bool few = parameters.contains("splits");
  const auto s = stream_of(spec, few ? Lanes::Columns : Lanes::Rows);
  LUMINAL_CHECK(s, "no stream: {}", spec.to_string());
  if (few) return lower_few_rows(spec, *s, {parameters.at("block"), parameters.at("splits")}, target);
  return StreamLowering(spec, *s, form_of(parameters), target).lower();
}

}  // namespace

}  // namespace stream

const Schedule& stream_schedule() {
  static const Schedule schedule{
      .name = "stream",
      .doc =
          "One walk over streamed axes in blocks: products inside the stream, maxima and sums that follow "
          "them as they rise, and sums of weights times columns. "
          "Milakov and Gimelshein 2018; Dao et al. 2022.",
      .candidates = stream::stream_candidates,
      .lower = stream::stream_lower};
  return schedule;
}

}  // namespace luminal::codegen
