#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "base/fail.h"
#include "codegen/emit/c_family.h"
#include "codegen/emit/c_text.h"
#include "codegen/emit/llvm.h"

namespace luminal::codegen::c_text {
namespace {

using Kind = Instruction::Kind;

std::string dim_name(const Program& program, size_t k) {
  return fmt::format("d{}{}", k, is_identifier(program.dims[k]) ? "_" + program.dims[k] : "");
}
Word element_word(const Buffer& b) { return memory_word(access_dtype(b)); }

class StageText {
 public:
  StageText(const Program& program, size_t stage, const Spelling& spelling, Functions& functions)
      : program_(program),
        stage_(program.stages[stage]),
        s_(spelling),
        d_(spelling.dialect()),
        functions_(functions),
        operation_(spelling, functions),
        index_(spelling, functions),
        names_(stage_.value_count) {
    for (Id id = 0; id < stage_.value_count; ++id) names_[id] = fmt::format("v{}", id);
  }

  std::string run(const std::string& symbol) {
    const std::string task = variable(stage_.task_variable);
    open(
        fmt::format("{} {}({})", fmt::format(fmt::runtime(d_.kernel), stage_.threads), symbol, parameters()));
    for (size_t k = 0; k < program_.dims.size(); ++k) name_dim(k);
    for (size_t k = 0; k < program_.buffers.size(); ++k) name_buffer(k);
    line(fmt::format(fmt::runtime(d_.tasks), s_.type(Word::I64, 1), task));
    if (stage_.threads > 1)
      line(fmt::format("const {0} {1} = ({0}){2};", s_.type(Word::I64, 1), variable(stage_.thread_variable),
                       d_.thread));
    open("");
    block(stage_.body);
    close();
    close();
    return std::move(text_) + "\n";
  }

 private:
  // --- text ---

  void line(const std::string& text) {
    text_.append(2 * static_cast<size_t>(depth_), ' ');
    text_ += text + "\n";
  }
  void open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
    scopes_.emplace_back();
  }
  void close() {
    for (const std::string& key : scopes_.back()) known_.erase(key);
    scopes_.pop_back();
    --depth_;
    line("}");
  }

  // --- the function around the task ---

  [[nodiscard]] std::string parameters() const {
    const std::string index = s_.type(Word::I64, 1);
    if (d_.parameters == ParameterStyle::Record)
      return fmt::format("const struct arguments *arguments, const {0} begin, const {0} end", index);
    std::vector<std::string> list;
    for (const Parameter& p : parameters_of(program_, d_)) {
      if (p.kind == Parameter::Kind::FirstTask)
        list.push_back(fmt::format("const {} begin", index));
      else if (p.kind == Parameter::Kind::Dim)
        list.push_back(fmt::format("const {} {}", index, dim_name(program_, static_cast<size_t>(p.number))));
      else
        list.push_back(fmt::format("{0}{1} *{2}_memory, const {3} {2}_offset", d_.global,
                                   s_.type(Word::U8, 1), memory_name(p), index));
    }
    return fmt::format("{}", fmt::join(list, ", "));
  }
  [[nodiscard]] std::string memory_name(const Parameter& p) const {
    return p.kind == Parameter::Kind::Buffer     ? buffer_name(program_, static_cast<size_t>(p.number))
           : p.kind == Parameter::Kind::Shared   ? "shared"
           : p.kind == Parameter::Kind::Prepared ? "prepared"
                                                 : "local";
  }
  /// The expression for one of those.
  [[nodiscard]] std::string memory(const std::string& name) const {
    return d_.parameters == ParameterStyle::Record ? "arguments->" + name
                                                   : fmt::format("{0}_memory + {0}_offset", name);
  }

