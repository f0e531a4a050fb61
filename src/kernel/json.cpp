#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/reason.h"
#include "kernel/spec.h"

/// Specs as JSON. Formulas and dtypes are written as their texts, floating numbers as hexadecimal bits, which
/// keeps infinities and NaN.
namespace luminal::kernel {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kNoMonoid = "none";

std::string hex(uint64_t bits) { return fmt::format("{:x}", bits); }

ordered_json json_of(const Number& n) {
  if (n.is_integer()) return n.as<int64_t>();
  return hex(std::bit_cast<uint64_t>(n.as<double>()));
}

std::string_view name_of(Operand::Kind kind) {
  return kind == Operand::Kind::Load ? "load" : kind == Operand::Kind::Value ? "value" : "index";
}

ordered_json json_of(const Operand& o) {
  ordered_json j{{"kind", name_of(o.kind)}, {"dtype", name(o.dtype)}};
  if (o.kind == Operand::Kind::Value) {
    j["value"] = o.value;
    return j;
  }
  if (o.kind == Operand::Kind::Load) j["slot"] = o.slot;
  j["index"] = o.index.to_text();
  for (const Mask& m : o.masks) j["masks"].push_back({m.predicate.to_text(), json_of(m.fill)});
  return j;
}

/// Nodes as [op, dtype, operands...], leaves as [op, dtype, payload in hexadecimal].
ordered_json json_of(const ScalarFunction& f) {
  ordered_json nodes = ordered_json::array();
  for (const ScalarNode& n : f.nodes()) {
    ordered_json j{name(n.op), name(n.dtype)};
    for (int k = 0; k < arity(n.op); ++k) j.push_back(n.operands[static_cast<size_t>(k)].index);
    if (arity(n.op) == 0) j.push_back(hex(n.payload));
    nodes.push_back(std::move(j));
  }
  return {{"nodes", std::move(nodes)}, {"result", f.outputs()[0].index}};
}

/// Reads the parts back. Anything that does not fit is a FormatError with the way to it.
class Reader {
 public:
  static SpecParts read(const ordered_json& j) {
    SpecParts parts;
    each(j, "extents", [&](const ordered_json& e) { parts.extents.push_back(expression(e)); });
    each(j, "slots", [&](const ordered_json& s) {
      parts.slots.push_back(
          {parse_dtype(text(s, "dtype")), expression(field(s, "elements")), holds(s, "frozen")});
    });
    each(j, "values", [&](const ordered_json& v) { parts.values.push_back(value(v)); });
    each(j, "outputs", [&](const ordered_json& o) {
      parts.outputs.push_back(
          {integer<int>(field(o, "value")), expression(field(o, "index")), expression(field(o, "elements"))});
    });
    return parts;
  }

 private:
  static const ordered_json& field(const ordered_json& j, const char* key) {
    if (!j.is_object() || !j.contains(key))
      fail<FormatError>("[KernelSpec] field '{}' is missing; write it", key);
    return j.at(key);
  }
  /// Of what is false where it is not written.
  static bool holds(const ordered_json& j, const char* key) { return j.contains(key) && j[key] == true; }
  static std::string text(const ordered_json& j) {
    if (!j.is_string()) fail<FormatError>("[KernelSpec] {} is no text; write it in quotes", j.dump());
    return j.get<std::string>();
  }
  static std::string text(const ordered_json& j, const char* key) { return text(field(j, key)); }
  template <class T>
  static T integer(const ordered_json& j) {
    if (!j.is_number_integer()) fail<FormatError>("[KernelSpec] {} is no whole number; write one", j.dump());
    const auto wide = j.get<int64_t>();
    if (!std::in_range<T>(wide)) fail<FormatError>("[KernelSpec] {} is out of range; check the file", wide);
    return static_cast<T>(wide);
  }
  static uint64_t bits(const ordered_json& j) {
    const std::string digits = text(j);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc{} || end != digits.data() + digits.size())
      fail<FormatError>("[KernelSpec] '{}' is no hexadecimal number; check the file", digits);
    return value;
  }
  static Expression expression(const ordered_json& j) { return Expression::parse(text(j)); }
  static Number number(const ordered_json& j) {
    return j.is_string() ? Number(std::bit_cast<double>(bits(j))) : Number(integer<int64_t>(j));
  }
  template <class F>
  static void each(const ordered_json& j, const char* key, F f) {
    const ordered_json& list = field(j, key);
    if (!list.is_array()) fail<FormatError>("[KernelSpec] '{}' is no list; write [...]", key);
    for (const ordered_json& e : list) f(e);
  }

