#include "kernel/canonical.h"

#include <algorithm>

#include "base/fail.h"
#include "kernel/canonical_steps.h"
#include "kernel/one_term.h"
#include "symbolic/node.h"

namespace luminal::kernel {

void substitute_axes(SpecParts& parts, std::span<const Expression> replacement) {
  for (Value& v : parts.values)
    for (Operand& o : v.operands) {
      o.index = o.index.substitute_indices(replacement);
      for (Mask& m : o.masks) m.predicate = m.predicate.substitute_indices(replacement);
    }
  for (Output& o : parts.outputs) o.index = o.index.substitute_indices(replacement);
}

int add_operand(std::vector<Operand>& operands, Operand operand) {
  const auto at = std::ranges::find(operands, operand);
  if (at != operands.end()) return static_cast<int>(at - operands.begin());
  operands.push_back(std::move(operand));
  return static_cast<int>(operands.size()) - 1;
}

void forget_unread(Value& v) {
  std::vector<bool> read(v.operands.size(), false);
  for (const ScalarNode& n : v.body.nodes())
    if (n.op == ScalarOp::Input) read[n.payload] = true;
  for (size_t k = 0; k < read.size(); ++k)
    if (!read[k]) v.operands[k] = {.kind = Operand::Kind::Index, .dtype = v.operands[k].dtype, .masks = {}};
}

void append_mask(std::vector<Mask>& masks, const Expression& predicate, const Number& fill) {
  if (symbolic::is_constant(predicate, 1)) return;
  if (!masks.empty() && symbolic::is_constant(masks.back().predicate, 0)) return;
  if (!masks.empty() && masks.back().fill == fill)
    masks.back().predicate = masks.back().predicate & predicate;
  else
    masks.push_back({predicate, fill});
}

void join_slots(SpecParts& parts, std::span<const uint32_t> arguments) {
  if (arguments.empty()) return;
  LUMINAL_CHECK(arguments.size() == parts.slots.size(), "{} arguments for {} slots", arguments.size(),
                parts.slots.size());
  std::vector<int> first(arguments.size());
  bool any = false;
  for (size_t k = 0; k < arguments.size(); ++k) {
    first[k] = static_cast<int>(std::ranges::find(arguments, arguments[k]) - arguments.begin());
    if (!(parts.slots[static_cast<size_t>(first[k])] == parts.slots[k])) first[k] = static_cast<int>(k);
    any |= first[k] != static_cast<int>(k);
  }
  if (!any) return;
  for (Value& v : parts.values)
    for (Operand& o : v.operands)
      if (o.kind == Operand::Kind::Load) o.slot = first[static_cast<size_t>(o.slot)];
}

Canonical canonical(SpecParts parts, std::span<const uint32_t> arguments, MathMode mode) {
  for (Value& v : parts.values) v.online = v.masked_terms_vanish = false;
  join_slots(parts, arguments);
  simplify_values(parts);
  const auto drop_masks = [&] {
    if (mode != MathMode::Strict)
      for (Value& v : parts.values) drop_repeated_masks(v, parts);
  };
  drop_masks();
  if (split_axes(parts)) {
    simplify_values(parts);  // a value may depend on one of the two
    drop_masks();            // masks that spoke of quotients may be the same by now
  }
  if (share_axes(parts)) simplify_values(parts);  // bodies may now read one value twice
  for (Value& v : parts.values) choose_one_term(v, parts.values, mode);
  if (mode != MathMode::Strict) {
    mark_online(parts);
    for (Value& v : parts.values) v.masked_terms_vanish = v.monoid == Monoid::Add && has_masked_factor(v);
  }
  merge_axes(parts);
  return number_parts(std::move(parts), arguments);
}

}  // namespace luminal::kernel