  void name_dim(size_t k) {
    const std::string name = index_.dims[program_.dims[k]] = dim_name(program_, k);
    if (d_.parameters == ParameterStyle::Record)
      line(fmt::format("const {} {} = arguments->dims[{}];", s_.type(Word::I64, 1), name, k));
  }
  void name_buffer(size_t k) {
    const Buffer& b = program_.buffers[k];
    const std::string element = s_.type(element_word(b), 1), name = buffer_name(program_, k);
    if (b.space == Space::Table || (b.space == Space::Block && stage_.threads == 1)) return;
    if (b.space == Space::Block)
      return line(
          fmt::format("{}{} {}[{}];", d_.block, element, name, std::max<int64_t>(1, *b.elements.constant())));
    if (is_private(b, d_))
      return line(fmt::format("{} {}[{}];", element, name, std::max<int64_t>(1, *b.elements.constant())));
    const std::string type =
        fmt::format("{}{}{} *", d_.global, b.space == Space::Slot ? "const " : "", element);
    line(fmt::format("{0}const {1} = ({0})({2});", type, name, place(k)));
  }
  std::string place(size_t k) {
    const auto within = [&](const Workspace& w) { return index_(w.offsets[k]); };
    switch (program_.buffers[k].space) {
      case Space::Shared:
        return fmt::format("{} + {}", memory("shared"), within(workspace_of(program_, Space::Shared)));
      case Space::Prepared:
        return fmt::format("{} + {}", memory("prepared"), within(workspace_of(program_, Space::Prepared)));
      case Space::Local: {
        const Workspace local = local_workspace_of(program_, d_);
        if (d_.parameters == ParameterStyle::Record)
          return fmt::format("{} + {}", memory("local"), within(local));
        return fmt::format("{} + ({})({}) * {} + {}", memory("local"), s_.type(Word::I64, 1), d_.item,
                           index_(local.bytes), within(local));
      }
      case Space::Slot:
      case Space::Output:
      case Space::Table:
      case Space::Block:
        break;
    }
    return d_.parameters == ParameterStyle::Record ? fmt::format("arguments->buffers[{}]", k)
                                                   : memory(buffer_name(program_, k));
  }

  // --- values ---

  [[nodiscard]] Type type(Id id) const { return stage_.types[id]; }
  [[nodiscard]] int width(int lanes) const { return s_.width(lanes); }
  [[nodiscard]] int pieces(int lanes) const { return lanes / width(lanes); }
  [[nodiscard]] std::string piece_type(Type t) const { return s_.type(value_word(t.dtype), width(t.lanes)); }
  [[nodiscard]] const std::string& name_of(Id id) const { return names_[id]; }
  /// The vector at hand of a value that has several: number k of them.
  [[nodiscard]] std::string piece(Id id, const std::string& k = "k") const {
    return pieces(type(id).lanes) == 1 ? name_of(id) : fmt::format("{}[{}]", name_of(id), k);
  }
  [[nodiscard]] std::string lane(Id id, int number) const {
    const int w = width(type(id).lanes);
    return s_.lane(piece(id, std::to_string(number / w)), w, number % w);
  }
  /// `k`, if values of so many lanes are arrays.
  [[nodiscard]] std::string piece_number(int lanes) const { return pieces(lanes) == 1 ? "0" : "k"; }
  std::string variable(int number) { return index_.variables[number] = fmt::format("i{}", number); }

