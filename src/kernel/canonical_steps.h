#pragma once
#include "kernel/axes.h"
#include "kernel/canonical.h"

/// The steps of `canonical`, in the order in which it takes them. Each leaves the meaning of the parts as it
/// is.
namespace luminal::kernel {

/// Index variables replaced in every index, mask and output.
void substitute_axes(SpecParts& parts, std::span<const Expression> replacement);
/// The position of an equal operand, which is added if there is none.
int add_operand(std::vector<Operand>& operands, Operand operand);
/// Operands that the body does not read, perhaps over axes that the value does not bind, count for nothing.
void forget_unread(Value& v);
/// Masks that always or never apply dropped, neighbours of one fill joined.
void append_mask(std::vector<Mask>& masks, const Expression& predicate, const Number& fill);

/// Slots of equal arguments become one: loads read the first of them.
void join_slots(SpecParts& parts, std::span<const uint32_t> arguments);
/// Axes of extent 1 dropped; values that neither reduce nor are stored inlined into their readers; free axes
/// set to what a value depends on; copies of values dropped; a sum over a sum that nobody else reads becomes
/// one sum.
void simplify_values(SpecParts& parts);
/// Choices between a value and padding in normal form: a part of the body that is constant wherever a
/// predicate is 0 reads its loads under that predicate and is right by their fill alone, or else stands whole
/// in one select.
void normalise_masks(Value& value);
/// Conditions that make a product 0 are asked of one factor, where the others may be read anyway. Relaxed.
void drop_repeated_masks(Value& value, const SpecParts& parts);
/// Whether the body is a product of which a factor is 0 where its mask says so.
[[nodiscard]] bool has_masked_factor(const Value& value);
/// An axis used through / and % by a divisor of its extent becomes two. Whether any did.
bool split_axes(SpecParts& parts);
/// Reduced axes get the number of another axis where that makes loads equal and both never meet in one value
/// (softmax: one axis for the maximum, the sum and the result); then equal values become one. Whether any
/// did.
bool share_axes(SpecParts& parts);
/// Marks the sums that can follow a rising maximum, and sums of squared deviations beside the plain sum (Value::online).
/// Factors made of other values over the same axes leave the former: the terms they leave are at most as large as those of
/// the sum that normalises them. Relaxed.
void mark_online(SpecParts& parts);
/// Two axes that only ever appear as outer * extent + inner become one.
void merge_axes(SpecParts& parts);
/// Order and numbers of everything by content; what no output needs is dropped. `arguments` break ties
/// between slots that play the same part.
[[nodiscard]] Canonical number_parts(SpecParts parts, std::span<const uint32_t> arguments);

}  // namespace luminal::kernel
