#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/coordinates.h"
#include "kernel/print_body.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

/// Specs as text, in the form of the examples in docs/design.md.
namespace luminal::kernel {
namespace {

/// Index formulas over named axes.
class Names {
 public:
  explicit Names(const KernelSpec& spec) {
    for (const std::string& s : spec.symbols()) taken_.insert(s);
    static constexpr std::string_view kAxes[] = {"i", "j", "k", "l", "u", "v", "w",
                                                 "x", "y", "z", "n", "o", "q", "r"};
    size_t next = 0;
    for (size_t a = 0; a < spec.extents().size(); ++a) {
      std::string name;
      do {
        name = next < std::size(kAxes) ? std::string(kAxes[next]) : fmt::format("i{}", next);
        ++next;
      } while (!taken_.insert(name).second);
      axes_.push_back(name);
    }
  }
  /// "s", "s1", ...: the first that nothing else is called.
  std::string fresh(const std::string& stem) {
    std::string name = stem;
    for (int k = 1; !taken_.insert(name).second; ++k) name = stem + std::to_string(k);
    return name;
  }
  [[nodiscard]] const std::string& axis(int a) const { return axes_[static_cast<size_t>(a)]; }

  /// Without blanks, index variables by their names.
  [[nodiscard]] std::string text(const Expression& e) const {
    const std::string plain = e.to_string();
    std::string out;
    for (size_t p = 0; p < plain.size(); ++p) {
      const bool word =
          p > 0 && (std::isalnum(plain[p - 1]) != 0 || plain[p - 1] == '_' || plain[p - 1] == '.');
      if (plain[p] == 'i' && !word && p + 1 < plain.size() && std::isdigit(plain[p + 1]) != 0) {
        size_t used = 0;
        out += axis(std::stoi(plain.substr(p + 1), &used));
        p += used;
      } else if (plain[p] != ' ') {
        out += plain[p];
      }
    }
    return out;
  }

 private:
  std::set<std::string> taken_;
  std::vector<std::string> axes_;
};

std::string spelled(const Number& n) {
  const std::string text = n.to_string();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

/// A flat index taken apart again, as far as its strides tell.
struct Subscripts {
  std::vector<Expression> at, extents;  ///< outermost first; the first extent is what is left of the buffer
};

Subscripts subscripts_of(const Expression& index, const Expression& elements, const Expression& valid) {
  // A stride may be a sum of several terms' factors: (h + 2) * i is h*i + 2*i.
  std::vector<Expression> strides{1}, atoms, totals;
  for (const symbolic::Term& t : symbolic::Terms(index)) {
    if (axes_of(t.monomial) == 0) continue;
    Expression stride = t.coefficient, atom = 1;
    for (const Expression& f : symbolic::factors(t.monomial)) (f.node().uses_index ? atom : stride) *= f;
    const auto known = std::ranges::find(atoms, atom);
    if (known == atoms.end()) {
      atoms.push_back(atom);
      totals.push_back(stride);
    } else {
      totals[static_cast<size_t>(known - atoms.begin())] += stride;
    }
  }
  for (const Expression& total : totals) {
    const Expression stride = total.range().max < 0 ? -total : total;
    if (std::ranges::find(strides, stride) == strides.end()) strides.push_back(stride);
  }
  std::ranges::sort(strides, {}, typical_size);
  // A stride begins a subscript if what lies within stays below it; otherwise it shares the subscript of the
  // one within (windows of a pool, say).
  std::vector<DenseAxis> axes;
  std::vector<Expression> extents, parts;
  for (const Expression& stride : strides) {
    std::vector<DenseAxis> more_axes = axes;
    std::vector<Expression> more_extents = extents;
    if (!axes.empty()) {
      const auto inner = symbolic::divide_exact(stride, axes.back().stride);
      if (!inner) continue;
      more_extents.back() = *inner;
    }
    more_axes.push_back({static_cast<int>(axes.size()), stride});
    more_extents.push_back(elements / stride);
    auto dealt = deal_out(index, more_axes, more_extents, valid);
    if (!dealt) continue;
    axes = std::move(more_axes);
    extents = std::move(more_extents);
    parts = std::move(*dealt);
  }
  std::ranges::reverse(parts);
  std::ranges::reverse(extents);
  return {std::move(parts), std::move(extents)};
}

class SpecPrinter {
 public:
  explicit SpecPrinter(const KernelSpec& spec) : spec_(spec), names_(spec) {}

  std::string run() {
    name_buffers();
    for (size_t k = 0; k < spec_.values().size(); ++k) add_value(k);
    return head() + scopes();
  }

 private:
  struct Line {
    AxisSet axes;
    std::string text;
  };

  [[nodiscard]] const Expression& extent(int a) const { return spec_.extents()[static_cast<size_t>(a)]; }
  [[nodiscard]] std::string binding(std::span<const int> axes) const {
    std::string text;
    for (const int a : axes)
      text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", names_.axis(a), names_.text(extent(a)));
    return text;
  }

  void name_buffers() {
    for (size_t k = 0; k < spec_.slots().size(); ++k) slots_.push_back(slot_name(k));
    values_.resize(spec_.values().size());
    reads_.assign(spec_.values().size(), 0);
    for (const Value& v : spec_.values())
      for (const Operand& o : v.operands)
        if (o.kind == Operand::Kind::Value) ++reads_[static_cast<size_t>(o.value)];
  }

  [[nodiscard]] std::string subscripts(const Subscripts& s) const {
    std::string text;
    for (const Expression& e : s.at) text += (text.empty() ? "" : ",") + names_.text(e);
    return "[" + text + "]";
  }

  [[nodiscard]] std::string load(const Operand& o) const {
    Expression valid = 1;
    for (const Mask& m : o.masks) valid = valid & m.predicate;
    const Subscripts at = subscripts_of(o.index, spec_.slots()[static_cast<size_t>(o.slot)].elements, valid);
    std::string text = slots_[static_cast<size_t>(o.slot)] + subscripts(at);
    std::string masks;
    for (const Mask& m : o.masks)
      masks +=
          fmt::format("{}{} else {}", masks.empty() ? "" : "; ", predicate(m.predicate, at), spelled(m.fill));
    return masks.empty() ? text : text + "{" + masks + "}";
  }

  /// Bounds of subscripts as such, other conditions as formulas.
  [[nodiscard]] std::string predicate(const Expression& p, const Subscripts& at) const {
    std::vector<Expression> left{p};
    if (p.node().kind == symbolic::Kind::And) left = p.node().args;
    std::string text;
    const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " and ") + part; };
    const auto take = [&left](const Expression& claim) { return std::erase(left, claim) > 0; };
    for (size_t k = 0; k < at.at.size(); ++k) {
      if (axes_of(at.at[k]) == 0) continue;
      const bool low = take(at.at[k].gte(0)), high = take(at.at[k].lt(at.extents[k]));
      const std::string c = names_.text(at.at[k]);
      if (low || high)
        add(fmt::format("{}{}{}", low ? "0 <= " : "", c,
                        high ? fmt::format(" < {}", names_.text(at.extents[k])) : std::string()));
    }
    for (const Expression& e : left) add(names_.text(e));
    return text;
  }