  void for_pieces(int count, const std::string& statement) {
    line(count == 1 ? statement : fmt::format("for (int k = 0; k < {}; ++k) {}", count, statement));
  }
  /// Whether a value of this text is there already, by whose name `id` then goes. Of what does not depend on memory.
  bool is_known(Id id, Type t, const std::string& text) {
    const auto [at, fresh] =
        known_.try_emplace(fmt::format("{} {} {}", t.lanes, piece_type(t), text), names_[id]);
    if (fresh)
      scopes_.back().push_back(at->first);
    else
      names_[id] = at->second;
    return !fresh;
  }
  /// A value from the text of one of its vectors.
  void define(Id id, Type t, const std::string& text) {
    if (!is_known(id, t, text)) define_here(id, t, text);
  }
  /// One that must stand where it is.
  void define_here(Id id, Type t, const std::string& text) {
    const int count = pieces(t.lanes);
    if (count == 1) return line(fmt::format("const {} {} = {};", piece_type(t), name_of(id), text));
    line(fmt::format("{} {}[{}];", piece_type(t), name_of(id), count));
    for_pieces(count, fmt::format("{}[k] = {};", name_of(id), text));
  }
  /// A value from the text of each of its lanes.
  void define_by_lanes(Id id, Type t, const std::function<std::string(int)>& text) {
    const std::string initial = by_lanes(t, text);
    if (!is_known(id, t, initial)) define_whole(id, t, initial);
  }
  [[nodiscard]] std::string by_lanes(Type t, const std::function<std::string(int)>& text) const {
    const int w = width(t.lanes), count = pieces(t.lanes);
    std::vector<std::string> vectors;
    for (int k = 0; k < count; ++k) {
      std::vector<std::string> lanes;
      for (int l = 0; l < w; ++l) lanes.push_back(text(k * w + l));
      vectors.push_back(s_.from_lanes(value_word(t.dtype), lanes));
    }
    return count == 1 ? vectors[0] : fmt::format("{{{}}}", fmt::join(vectors, ", "));
  }
  void define_whole(Id id, Type t, const std::string& initial) {
    const int count = pieces(t.lanes);
    line(fmt::format("const {} {}{} = {};", piece_type(t), name_of(id),
                     count == 1 ? "" : fmt::format("[{}]", count), initial));
  }
  /// The same, of lanes that differ by their number alone. `text`: of a lane's number and of how to name that lane of
  /// another value.
  using LaneOf = std::function<std::string(Id)>;
  using LaneText = std::function<std::string(const std::string& number, const LaneOf& lane_of)>;
  void define_each_lane_here(Id id, Type t, const LaneText& text) {
    if (width(t.lanes) == 1 && t.lanes > 1)
      return define_here(id, t, text("k", [&](Id other) { return piece(other); }));
    define_whole(id, t, by_lanes(t, [&](int number) {
                   return text(std::to_string(number), [&](Id other) { return lane(other, number); });
                 }));
  }
  void for_each_lane(Type t, const LaneText& statement) {
    if (width(t.lanes) == 1)
      return for_pieces(t.lanes, statement(piece_number(t.lanes), [&](Id other) { return piece(other); }));
    for (int number = 0; number < t.lanes; ++number)
      line(statement(std::to_string(number), [&](Id other) { return lane(other, number); }));
  }

  // --- statements ---

  void block(const Block& b) {
    for (const Instruction& i : b) instruction(i);
  }

  void instruction(const Instruction& i) {
    switch (i.kind) {
      case Kind::Compute:
        return compute(i);
      case Kind::Index:
        return define(i.result, i.type, index_(i.index));
      case Kind::Lanes:
        return define_by_lanes(i.result, i.type, [&](int k) {
          return std::to_string(i.pattern.empty() ? k : i.pattern[static_cast<size_t>(k)]);
        });
      case Kind::LaneMask:
        return lane_mask(i);
      case Kind::Broadcast:
        return define(i.result, i.type,
                      s_.spread(value_word(i.type.dtype), width(i.type.lanes), name_of(i.operands[0])));
      case Kind::Shuffle: {
        const int n = type(i.operands[0]).lanes;
        return define_by_lanes(i.result, i.type, [&](int k) {
          const int p = i.pattern[static_cast<size_t>(k)];
          return p < n ? lane(i.operands[0], p) : lane(i.operands[1], p - n);
        });
      }
      case Kind::Permute:
        return permute(i);
      case Kind::Dot4:
        return dot4(i);
      case Kind::Reduce:
        return reduce(i);
      case Kind::Load:
        return load(i);
      case Kind::Gather:
        return gather(i);
      case Kind::Store:
        return store(i);
      case Kind::Scatter:
        return scatter(i);
      case Kind::Prefetch:
        return;  // a wish: the languages' own may not be given a place outside the buffer
      case Kind::Loop:
        return loop(i);
      case Kind::If:
        open(fmt::format("if ({})", name_of(i.operands[0])));
        block(i.body);
        return close();
      case Kind::Barrier:
        return line(std::string(d_.barrier));
    }
  }

  void compute(const Instruction& i) {
    const int w = width(i.type.lanes);
    if (i.op == ScalarOp::Constant)
      return define(i.result, i.type,
                    s_.spread(value_word(i.type.dtype), w, s_.literal(i.type.dtype, i.bits)));
    std::vector<std::string> operands;
    for (const Id id : i.operands) operands.push_back(piece(id));
    const Dtype operand = type(i.operands[i.op == ScalarOp::Select ? 1 : 0]).dtype;
    define(i.result, i.type, operation_(i.op, {i.type.dtype, w}, operand, operands));
  }

