#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "codegen/schedules/block_shape.h"
#include "codegen/schedules/contract.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/outputs.h"
#include "codegen/schedules/specialise.h"

// Contractions by blocks of threads. A block makes a tile of results, each thread some rows and columns of it in
// registers. All threads together bring `depth` positions of the sum, of the tile's rows and of its columns, into memory
// of the block, meet at a barrier, and add their products.
//
// Threads of a row of the block have neighbouring columns, and the rows and columns of a thread lie as far apart as the
// block has threads along them: what neighbours read of memory lies side by side.
namespace luminal::codegen {
namespace {

using contract::Contraction;
using contract::Factor;
using kernel::KernelSpec;

struct BlockContractForm {
  int64_t tile_m = 4, tile_n = 4;          ///< of a thread
  int64_t threads_m = 16, threads_n = 16;  ///< of a block
  int64_t depth = 8;
  int64_t buffers = 1;  ///< 2: the next positions are fetched before the products of these are added

  static BlockContractForm of(const Parameters& p) {
    return {p.at("tile_m"),    p.at("tile_n"), p.at("threads_m"),
            p.at("threads_n"), p.at("depth"),  p.at("buffers")};
  }
  [[nodiscard]] Parameters parameters() const {
    return {{"tile_m", tile_m},       {"tile_n", tile_n}, {"threads_m", threads_m},
            {"threads_n", threads_n}, {"depth", depth},   {"buffers", buffers}};
  }
  [[nodiscard]] int threads() const { return static_cast<int>(threads_m * threads_n); }
  [[nodiscard]] int64_t rows() const { return tile_m * threads_m; }
  [[nodiscard]] int64_t columns() const { return tile_n * threads_n; }
};

/// One side of the product in memory of the block: position k of the sum, element x of the tile at k * pitch + x.
struct Panel {
  const Factor* factor = nullptr;
  AxisGroup group;         ///< rows or columns
  int64_t extent = 0;      ///< of the tile
  bool along_sum = false;  ///< neighbours in the tensor are neighbours in the sum
  int buffer = -1;
  /// A little more than the extent: threads that are neighbours along the sum write to other banks.
  [[nodiscard]] int64_t pitch() const { return extent + 4; }
};

/// Whether the side's elements lie side by side along the sum, and not along its own axes.
bool lies_along_sum(const Factor& f, const AxisGroup& own, const AxisGroup& summed) {
  const auto is_dense = [&](const AxisGroup& group) {
    return std::ranges::any_of(contract::read_by(f), [&](const kernel::Operand* o) {
      const auto even = evenly(o->index, group);
      return o->kind == kernel::Operand::Kind::Load && even && even->stride == 1;
    });
  };
  return is_dense(summed) && !is_dense(own);
}

/// With columns along which the first output is dense, if either side has such.
Contraction turned(Contraction c, const KernelSpec& spec) {
  const auto is_dense = [&](const std::vector<int>& axes) {
    const auto even = evenly(spec.outputs()[0].index, group_of(spec.extents(), axes));
    return even && even->stride == 1;
  };
  if (is_dense(c.columns) || !is_dense(c.rows)) return c;
  std::swap(c.rows, c.columns);
  std::swap(c.left, c.right);
  return c;
}

class BlockContractLowering {
 public:
  BlockContractLowering(const KernelSpec& spec, const Contraction& contraction, const BlockContractForm& form)
      : spec_(spec),
        c_(turned(contraction, spec)),
        form_(form),
        program_(program_for(spec, "block_contract")),
        batch_(group_of(spec.extents(), c_.batch)),
        summed_(group_of(spec.extents(), c_.summed)) {
    const auto panel = [&](const char* name, const Factor& factor, const std::vector<int>& axes,
                           int64_t extent) {
      Panel p{.factor = &factor, .group = group_of(spec.extents(), axes), .extent = extent};
      p.along_sum = lies_along_sum(factor, p.group, summed_);
      p.buffer = add_buffer(program_, {.name = name,
                                       .space = Space::Block,
                                       .dtype = c_.dtype,
                                       .elements = form.buffers * form.depth * p.pitch()});
      return p;
    };
    rows_ = panel("rows", c_.left, c_.rows, form.rows());
    columns_ = panel("columns", c_.right, c_.columns, form.columns());
  }