  [[nodiscard]] std::string operand(const Operand& o) const {
    if (o.kind == Operand::Kind::Load) return load(o);
    if (o.kind == Operand::Kind::Value) return values_[static_cast<size_t>(o.value)];
    const std::string text = names_.text(o.index);
    const bool plain = std::ranges::all_of(text, [](char c) { return std::isalnum(c) != 0; });
    return plain ? text : "(" + text + ")";
  }

  void add_value(size_t k) {
    const Value& v = spec_.values()[k];
    const AxisSet axes = axes_of(v.axes);
    const BodyText body = body_text(
        v.body, [&](int i) { return operand(v.operands[static_cast<size_t>(i)]); },
        [this] { return names_.fresh("t"); });
    for (const auto& [name, text] : body.shared)
      lines_.push_back({axes | axes_of(v.reduced), fmt::format("{} = {}", name, text)});
    std::string text = body.result;
    if (v.monoid)
      text = fmt::format("{}{} {}: {}", v.online ? "online " : "", name(*v.monoid), binding(v.reduced), text);
    // An output that nothing reads needs no name of its own.
    for (size_t o = 0; o < spec_.outputs().size(); ++o) {
      const Output& out = spec_.outputs()[o];
      if (out.value != static_cast<int>(k)) continue;
      const std::string name = o == 0 ? "Y" : fmt::format("Y{}", o);
      values_[k] = name + subscripts(subscripts_of(out.index, out.elements, 1));
      lines_.push_back({axes, fmt::format("{} = {}", values_[k], text)});
      text = values_[k];
    }
    if (!values_[k].empty()) return;
    values_[k] = names_.fresh(v.monoid ? std::string(name(*v.monoid).substr(0, 1)) : "e");
    lines_.push_back({axes, fmt::format("{} = {}", values_[k], text)});
  }

  [[nodiscard]] std::string head() const {
    const Output& o = spec_.outputs()[0];
    auto order = dense_order(o.index, spec_.extents());
    std::string dims;
    if (order.empty() && !(o.elements == Expression(1))) dims = names_.text(o.elements);
    std::ranges::reverse(order);
    for (const DenseAxis& a : order) dims += (dims.empty() ? "" : ",") + names_.text(extent(a.axis));
    return fmt::format("kernel {}[{}]\n", name(spec_.result().dtype()), dims);
  }

  /// Lines under the scopes that bind their axes; neighbours share what they can.
  [[nodiscard]] std::string scopes() const {
    struct Scope {
      AxisSet bound;  ///< here and outside
      bool open;      ///< its head stands on a line of its own
    };
    std::string out;
    std::vector<Scope> stack;
    const auto indent = [&] { return std::string(2 * (stack.size() + 1), ' '); };
    for (size_t k = 0; k < lines_.size(); ++k) {
      const Line& line = lines_[k];
      while (!stack.empty() && (stack.back().bound & ~line.axes) != 0) stack.pop_back();
      const AxisSet outer = stack.empty() ? 0 : stack.back().bound;
      if (line.axes == outer) {
        out += indent() + line.text + "\n";
        continue;
      }
      const std::string bound = binding(list_of(line.axes & ~outer));
      const bool alone = k + 1 == lines_.size() || (line.axes & ~lines_[k + 1].axes) != 0;
      out += indent() + bound + ":";
      if (alone) {
        out += " " + line.text + "\n";
        continue;
      }
      stack.push_back({line.axes, true});
      out += "\n" + indent() + line.text + "\n";
    }
    return out;
  }

  const KernelSpec& spec_;
  Names names_;
  std::vector<std::string> slots_, values_;
  std::vector<int> reads_;
  std::vector<Line> lines_;
};

}  // namespace

std::string slot_name(size_t slot) {
  constexpr size_t kLetters = 24;  // A to X
  const std::string letter(1, static_cast<char>('A' + slot % kLetters));
  return slot < kLetters ? letter : letter + std::to_string(slot / kLetters);
}

std::string KernelSpec::to_string() const { return SpecPrinter(*this).run(); }

}  // namespace luminal::kernel