  /// The count is brought into the range of the lanes' numbers first.
  void lane_mask(const Instruction& i) {
    const int lanes = i.type.lanes, w = width(lanes);
    const std::string count = index_(i.index.max(0).min(lanes));
    if (w == 1) return define(i.result, i.type, fmt::format("(-({} < {}))", piece_number(lanes), count));
    std::vector<std::string> numbers;
    for (int k = 0; k < w; ++k) numbers.push_back(std::to_string(k));
    const std::string before = pieces(lanes) == 1 ? "" : fmt::format(" - {} * k", w);
    const std::string left =
        s_.spread(Word::I32, w, fmt::format("(({}){}{})", s_.type(Word::I32, 1), count, before));
    define(i.result, i.type,
           s_.convert(Word::I8, w, fmt::format("({} < {})", s_.from_lanes(Word::I32, numbers), left)));
  }

  /// By way of memory, which all languages index by values.
  void permute(const Instruction& i) {
    const Type table = type(i.operands[1]);
    const int tables = static_cast<int>(i.operands.size()) - 1;
    const Word word = value_word(i.type.dtype);
    const std::string entries = fmt::format("t{}", i.result);
    line(fmt::format("{} {}[{}];", s_.type(word, 1), entries, tables * table.lanes));
    for (int t = 0; t < tables; ++t) {
      const Id from = i.operands[static_cast<size_t>(t) + 1];
      for_each_lane(table, [&](const std::string& number, const LaneOf& lane_of) {
        return fmt::format("{}[{} + {}] = {};", entries, t * table.lanes, number, lane_of(from));
      });
    }
    define_each_lane_here(i.result, i.type, [&](const std::string&, const LaneOf& lane_of) {
      return fmt::format("{}[{} & {}]", entries, lane_of(i.operands[0]), tables * table.lanes - 1);
    });
  }

  void dot4(const Instruction& i) {
    const std::string natural = s_.type(Word::U32, 1), whole = s_.type(Word::I32, 1);
    define_by_lanes(i.result, i.type, [&](int k) {
      std::string sum;
      for (int j = 4 * k; j < 4 * k + 4; ++j)
        sum +=
            fmt::format("{}{} * {}", j == 4 * k ? "" : " + ", lane(i.operands[1], j), lane(i.operands[2], j));
      return fmt::format("({})(({}){} + ({})({}))", whole, natural, lane(i.operands[0], k), natural, sum);
    });
  }

  /// By halves: of the array, then of its last vector.
  void reduce(const Instruction& i) {
    const Type t = type(i.operands[0]);
    const Word word = value_word(t.dtype);
    const std::string rest = fmt::format("r{}", i.result);
    int w = width(t.lanes);
    const auto folded = [&](int lanes, const std::string& a, const std::string& b) {
      const std::string operands[] = {a, b};
      return operation_(i.op, {t.dtype, lanes}, t.dtype, operands);
    };
    std::string last = name_of(i.operands[0]);
    for (int half = pieces(t.lanes) / 2; half > 0; half /= 2) {
      if (2 * half == pieces(t.lanes)) line(fmt::format("{} {}[{}];", s_.type(word, w), rest, half));
      for_pieces(half, fmt::format("{}[{}] = {};", rest, half == 1 ? "0" : "k",
                                   folded(w, fmt::format("{}[{}]", last, half == 1 ? "0" : "k"),
                                          fmt::format("{}[{} + {}]", last, half == 1 ? "0" : "k", half))));
      last = rest;
    }
    if (pieces(t.lanes) > 1) last += "[0]";
    for (; w > 1; w /= 2) {
      const auto part = [&](int from) {
        std::vector<std::string> lanes;
        for (int k = from; k < from + w / 2; ++k) lanes.push_back(s_.lane(last, w, k));
        const std::string name = fmt::format("{}_{}{}", rest, from == 0 ? "low" : "high", w / 2);
        line(fmt::format("const {} {} = {};", s_.type(word, w / 2), name, s_.from_lanes(word, lanes)));
        return name;
      };
      const std::string low = part(0), high = part(w / 2), name = fmt::format("{}_{}", rest, w / 2);
      line(fmt::format("const {} {} = {};", s_.type(word, w / 2), name, folded(w / 2, low, high)));
      last = name;
    }
    define_here(i.result, i.type, last);
  }

  // --- memory ---