  static ScalarNode node(const ordered_json& j) {
    if (!j.is_array() || j.size() < 2 || j.size() > 5)
      fail<FormatError>("[KernelSpec] node {} is not [op, dtype, ...]; check the file", j.dump());
    ScalarNode n;
    const std::string op = text(j[0]);
    int number = 0;
    while (number < kScalarOpCount && luminal::name(static_cast<ScalarOp>(number)) != op) ++number;
    if (number == kScalarOpCount) fail<FormatError>("[KernelSpec] there is no scalar operation '{}'", op);
    n.op = static_cast<ScalarOp>(number);
    n.dtype = parse_dtype(text(j[1]));
    const auto count = static_cast<size_t>(arity(n.op));
    if (j.size() != 2 + std::max<size_t>(count, 1))
      fail<FormatError>("[KernelSpec] node {} has {} parts; '{}' takes {}", j.dump(), j.size() - 2, op,
                        std::max<size_t>(count, 1));
    for (size_t k = 0; k < count; ++k) n.operands[k] = {integer<uint32_t>(j[2 + k])};
    if (count == 0) n.payload = bits(j[2]);
    return n;
  }

  static Operand operand(const ordered_json& j) {
    Operand o;
    o.dtype = parse_dtype(text(j, "dtype"));
    const std::string kind = text(j, "kind");
    if (kind == "value") {
      o.kind = Operand::Kind::Value;
      o.value = integer<int>(field(j, "value"));
      return o;
    }
    if (kind != "load" && kind != "index")
      fail<FormatError>("[KernelSpec] '{}' is no kind of operand; use load, value or index", kind);
    o.kind = kind == "load" ? Operand::Kind::Load : Operand::Kind::Index;
    if (o.kind == Operand::Kind::Load) o.slot = integer<int>(field(j, "slot"));
    o.index = expression(field(j, "index"));
    if (j.contains("masks"))
      each(j, "masks", [&](const ordered_json& m) {
        if (!m.is_array() || m.size() != 2) fail<FormatError>("[KernelSpec] mask {} is no pair", m.dump());
        o.masks.push_back({expression(m[0]), number(m[1])});
      });
    return o;
  }

  static Value value(const ordered_json& j) {
    Value v;
    each(j, "axes", [&](const ordered_json& a) { v.axes.push_back(integer<int>(a)); });
    each(j, "reduced", [&](const ordered_json& a) { v.reduced.push_back(integer<int>(a)); });
    const std::string monoid = text(j, "monoid");
    if (monoid != kNoMonoid) {
      const auto found = std::ranges::find(kMonoidInfos, monoid, &MonoidInfo::name);
      if (found == kMonoidInfos.end())
        fail<FormatError>("[KernelSpec] there is no monoid '{}'; use {}, {}", monoid, kNoMonoid,
                          fmt::join(kMonoidInfos | std::views::transform(&MonoidInfo::name), ", "));
      v.monoid = static_cast<Monoid>(found - kMonoidInfos.begin());
    }
    const ordered_json& body = field(j, "body");
    std::vector<ScalarNode> nodes;
    each(body, "nodes", [&](const ordered_json& n) { nodes.push_back(node(n)); });
    v.body = ScalarFunction(std::move(nodes), {{integer<uint32_t>(field(body, "result"))}});
    each(j, "operands", [&](const ordered_json& o) { v.operands.push_back(operand(o)); });
    v.online = holds(j, "online");
    v.masked_terms_vanish = holds(j, "masked_terms_vanish");
    return v;
  }
};

}  // namespace

std::string KernelSpec::to_json() const {
  ordered_json j{{"extents", ordered_json::array()},
                 {"slots", ordered_json::array()},
                 {"values", ordered_json::array()},
                 {"outputs", ordered_json::array()}};
  for (const Expression& e : extents()) j["extents"].push_back(e.to_text());
  for (const Slot& s : slots()) {
    j["slots"].push_back({{"dtype", name(s.dtype)}, {"elements", s.elements.to_text()}});
    if (s.is_frozen) j["slots"].back()["frozen"] = true;
  }
  for (const Value& v : values()) {
    ordered_json operands = ordered_json::array();
    for (const Operand& o : v.operands) operands.push_back(json_of(o));
    j["values"].push_back({{"axes", v.axes},
                           {"reduced", v.reduced},
                           {"monoid", v.monoid ? name(*v.monoid) : kNoMonoid},
                           {"body", json_of(v.body)},
                           {"operands", std::move(operands)}});
    if (v.online) j["values"].back()["online"] = true;
    if (v.masked_terms_vanish) j["values"].back()["masked_terms_vanish"] = true;
  }
  for (const Output& o : outputs())
    j["outputs"].push_back(
        {{"value", o.value}, {"index", o.index.to_text()}, {"elements", o.elements.to_text()}});
  return j.dump();
}

KernelSpec KernelSpec::parse_json(std::string_view text) {
  try {
    return KernelSpec(Reader::read(parse_bounded_json<ordered_json>(text, "KernelSpec")));
  } catch (const nlohmann::json::exception&) {
    fail<FormatError>("[KernelSpec] the text is not JSON; check that it is whole");
  } catch (const InternalError& e) {  // well-formed, but it breaks a promise of specs
    fail<FormatError>("[KernelSpec] {}", reason_of(e));
  } catch (const DtypeError& e) {
    fail<FormatError>("[KernelSpec] {}", e.what());
  }
}

}  // namespace luminal::kernel