  Program lower() {
    const Expression row_tiles = rows_.group.size().ceil_div(form_.rows()),
                     column_tiles = columns_.group.size().ceil_div(form_.columns());
    StageBuilder b(program_, batch_.size() * row_tiles * column_tiles, form_.threads());
    const Expression column_tile = b.task() % column_tiles, rest = b.task() / column_tiles;
    at_.assign(spec_.extents().size(), 0);
    batch_.place(rest / row_tiles, at_);
    first_row_ = rest % row_tiles * form_.rows();
    first_column_ = column_tile * form_.columns();
    write(b, add_blocks(b));
    b.finish();
    return std::move(program_);
  }

 private:
  [[nodiscard]] Expression row_of_thread(const StageBuilder& b) const { return b.thread() / form_.threads_n; }
  [[nodiscard]] Expression column_of_thread(const StageBuilder& b) const {
    return b.thread() % form_.threads_n;
  }

  /// The sums of a thread's tile, row by row.
  std::vector<Id> add_blocks(StageBuilder& b) {
    const Expression blocks = summed_.size().ceil_div(form_.depth);
    const std::vector<Id> zeros(static_cast<size_t>(form_.tile_m * form_.tile_n),
                                b.constant({c_.dtype, 1}, 0));
    const auto fetch = [&](const Expression& block) {
      const Expression half = block % form_.buffers;
      fill(b, rows_, first_row_, block, half);
      fill(b, columns_, first_column_, block, half);
    };
    if (form_.buffers == 1)
      return b.loop(blocks, LoopKind::Serial, zeros, [&](const Expression& block, std::span<const Id> sums) {
        fetch(block);
        b.barrier();
        std::vector<Id> next = add_products(b, 0, sums);
        b.barrier();
        return next;
      });
    b.loop(blocks.min(1), LoopKind::Serial, [&](const Expression& block) {
      fetch(block);
      b.barrier();
    });
    // A half is filled again when all have added what was in it: they meet at the end of each pass.
    return b.loop(blocks, LoopKind::Serial, zeros, [&](const Expression& block, std::span<const Id> sums) {
      b.if_holds((block + 1).lt(blocks), [&] { fetch(block + 1); });
      std::vector<Id> next = add_products(b, block % form_.buffers, sums);
      b.barrier();
      return next;
    });
  }

  /// Brings `depth` positions of the sum of a side into memory: each thread some elements. Beyond the end of the tensor
  /// the last row or column stands again, whose sums nobody writes, and beyond that of the sum zeros.
  void fill(StageBuilder& b, const Panel& p, const Expression& first, const Expression& block,
            const Expression& half) const {
    const int64_t elements = form_.depth * p.extent, threads = form_.threads();
    const Expression length = summed_.size();
    b.loop((elements + threads - 1) / threads, LoopKind::Serial, [&](const Expression& pass) {
      const Expression e = pass * threads + b.thread();
      b.if_holds(e.lt(elements), [&] {
        const Expression k = p.along_sum ? e % form_.depth : e / p.extent,
                         x = p.along_sum ? e / form_.depth : e % p.extent;
        const Expression position = block * form_.depth + k;
        Coordinates at = at_;
        p.group.place((first + x).min(p.group.size() - 1), at);
        summed_.place(position.min(length - 1), at);
        std::map<int, Id> known;
        Id value = Ramp(b).evaluate(spec_, p.factor->body, p.factor->operands, at, known);
        if (!(length % form_.depth == Expression(0)))
          value = b.compute(ScalarOp::Select,
                            {b.holds(position.lt(length)), value, b.constant({c_.dtype, 1}, 0)});
        b.store(p.buffer, (half * form_.depth + k) * p.pitch() + x, value);
      });
    });
  }

  std::vector<Id> add_products(StageBuilder& b, const Expression& half, std::span<const Id> sums) const {
    return b.loop(
        form_.depth, LoopKind::Serial, {sums.begin(), sums.end()},
        [&](const Expression& k, std::span<const Id> carried) {
          const auto at = [&](const Panel& p) { return (half * form_.depth + k) * p.pitch(); };
          std::vector<Id> columns, next;
          for (int64_t j = 0; j < form_.tile_n; ++j)
            columns.push_back(
                b.load(columns_.buffer, at(columns_) + column_of_thread(b) + j * form_.threads_n));
          for (int64_t i = 0; i < form_.tile_m; ++i) {
            const Id row = b.load(rows_.buffer, at(rows_) + row_of_thread(b) + i * form_.threads_m);
            for (const Id column : columns)
              next.push_back(b.add_term(carried[next.size()], b.compute(ScalarOp::Mul, {row, column})));
          }
          return next;
        });
  }