  [[nodiscard]] const Buffer& buffer(const Instruction& i) const {
    return program_.buffers[static_cast<size_t>(i.buffer)];
  }
  [[nodiscard]] std::string base(const Instruction& i) const {
    return buffer_name(program_, static_cast<size_t>(i.buffer));
  }
  /// Whether the lanes lie side by side, so that a vector is read or written at once.
  [[nodiscard]] bool is_contiguous(const Instruction& i) const {
    return i.stride == 1 && width(i.type.lanes) > 1 && access_width(i, buffer(i)) == 1;
  }
  /// Of lane `number`, behind `first`.
  static std::string strided(const std::string& first, const std::string& number, int64_t stride) {
    if (number == "0" || stride == 0) return first;
    return fmt::format("{} + {} * {}", first, number, integer_text(stride));
  }
  /// The first of the vector at hand.
  std::string vector_place(const Instruction& i) {
    const int w = width(i.type.lanes);
    const std::string behind = pieces(i.type.lanes) == 1 ? "" : fmt::format(" + {} * k", w);
    return fmt::format("({} + {}{})", base(i), index_(i.index), behind);
  }

  /// One element as a value: Bool lanes are 0 or 1 in memory.
  [[nodiscard]] std::string element(const Instruction& i, const std::string& at) const {
    if (access_width(i, buffer(i)) == 2)  // the lower byte first
      return fmt::format("({0}[{1}] | {0}[{1} + 1] << 8)", base(i), at);
    const std::string text = fmt::format("{}[{}]", base(i), at);
    return i.type.dtype == Dtype::Bool ? fmt::format("(-({} != 0))", text) : text;
  }
  [[nodiscard]] static std::string masked(const Instruction& i, const std::string& text,
                                          const LaneOf& lane_of) {
    return i.mask == kNone ? text : fmt::format("({} ? {} : 0)", lane_of(i.mask), text);
  }

  void load(const Instruction& i) {
    const int w = width(i.type.lanes);
    if (is_contiguous(i)) return define_here(i.result, i.type, from_memory(i, vector_load(i)));
    if (i.stride == 0 && i.mask == kNone)
      return define_here(i.result, i.type,
                         s_.spread(value_word(i.type.dtype), w, element(i, index_(i.index))));
    const std::string first = index_(i.index);
    define_each_lane_here(i.result, i.type, [&](const std::string& number, const LaneOf& lane_of) {
      return masked(i, element(i, strided(first, number, i.stride)), lane_of);
    });
  }
  [[nodiscard]] std::string from_memory(const Instruction& i, const std::string& vector) const {
    if (i.type.dtype != Dtype::Bool) return vector;
    const int w = width(i.type.lanes);
    return fmt::format("({} != {})", vector, s_.spread(Word::U8, w, "0"));
  }
  std::string vector_load(const Instruction& i) {
    const int w = width(i.type.lanes);
    if (i.mask == kNone) return fmt::format(fmt::runtime(d_.load), w, vector_place(i));
    return fmt::format("{}({}, {})", masked_function(i, "load"), vector_place(i), piece(i.mask));
  }
  void vector_store(const Instruction& i) {
    const int w = width(i.type.lanes);
    std::string value = piece(i.operands[0]);
    if (i.type.dtype == Dtype::Bool)
      value = s_.bits(Word::I8, Word::U8, w, fmt::format("({} & {})", value, s_.spread(Word::I8, w, "1")));
    for_pieces(pieces(i.type.lanes),
               i.mask == kNone ? fmt::format(fmt::runtime(d_.store), w, vector_place(i), value) + ";"
                               : fmt::format("{}({}, {}, {});", masked_function(i, "store"), vector_place(i),
                                             piece(i.mask), value));
  }

  /// A function of our own that reads or writes the lanes that are on: all of them are the rule.
  std::string masked_function(const Instruction& i, const std::string& what) {
    const int w = width(i.type.lanes);
    const Word word = memory_word(i.type.dtype);
    const bool loads = what == "load", is_array = is_private(buffer(i), d_),
               is_table = buffer(i).space == Space::Table, is_block = buffer(i).space == Space::Block;
    const std::string type = s_.type(word, w);
    const std::string name = fmt::format("{}_{}{}", what, type,
                                         is_array   ? "_private"
                                         : is_table ? "_table"
                                         : is_block ? "_block"
                                                    : "");
    if (!functions_.is_new(name)) return name;
    const std::string all = fmt::format(fmt::runtime(d_.all), "on");
    const std::string space = is_array   ? ""
                              : is_table ? fmt::format("{} ", d_.table)
                                         : std::string(is_block ? d_.block : d_.global);
    const std::string from = fmt::format("{}{}{} *at, const {} on", space, loads ? "const " : "",
                                         s_.type(word, 1), s_.type(Word::I8, w));
    std::string text =
        loads ? fmt::format("{} {} {}({}) {{\n  if ({}) return {};\n  {} value = {};\n", d_.function, type,
                            name, from, all, fmt::format(fmt::runtime(d_.load), w, "at"), type,
                            s_.spread(word, w, "0"))
              : fmt::format("{} void {}({}, const {} value) {{\n  if ({}) {{\n    {};\n    return;\n  }}\n",
                            d_.function, name, from, type, all,
                            fmt::format(fmt::runtime(d_.store), w, "at", "value"));
    for (int k = 0; k < w; ++k) {
      const std::string lane = s_.lane("value", w, k), place = fmt::format("at[{}]", k);
      text += fmt::format("  if ({}) {} = {};\n", s_.lane("on", w, k), loads ? lane : place,
                          loads ? place : lane);
    }
    functions_.define(text + (loads ? "  return value;\n}\n" : "}\n"));
    return name;
  }

  void gather(const Instruction& i) {
    define_each_lane_here(i.result, i.type, [&](const std::string&, const LaneOf& lane_of) {
      return masked(i, element(i, lane_of(i.operands[0])), lane_of);
    });
  }

  void store(const Instruction& i) {
    if (is_contiguous(i)) return vector_store(i);
    const std::string first = index_(i.index);
    store_lanes(i,
                [&](const std::string& number, const LaneOf&) { return strided(first, number, i.stride); });
  }
  void scatter(const Instruction& i) {
    store_lanes(i, [&](const std::string&, const LaneOf& lane_of) { return lane_of(i.operands[1]); });
  }
  void store_lanes(const Instruction& i, const LaneText& place) {
    for_each_lane(i.type, [&](const std::string& number, const LaneOf& lane_of) {
      const std::string value = lane_of(i.operands[0]);
      return fmt::format("{}{}[{}] = {};", i.mask == kNone ? "" : fmt::format("if ({}) ", lane_of(i.mask)),
                         base(i), place(number, lane_of),
                         i.type.dtype == Dtype::Bool ? fmt::format("({} & 1)", value) : value);
    });
  }

  // --- loops ---

  void copy(Type t, const std::string& to, const std::string& from) {
    const bool is_array = pieces(t.lanes) > 1;
    for_pieces(pieces(t.lanes), fmt::format("{}{} = {};", to, is_array ? "[k]" : "", from));
  }
  void declare(Id id) {
    const int count = pieces(type(id).lanes);
    line(fmt::format("{} {}{};", piece_type(type(id)), name_of(id),
                     count == 1 ? "" : fmt::format("[{}]", count)));
  }

  /// Results hold what is carried; inside, the carried values are copies, so that `next` may name them in any order.
  void loop(const Instruction& i) {
    for (size_t k = 0; k < i.results.size(); ++k) {
      declare(i.results[k]);
      copy(type(i.results[k]), name_of(i.results[k]), piece(i.initial[k]));
    }
    if (i.loop == LoopKind::Unrolled && !d_.unroll.empty()) line(std::string(d_.unroll));
    const std::string limit = index_(i.extent), v = variable(i.variable);
    open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", s_.type(Word::I64, 1), v, limit));
    for (size_t k = 0; k < i.carried.size(); ++k)
      define_here(i.carried[k], type(i.carried[k]), piece(i.results[k]));
    block(i.body);
    for (size_t k = 0; k < i.next.size(); ++k)
      copy(type(i.results[k]), name_of(i.results[k]), piece(i.next[k]));
    close();
    index_.variables.erase(i.variable);
  }

  const Program& program_;
  const Stage& stage_;
  const Spelling& s_;
  const Dialect& d_;
  Functions& functions_;
  Operations operation_;
  Indices index_;
  std::vector<std::string> names_;                      ///< by value
  std::unordered_map<std::string, std::string> known_;  ///< names of values by their text
  std::vector<std::vector<std::string>> scopes_;        ///< keys of those that end with each open block
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string stage_text(const Program& program, size_t stage, const Spelling& spelling, Functions& functions) {
  return StageText(program, stage, spelling, functions).run(stage_symbol(program, stage));
}

}  // namespace luminal::codegen::c_text