  void write(StageBuilder& b, const std::vector<Id>& sums) const {
    const kernel::AxisSet bound = kernel::axes_of(spec_.values()[static_cast<size_t>(c_.sum)].axes);
    for (int64_t i = 0; i < form_.tile_m; ++i)
      for (int64_t j = 0; j < form_.tile_n; ++j) {
        const Expression row = first_row_ + row_of_thread(b) + i * form_.threads_m,
                         column = first_column_ + column_of_thread(b) + j * form_.threads_n;
        b.if_holds(row.lt(rows_.group.size()) & column.lt(columns_.group.size()), [&] {
          Coordinates at = at_;
          rows_.group.place(row, at);
          columns_.group.place(column, at);
          store_outputs_from(b, spec_, bound, Ramp(b), at,
                             {{c_.sum, sums[static_cast<size_t>(i * form_.tile_n + j)]}});
        });
      }
  }

  const KernelSpec& spec_;
  Contraction c_;
  BlockContractForm form_;
  Program program_;
  AxisGroup batch_, summed_;
  Panel rows_, columns_;
  Coordinates at_;  ///< of the block's batch
  Expression first_row_ = 0, first_column_ = 0;
};

// --- candidates ---

int64_t block_bytes(const Contraction& c, const BlockContractForm& form) {
  const int64_t elements = form.buffers * form.depth * (form.rows() + form.columns() + 8);
  return elements * element_bytes(c.dtype) + 128;  // buffers lie at multiples of 64
}

double block_contract_us(const KernelSpec& spec, const Contraction& c, const BlockContractForm& form,
                         const DimMap& top, const Target& target) {
  const auto size = [&](const std::vector<int>& axes) {
    return static_cast<double>(std::max<int64_t>(1, group_of(spec.extents(), axes).size().exec(top)));
  };
  const AxisGroup summed = group_of(spec.extents(), c.summed);
  const double steps = std::ceil(size(c.summed) / static_cast<double>(form.depth));
  const auto side = [&](const Factor& f, const std::vector<int>& axes, int64_t extent) {
    const AxisGroup own = group_of(spec.extents(), axes);
    const double each = 4 + body_cycles(f.body) +
                        thread_load_cycles(spec, f.operands, lies_along_sum(f, own, summed) ? summed : own);
    return each * static_cast<double>(form.depth * extent) / form.threads();
  };
  const auto products =
      static_cast<double>(form.depth * (form.tile_m * form.tile_n + form.tile_m + form.tile_n));
  const double fetched = side(c.left, c.rows, form.rows()) + side(c.right, c.columns, form.columns());
  const double blocks = size(c.batch) * std::ceil(size(c.rows) / static_cast<double>(form.rows())) *
                        std::ceil(size(c.columns) / static_cast<double>(form.columns()));
  const double barriers = form.buffers == 1 ? 2 * steps : steps + 1;
  const double cycles = block_cycles(target, blocks, form.threads(), steps * (products + fetched), barriers);
  return block_us(spec, top, target, cycles, blocks);
}

std::vector<Candidate> block_contract_candidates(const KernelSpec& given, const Bucket& bucket,
                                                 const Target& target) {
  if (target.block_threads == 0) return {};
  const KernelSpec spec = specialised(given, bucket);
  const auto found = contract::analyse(spec);
  if (!found) return {};
  const Contraction c = turned(*found, spec);
  std::vector<Candidate> list;
  for (const int64_t side : {16, 8})
    for (const int64_t tile : {1, 2, 4, 8})
      for (const int64_t depth : {8, 16})
        for (const int64_t buffers : {1, 2}) {
          const BlockContractForm form{tile, tile, side, side, depth, buffers};
          if (form.threads() <= target.block_threads && block_bytes(c, form) <= target.block_bytes)
            list.push_back({form.parameters(), block_contract_us(spec, c, form, bucket.top(), target)});
        }
  std::ranges::stable_sort(list, {}, &Candidate::predicted_us);
  constexpr size_t kMost = 8;
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

Program block_contract_lower(const KernelSpec& given, const Parameters& p, const Bucket& bucket,
                             const Target&) {
  const KernelSpec spec = specialised(given, bucket);
  const auto c = contract::analyse(spec);
  LUMINAL_CHECK(c, "no contraction: {}", spec.to_string());
  return BlockContractLowering(spec, *c, BlockContractForm::of(p)).lower();
}

}  // namespace

const Schedule& block_contract_schedule() {
  static const Schedule schedule{
      .name = "block_contract",
      .doc =
          "Sums of products by blocks of threads: tiles of both sides in memory of the "
          "block, results in registers of the threads, and perhaps the next tiles "
          "fetched while products are added.",
      .candidates = block_contract_candidates,
      .lower = block_contract_lower,
      .for_blocks = true};
  return schedule;
}

}  // namespace luminal::codegen
