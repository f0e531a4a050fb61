#!/usr/bin/env python3
"""Weakens every guard of the functions behind the rules and of those that make one kernel of several, one at a time,
and runs their tests on each.

tests/rule/weakened_rules_test.cpp does the same to the text of the rules at run time; what stands in C++ is compiled
and linked for each mutant, which takes some seconds. After a change to one of the sources below:

  ninja -C build/release test_kernel test_search suite_rule && python3 tools/weaken_laws.py [BUILD] [WORD]

WORD: only mutants in whose file, text or change it occurs. Ends with 1 if a mutant that is not known to say the same
is missed, or one that is known to is noticed. `--check` only says whether the sources have what the list changes.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAWS, STORE, LANGUAGE = "src/kernel/laws.cpp", "src/search/saturate/spec_store.cpp", "src/search/saturate/language.cpp"
ONLINE, IN_PLACE, COMPOSE = "src/kernel/online.cpp", "src/kernel/in_place.cpp", "src/kernel/compose.cpp"
INLINER, CANONICAL = "src/kernel/inliner.cpp", "src/kernel/canonical.cpp"
AXES, MASKS = "src/kernel/canonical_axes.cpp", "src/kernel/canonical_masks.cpp"
SHARE, VALUES = "src/kernel/canonical_share.cpp", "src/kernel/canonical_values.cpp"
ONE_TERM = "src/kernel/one_term.cpp"
ROUTED, DEVIATIONS = "src/kernel/routed.cpp", "src/kernel/deviations.cpp"

# Programs that may notice a mutant of a file, and their tests, the quickest first.
TESTS_OF_LAWS = {"test_kernel": "Laws.*", "test_search": "SpecStore.*",
                 "suite_rule": "Rules.*:WeakenedRules.TheRight*:RelaxedRange.*:OwnRules.*"}
TESTS = {LAWS: TESTS_OF_LAWS, STORE: TESTS_OF_LAWS, LANGUAGE: TESTS_OF_LAWS,
         ONLINE: {"test_kernel": "Online*:*OnlineSums.*:Compose*:Deviations.*"},
         DEVIATIONS: {"test_kernel": "Deviations.*"},
         IN_PLACE: {"test_kernel": "InPlace.*"}, ROUTED: {"test_kernel": "Routed.*"},
         ONE_TERM: {"test_kernel": "OneTerm.*:Canonical*:Routed.*"}} | dict.fromkeys(
             (COMPOSE, INLINER, CANONICAL, AXES, MASKS, SHARE, VALUES),
             {"test_kernel": "Canonical*:RandomCompositions.*:RandomSiblings.*:Compose*:MergeSiblings*:Laws.*:Online*"})

# File, function (its first line), text, and what it becomes; a fifth part says why the mutant is no other law.
MUTANTS = [
    (LAWS, "const Value* sole_elementwise(", "spec.values().size() != 1 || ", "",
     "A value that another reads computes more than a load or a constant."),
    (LAWS, "const Value* sole_elementwise(", " || spec.outputs().size() != 1", ""),
    (LAWS, "const Value* sole_elementwise(", "!spec.values()[0].monoid", "true"),
    (LAWS, "handed_on(", "n.op == ScalarOp::Add && ", ""),
    (LAWS, "handed_on(", "by.payload == 0 && ", ""),
    (LAWS, "handed_on(", " && mode != MathMode::Strict", ""),
    (LAWS, "handed_on(", "if (n.op == ScalarOp::Maximum)", "if (mode != MathMode::Fast)"),
    (LAWS, "handed_on(", "-std::numeric_limits<T>::infinity()", "std::numeric_limits<T>::infinity()"),
    (LAWS, "handed_on(", "std::numeric_limits<T>::lowest()", "std::numeric_limits<T>::max()"),
    (LAWS, "handed_on(", "if (by.op != ScalarOp::Constant) return std::nullopt;", ""),
    (LAWS, "std::optional<int> identity_of(", "o.kind == Kind::Load && ", ""),
    (LAWS, "std::optional<int> identity_of(", "o.masks.empty() && ", ""),
    (LAWS, "std::optional<int> identity_of(", "o.index == out.index &&", ""),
    (LAWS, "std::optional<int> identity_of(",
     "spec.slots()[static_cast<size_t>(o.slot)].elements == out.elements &&", ""),
    (LAWS, "std::optional<int> identity_of(",
     "&&\n                    spec.slots()[static_cast<size_t>(o.slot)].dtype == v->dtype()", "",
     "What hands an element on keeps its type."),
    (LAWS, "bool is_copy(", "v->body.nodes().size() == 1 && ", ""),
    (LAWS, "bool is_copy(", "v->operands.size() == 1 &&", ""),
    (LAWS, "bool is_copy(", "&&\n         v->operands[0].kind == Kind::Load", ""),
    (LAWS, "constant_of(", " || v->body.nodes().size() != 1", "",
     "A body whose root is a constant has no other node."),
    (LAWS, "constant_of(", "if (root.op != ScalarOp::Constant) return std::nullopt;", ""),
    (LAWS, "std::optional<Product> read()", "if (visited_ > kMostFactors) return std::nullopt;", ""),
    (LAWS, "class ProductReader", "kMostFactors = 24", "kMostFactors = 240"),
    (LAWS, "bool stays(", "leaving_ == Leaving::Constants", "false"),
    (LAWS, "bool stays(", "leaving_ == Leaving::Constants", "true"),
    (LAWS, "bool stays(", "(axes_[s.index] & reduced_) != 0", "false"),
    (LAWS, "bool stays(", "(axes_[s.index] & reduced_) != 0", "axes_[s.index] != reduced_"),
    (LAWS, "bool is_constant(", "n.op == ScalarOp::Constant && ", ""),
    (LAWS, "bool is_constant(", " && n.payload == b[b.constant(n.dtype, value)].payload", ""),
    (LAWS, "int beside_zero(", " || n.dtype == Dtype::Bool", "",
     "A truth value is no factor of a product."),
    (LAWS, "int beside_zero(", "if (is_constant(n.operands[2], 0)) return 1;", "return 1;"),
    (LAWS, "int beside_zero(", "is_constant(n.operands[2], 0)", "is_constant(n.operands[2], 1)"),
    (LAWS, "int beside_zero(", "is_constant(n.operands[1], 0) ? 2 : 0", "2"),
    (LAWS, "int beside_zero(", "return 1;", "return 2;"),
    (LAWS, "void find_divisible()", "n.op == ScalarOp::Mul && ", ""),
    (LAWS, "void find_divisible()", "n.op == ScalarOp::Div && ", ""),
    (LAWS, "void find_divisible()", "!stays(n.operands[1])", "true"),
    (LAWS, "void find_divisible()", "!stays(n.operands[1])", "!stays(n.operands[0])"),
    (LAWS, "void find_divisible()", "leaves(n.operands[0]) || leaves(n.operands[1])", "true"),
    (LAWS, "void find_divisible()", "leaves(n.operands[branch]) && ", "",
     "A choice out of which nothing leaves is put together again as it was."),
    (LAWS, "void find_divisible()", " && !is_constant(n.operands[branch], 1)", ""),
    (LAWS, "void visit(", "n.op == ScalarOp::Neg", "false"),
    (LAWS, "void visit(", "product_.negated = !product_.negated", "product_.negated = true"),
    (LAWS, "void visit(", ".divides = true", ".divides = false"),
    (LAWS, "void visit(", ".branch = branch", ".branch = 3 - branch"),
    (LAWS, "bool stands_free(",
     "return (axes_of(v.axes) & ~axes_of(spec.parallel_axes())) == 0;",
     "return true || (axes_of(v.axes) & ~axes_of(spec.parallel_axes())) == 0;"),
    (LAWS, "Scalar product_of(", "f.branch == 1", "f.branch != 1"),
    (LAWS, "Scalar product_of(", "b.constant(n.dtype, 1)", "b.constant(n.dtype, 2)"),
    (LAWS, "std::optional<Split> split_product(", "f.divides ? ", "!f.divides ? "),
    (LAWS, "std::optional<Split> split_product(", "if (product.negated) ", "if (!product.negated) "),
    (LAWS, "bool stays_in_range(", "f.divides ? ", "!f.divides ? "),
    (LAWS, "bool stays_in_range(", "std::abs(real_value(body[f.node]))", "real_value(body[f.node])"),
    (LAWS, "bool stays_in_range(", "std::max(greatest, product)", "std::max(1.0, product)"),
    (LAWS, "bool stays_in_range(", "std::isfinite(greatest) && ", ""),
    (LAWS, "bool stays_in_range(", "greatest <= kMostGrowth * product", "greatest < kMostGrowth * product"),
    (LAWS, "bool stays_in_range(", "greatest <= kMostGrowth * product", "greatest <= 1.01 * kMostGrowth * product"),
    (LAWS, "bool stays_in_range(", " && greatest <= kMostGrowth * product", ""),
    (LAWS, "bool leaves_something(", "!product.inside.empty() && ", ""),
    (LAWS, "bool leaves_something(", " || product.negated", ""),
    (LAWS, "bool leaves_something(", "!product.outside.empty() || ", ""),
    (LAWS, "std::optional<Split> leave_sum(", "v.monoid != Monoid::Add || ", ""),
    (LAWS, "std::optional<Split> leave_sum(", "!stands_free(spec, v) || ", ""),
    (LAWS, "std::optional<Split> leave_sum(", " || !(is_real(dtype) || is_integer(dtype))", "",
     "Bodies of halves end with a rounding, which is no product."),
    (LAWS, "std::optional<Split> leave_sum(", "is_real(dtype) || is_integer(dtype)", "is_real(dtype)"),
    (LAWS, "std::optional<Split> leave_sum(", "leaves_something(*product)", "true"),
    (LAWS, "std::optional<Split> leave_sum_constants(", "v.monoid != Monoid::Add || ", ""),
    (LAWS, "std::optional<Split> leave_sum_constants(", "!stands_free(spec, v) || ", ""),
    (LAWS, "std::optional<Split> leave_sum_constants(", " || !is_real(v.dtype())", ""),
    (LAWS, "std::optional<Split> leave_sum_constants(", "Leaving::Constants", "Leaving::Any"),
    (LAWS, "std::optional<Split> leave_sum_constants(", "leaves_something(*product) && ", ""),
    (LAWS, "std::optional<Split> leave_sum_constants(", " && stays_in_range(v.body, product->outside)", ""),
    (LAWS, "bool is_one_term(", "factors.size() == 1 && ", ""),
    (LAWS, "bool is_one_term(", " && is_one_term(factors[0].chosen)", ""),
    (LAWS, "std::optional<Split> leave_max(", "!info(*v.monoid).selects || ", ""),
    (LAWS, "std::optional<Split> leave_max(", "!stands_free(spec, v) || ", ""),
    (LAWS, "std::optional<Split> leave_max(", " || !is_real(v.dtype())", ""),
    (LAWS, "std::optional<Split> leave_max(", "Leaving::Constants", "Leaving::Any"),
    (LAWS, "std::optional<Split> leave_max(", " || product->negated", ""),
    (LAWS, "std::optional<Split> leave_max(", "product->outside.size() != 1 || ", ""),
    (LAWS, "std::optional<Split> leave_max(", " || !is_one_term(product->inside)", ""),
    (LAWS, "std::optional<Split> leave_max(", "factor > 0", "factor >= 0"),
    (LAWS, "std::optional<Split> leave_max(", "factor > 0 && ", ""),
    (LAWS, "std::optional<Split> leave_max(", " && std::isfinite(factor)", ""),
    (LAWS, "std::optional<Composed> fold_constant(", " && o.slot == slot", ""),
    (LAWS, "std::optional<Composed> fold_constant(",
     "for (size_t k = o.masks.size(); k-- > 0;)", "for (size_t k = 0; k-- > 0;)"),
    (LAWS, "std::optional<Composed> fold_constant(",
     "b.select(valid, constant, number_constant(b, o.dtype, o.masks[k].fill))",
     "b.select(valid, number_constant(b, o.dtype, o.masks[k].fill), constant)"),
    (LAWS, "std::optional<Composed> reduce_repeated(",
     "if (!v.monoid || (v.monoid != Monoid::Add && !info(*v.monoid).selects)) continue;", "if (!v.monoid) continue;"),
    (LAWS, "std::optional<Composed> reduce_repeated(",
     "for (const Operand& o : v.operands) used |= axes_of(o, spec.values());", ""),
    (LAWS, "std::optional<Composed> reduce_repeated(",
     "~used;", "~used & ~(axes_of(v.reduced) & (~axes_of(v.reduced) + 1));"),
    (LAWS, "std::optional<Composed> reduce_repeated(", ".range().min < 1", ".range().min < 0"),
    (LAWS, "std::optional<Composed> reduce_repeated(", "count *= ", "count = ",
     "Axes that nobody reads are one axis of the canonical form."),
    (LAWS, "std::optional<Composed> reduce_repeated(", "if (narrowed.reduced.empty()) ", ""),
    (LAWS, "std::optional<Composed> reduce_repeated(", "if (v.monoid == Monoid::Add) {", "{"),
    (LAWS, "std::optional<Composed> reduce_repeated(",
     "if (v.monoid == Monoid::Add) {", "if (v.monoid == Monoid::Max) {"),
    (STORE, "bool SpecStore::symmetric(", "i == j || ", ""),
    (STORE, "bool SpecStore::symmetric(",
     "!(slots[static_cast<size_t>(i)] == slots[static_cast<size_t>(j)])", "slots.empty()",
     "Forms with one slot marked differ where the slots do; asking the slots first is quicker."),
    (STORE, "bool SpecStore::symmetric(", "if (first->spec != second->spec) return false;", ""),
    (STORE, "bool SpecStore::symmetric(",
     "if (to != (from == i ? j : from == j ? i : from)) return false;",
     "static_cast<void>(from), static_cast<void>(to);"),
    (STORE, "bool SpecStore::is_elementwise(", "!v.monoid && ", ""),
    (STORE, "bool SpecStore::is_elementwise(", "v.body.nodes().size() <= kMostNodes &&", "kMostNodes > 0 &&"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostNodes = 16", "kMostNodes = 17"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostNodes = 16", "kMostNodes = 15"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostOperands = 4", "kMostOperands = 5"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostOperands = 4", "kMostOperands = 3"),
    (STORE, "bool SpecStore::is_exact(",
     "v.monoid && !info(*v.monoid).selects", "(!v.monoid || !info(*v.monoid).selects)"),
    (STORE, "bool SpecStore::is_exact(", "!info(*v.monoid).selects && ", ""),
    (STORE, "bool SpecStore::is_exact(", " && is_float(v.dtype())", ""),
    (STORE, "SpecStore::Made* SpecStore::join(",
     "if (std::ranges::adjacent_find(sorted) == sorted.end()) return nullptr;", "",
     "What joins nothing is the same kernel again."),
    (LANGUAGE, "slot_of(", "at >= 0 && ", ""),
    (LANGUAGE, "slot_of(", "at >= 0 && at < count", "at >= 0"),
    (LANGUAGE, 'define("swap"', "if (!i || !j) return std::nullopt;", ""),
    (LANGUAGE, 'define("symmetric"', "i && j && ", ""),
    (LANGUAGE, 'define("fold-constant"', "if (!at) return std::nullopt;",
     "if (!at) return made(store->fold_constant(kernels.spec(v[0]), 0, kernels.spec(v[2])), v[0]);"),
    (LANGUAGE, 'define("compose"', "if (!at) return std::nullopt;", ""),
    (LANGUAGE, 'define("compose"', "if (read.dtype != store->at(producer).result().dtype()) return std::nullopt;",
     "static_cast<void>(read);"),
    (ONLINE, "std::optional<Scalar> rounded(", "wide.op != ScalarOp::Convert || ", ""),
    (ONLINE, "std::optional<Scalar> rounded(", " || !is_real(wide.dtype)", "",
     "Rounding that is left out is left out between halves as well."),
    (ONLINE, "std::optional<Scalar> rounded(", "narrow.op != ScalarOp::Convert || ", "",
     "A node of floats that is no conversion has operands of its own type, which is not the wide one."),
    (ONLINE, "std::optional<Scalar> rounded(", " || !is_float(narrow.dtype)", ""),
    (ONLINE, "std::optional<Scalar> rounded(", "body[inner].dtype == wide.dtype ? std::optional(inner) : std::nullopt",
     "inner",
     "An exponential of another type than the sum's follows no maximum of the sum's type."),
    (ONLINE, "std::optional<Online> find()", "v_.monoid != Monoid::Add || ", ""),
    (ONLINE, "std::optional<Online> find()", " || !is_real(v_.dtype())", "",
     "Exponentials are real."),
    (ONLINE, "std::optional<Online> find()", "if (!is_factor(v_.body.outputs()[0], e->node)) continue;",
     "static_cast<void>(is_factor(v_.body.outputs()[0], e->node));"),
    (ONLINE, "std::optional<Online> find()", " && same_as_maximised(*above, e->x)",
     " && (same_as_maximised(*above, e->x) || true)"),
    (ONLINE, "bool find_maximum()", "if ((axes_of(w.reduced) & summed_) == 0) continue;", ""),
    (ONLINE, "bool find_maximum()", "maximum_ >= 0 || w.monoid", "w.monoid"),
    (ONLINE, "bool find_maximum()", "w.monoid != Monoid::Max || ", ""),
    (ONLINE, "bool find_maximum()", "w.reduced != v_.reduced || ", ""),
    (ONLINE, "bool find_maximum()", " || w.dtype() != v_.dtype()", "",
     "What is of another type than the sum is converted, and conversions follow nothing."),
    (ONLINE, "exponential_at(", "if (!depends(s) || !varies(s)) return std::nullopt;", "",
     "What it subtracts is asked the same, and what is maximised changes along the sum."),
    (ONLINE, "exponential_at(", "!depends(s) || ", "",
     "What it subtracts is asked the same."),
    (ONLINE, "exponential_at(", " || !varies(s)", "",
     "What is maximised changes along the sum, and has to be what the exponential is of."),
    (ONLINE, "exponential_at(", " || (call->name != \"exp2\" && call->name != \"exp\")", ""),
    (ONLINE, "exponential_at(", "node(scale).op != ScalarOp::Constant || ", ""),
    (ONLINE, "exponential_at(", " || !(real_constant(node(scale)) > 0)", ""),
    (ONLINE, "exponential_at(", "if (node(negated).op != ScalarOp::Neg) return std::nullopt;", ""),
    (ONLINE, "exponential_at(", "depends(e.x) || varies(e.u)", "varies(e.u)",
     "What is maximised has no maximum in it, and has to be what the exponential is of."),
    (ONLINE, "exponential_at(", "depends(e.x) || varies(e.u)", "depends(e.x)"),
    (ONLINE, "bool find_factor(", "real_constant(o) == 0", "real_constant(o) >= 0"),
    (ONLINE, "bool find_factor(", "o.op == ScalarOp::Constant && ", ""),
    (ONLINE, "bool find_factor(", "return inner && is_factor(*inner, factor);",
     "return is_factor(inner ? *inner : n.operands[0], factor);"),
    (ONLINE, "bool find_factor(", "(multiple(0) && !depends(n.operands[1]))", "multiple(0)"),
    (ONLINE, "bool find_factor(", "(multiple(1) && !depends(n.operands[0]))", "multiple(1)"),
    (ONLINE, "bool find_factor(", "return multiple(0) && !depends(n.operands[1]);", "return multiple(0);"),
    (ONLINE, "bool find_factor(", "return multiple(0) && !depends(n.operands[1]);",
     "return (multiple(0) && !depends(n.operands[1])) || multiple(1);"),
    (ONLINE, "bool find_factor(", "return multiple(0) && multiple(1);", "return multiple(0) || multiple(1);"),
    (ONLINE, "bool find_factor(", "return multiple(0) && multiple(1);", "return multiple(0);"),
    (ONLINE, "bool find_factor(", "!depends(n.operands[0]) && (multiple(1)", "(multiple(1)"),
    (ONLINE, "bool find_factor(", "(multiple(1) || zero(1)) && ", ""),
    (ONLINE, "bool find_factor(", "&& (multiple(2) || zero(2))", ""),
    (ONLINE, "bool find_factor(", " &&\n               !(zero(1) && zero(2))", "",
     "Of a choice between zeros the exponential is no part, and a sum of nothing else follows anything."),
    (ONLINE, "std::optional<Scalar> subtracted(", "if (!depends(u)) return std::nullopt;", "",
     "An exponential that depends on the maximum and whose x does not subtracts it."),
    (ONLINE, "std::optional<Scalar> subtracted(", "if (depends(a) == depends(b)) return std::nullopt;", ""),
    (ONLINE, "std::optional<Scalar> subtracted(", "is_finite_maximum(n.operands[0]) && ", ""),
    (ONLINE, "std::optional<Scalar> subtracted(", "&& !depends(n.operands[2])", ""),
    (ONLINE, "std::optional<Scalar> subtracted(", "rises(u) ? std::optional(u) : std::nullopt", "u"),
    (ONLINE, "bool is_finite_maximum(", "is_finite_maximum(n.operands[0]) && is_finite_maximum(n.operands[1])",
     "is_finite_maximum(n.operands[0]) || is_finite_maximum(n.operands[1])"),
    (ONLINE, "bool is_finite_maximum(", "if (n.op != ScalarOp::Lt) return false;", ""),
    (ONLINE, "bool is_finite_maximum(", "node(n.operands[1 - k]).op == ScalarOp::Input && ", ""),
    (ONLINE, "bool is_finite_maximum(", " && real_constant(c) == infinity", ""),
    (ONLINE, "bool is_finite_maximum(", "depends(n.operands[1 - k]) &&", ""),
    (ONLINE, "bool rises(", "if (arity(n.op) != 2) return false;", "",
     "Sums, differences and products have two operands."),
    (ONLINE, "bool rises(", "if (first == depends(n.operands[1])) return false;", ""),
    (ONLINE, "bool rises(", "(n.op == ScalarOp::Sub && first)", "n.op == ScalarOp::Sub"),
    (ONLINE, "bool rises(", "n.op == ScalarOp::Mul && ", ""),
    (ONLINE, "bool rises(", "node(other).op == ScalarOp::Constant && ", ""),
    (ONLINE, "bool rises(", " && real_constant(node(other)) > 0", ""),
    (ONLINE, "ScalarFunction terms(", "depends({i}) ? rounded(v_.body, {i}) : std::nullopt", "rounded(v_.body, {i})"),
    (ONLINE, "Online result(", "b.select(none, b.constant(v_.dtype(), 1), factor)", "factor"),
    (ONLINE, "Online result(", "b.select(none, factor, b.constant(v_.dtype(), 1))", "b.constant(v_.dtype(), 1)"),
    (ONLINE, "FactorsOut(", "read.monoid && ", "",
     "What reduces over these axes has a monoid."),
    (ONLINE, "FactorsOut(", " && read.monoid != Monoid::Max", ""),
    (ONLINE, "FactorsOut(", " && read.reduced == v.reduced", "",
     "Other numbers that do not change along the sum may leave it as well."),
    (ONLINE, "std::optional<ScalarFunction> terms()", " || visits_ > kMostVisits", "",
     "What has left before the limit is right."),
    (ONLINE, "product() const", "divides ? b.div", "!divides ? b.div"),
    (ONLINE, "bool leaves(", " && (axes_[s.index] & summed_) == 0", ""),
    (ONLINE, "bool leaves(", "held_[s.index] && ", "",
     "Other numbers that do not change along the sum may leave it as well."),
    (ONLINE, "bool is_zero(", " && real_constant(n) == 0", ""),
    (ONLINE, "Scalar rebuilt(", "!held_[s.index] || ", "",
     "What holds nothing that leaves is rebuilt as it was."),
    (ONLINE, "Scalar rebuilt(", "if (const auto inner = rounded(v_.body, s)) return rebuilt(b, copies, *inner);", ""),
    (ONLINE, "Scalar rebuilt(", "if (!leaves(n.operands[1])) return", "if (false) return"),
    (ONLINE, "Scalar rebuilt(", "n.op == ScalarOp::Select && is_zero(n.operands[2])", "n.op == ScalarOp::Select"),
    (ONLINE, "Scalar rebuilt(", "n.op == ScalarOp::Select && is_zero(n.operands[1])",
     "n.op == ScalarOp::Select && !is_zero(n.operands[2])"),
    (ONLINE, "bool take_factors_out(", "v.monoid != Monoid::Add || ", "",
     "`online_of` asks the same of what is left."),
    (ONLINE, "bool take_factors_out(", " || !is_real(v.dtype())", "",
     "`online_of` asks the same of what is left."),
    (ONLINE, "bool take_factors_out(", "if (!online_of(trial, static_cast<int>(at))) return false;", ""),
    (ONLINE, "with_bodies_read(", "if (o.kind != Kind::Value) return false;", ""),
    (ONLINE, "with_bodies_read(", "!read.monoid && ", ""),
    (ONLINE, "with_bodies_read(", " && (axes_of(read.axes) & reduced) == 0", "",
     "What is computed twice is computed twice alike."),
    (ONLINE, "bool take_bodies_in(", "v.monoid != Monoid::Add || ", "",
     "`online_of` asks the same of what is made."),
    (ONLINE, "bool take_bodies_in(", " || !is_real(v.dtype())", "",
     "`online_of` asks the same of what is made."),
    (ONLINE, "bool take_bodies_in(",
     "if (!online_of(trial.values, static_cast<int>(at)) && !take_factors_out(trial, at)) return false;", "",
     "Reading bodies changes where they are computed, and nothing else."),
    (ONLINE, "bool joins_walk(", "v.online || !reads_fold(v.body)", "!reads_fold(v.body)"),
    (ONLINE, "bool joins_walk(", "v.online || !reads_fold(v.body)", "v.online"),
    (ONLINE, "bool joins_walk(", "if (v.monoid != Monoid::Add) return false;", ""),
    (ONLINE, "bool joins_walk(", "terms && !reads_fold(*terms)", "terms.has_value()"),
    (ONLINE, "void mark_online(", "if (parts.values.size() < 2) return;", "",
     "A value alone follows no other: leaving early is quicker."),
    (ONLINE, "void mark_online(", "if (has_maximum(parts)) {", "{",
     "Without a maximum nothing follows one: not to look is quicker."),
    (ONLINE, "void mark_online(", " || deviation_of(parts.values, v).has_value()", ""),
    (ONLINE, "void mark_online(", "if (changed) simplify_values(parts);", "",
     "Operands that nothing reads any more count for nothing."),
    (IN_PLACE, "read_where_written(", "is_quantized(own.dtype) || ", ""),
    (IN_PLACE, "read_where_written(", "own.elements != output.elements ||\n      ", ""),
    (IN_PLACE, "read_where_written(", " ||\n      element_bytes(own.dtype) != element_bytes(written)", ""),
    (IN_PLACE, "read_where_written(", "operand.slot != slot ||", "false ||"),
    (IN_PLACE, "read_where_written(", "operand.index == output.index && ", ""),
    (IN_PLACE, "read_where_written(", " && operand.masks.empty()", ""),
    (IN_PLACE, "replaceable_slots(", "spec.values().size() != 1 || ", ""),
    (IN_PLACE, "replaceable_slots(", "spec.outputs().size() != 1 || ", ""),
    (IN_PLACE, "replaceable_slots(", " || spec.values()[0].monoid", ""),
    (COMPOSE, "bool holds_nothing(", "std::ranges::any_of(spec.extents(), nothing) ||", ""),
    (COMPOSE, "bool holds_nothing(", "std::ranges::any_of(spec.slots(), nothing, &Slot::elements) ||", ""),
    (COMPOSE, "bool holds_nothing(",
     " ||\n         std::ranges::any_of(spec.outputs(), nothing, &Output::elements)", "",
     "An output without elements has an axis without."),
    (COMPOSE, "int64_t formula_length(", "length += operand.index.node().size", "length += 0"),
    (COMPOSE, "int64_t formula_length(",
     "for (const Mask& mask : operand.masks) length += mask.predicate.node().size;", ""),
    (COMPOSE, "int operation_count(", "arity(n.op) > 0", "1"),
    (COMPOSE, "int places_read(", "o.kind == Kind::Load && ", "",
     "What is no load has slot -1."),
    (COMPOSE, "int places_read(", " && o.slot == slot", ""),
    (COMPOSE, "bool may_repeat(", "places * operation_count(producer)", "operation_count(producer)"),
    (COMPOSE, "bool may_repeat(", "places * formula_length(producer)", "formula_length(producer)"),
    (COMPOSE, "bool may_repeat(", "int64_t{limits.repeats} * limits.operations", "limits.operations"),
    (COMPOSE, "bool may_repeat(", "limits.repeats * limits.formulas", "limits.formulas"),
    (COMPOSE, "bool may_grow(", "!holds_nothing(a) && ", ""),
    (COMPOSE, "bool may_grow(", "!holds_nothing(b) && ", ""),
    (COMPOSE, "bool may_grow(", " && formula_length(a) + formula_length(b) <= limits.formulas", ""),
    (COMPOSE, "std::optional<Composed> finish(",
     "static_cast<size_t>(limits.exports) + 1", "static_cast<size_t>(limits.exports) + 2"),
    (COMPOSE, "std::optional<Composed> finish(", "c.slots.size() > static_cast<size_t>(limits.slots) || ", ""),
    (COMPOSE, "std::optional<Composed> finish(", " || operation_count(c.spec) > limits.operations", ""),
    (COMPOSE, "std::optional<Composed> finish(",
     "s >= static_cast<int>(first_slots)", "s > static_cast<int>(first_slots)"),
    (COMPOSE, "bool run(double most_evaluations)", "inliner_.evaluations() <= most_evaluations", "true"),
    (COMPOSE, "bool is_replaced(", "o.kind == Kind::Load && ", "",
     "What is no load has slot -1; no output of a producer is read by none where there is one."),
    (COMPOSE, "std::optional<Value> rebuilt(",
     "if (o.kind == Kind::Value) o.value = place[static_cast<size_t>(o.value)];", "static_cast<void>(place);"),
    (COMPOSE, "void check_slot(",
     "slot >= 0 && slot < static_cast<int>(consumer.slots().size())",
     "slot < static_cast<int>(consumer.slots().size())"),
    (COMPOSE, "void check_slot(", "reads == gives", "true"),
    (COMPOSE, "std::optional<Composed> compose(", "producer.outputs().size() != 1 || ", ""),
    (COMPOSE, "std::optional<Composed> compose(", " ||\n      !may_repeat(consumer, slot, producer, limits)", ""),
    (COMPOSE, "bool have_one_order(", "o.index == outputs[0].index && ", ""),
    (COMPOSE, "bool have_one_order(", " && o.elements == outputs[0].elements", "",
     "The same index over the same axes has as many elements."),
    (COMPOSE, "std::optional<Composed> compose_exporting(", "slots.size() == producer.outputs().size()", "true"),
    (COMPOSE, "std::optional<Composed> compose_exporting(",
     "if (slots[k] >= 0) check_slot(consumer, slots[k], producer, k);", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(", "!have_one_order(producer.outputs()) || ", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(", " || !may_grow(consumer, producer, limits)", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(", "!o.masks.empty() || ", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(", " || (index && !(*index == o.index))", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(",
     "if (!index) return std::nullopt;", "if (!index) index = Expression(0);"),
    (COMPOSE, "std::optional<Composed> compose_exporting(",
     "if (axis_count(axes_of(*index)) != static_cast<int>(order.size())) return std::nullopt;", "",
     "An index that is no dense box has no order, and so one element."),
    (COMPOSE, "std::optional<Composed> compose_exporting(",
     "if ((parallel & axis_bit(a.axis)) == 0) return std::nullopt;", "static_cast<void>(parallel);"),
    (COMPOSE, "std::optional<Composed> compose_exporting(", "if (!(visited == elements)) return std::nullopt;", ""),
    (COMPOSE, "std::optional<Composed> compose_exporting(",
     " || !composition.run(limits.evaluations)", " || !composition.run(1e18)",
     "What is exported is computed once."),
    (COMPOSE, "common_extents(",
     "if (!a.empty() || !b.empty()) return std::nullopt;", "if (!a.empty()) return std::nullopt;",
     "append_spec finds axes that are left as well."),
    (COMPOSE, "common_extents(",
     "if (!a.empty() || !b.empty()) return std::nullopt;", "if (!b.empty()) return std::nullopt;",
     "append_spec finds axes that are left as well."),
    (COMPOSE, "common_extents(", "x = *q;", "x = y;"),
    (COMPOSE, "bool append_spec(", "if (fresh >= kMaxAxes) return false;", ""),
    (COMPOSE, "bool append_spec(", "rename(v.reduced);", ""),
    (COMPOSE, "bool append_spec(", "o.slot += first_slot", "o.slot += 0 * first_slot"),
    (COMPOSE, "merge_siblings(", "if (!may_grow(a, b, limits)) return std::nullopt;", ""),
    (INLINER, "Inliner::Inliner(", "defined_ = dense_.size() == producer.result().axes.size();", "defined_ = true;"),
    (INLINER, "Inliner::inline_load(", "load.masks.size() == 1 && ", ""),
    (INLINER, "Inliner::inline_load(", " && absorbs(load.masks[0].fill, candidate)", ""),
    (INLINER, "Inliner::inline_load(", " > kMaxAxes", " > 2 * kMaxAxes"),
    (INLINER, "Inliner::moved(", "result.masks.clear();", ""),
    (INLINER, "Inliner::instance(", "known.source == source && ", ""),
    (INLINER, "Inliner::instance(", "known.coordinates == made.coordinates && ", ""),
    (INLINER, "Inliner::instance(", "known.valid == made.valid &&", ""),
    (INLINER, "Inliner::instance(", "&&\n        known.fill == made.fill", ""),
    (INLINER, "Inliner::constant_under(",
     "if (o.kind == Kind::Index) return std::nullopt;",
     "if (o.kind == Kind::Index) inputs.push_back(number_constant(b, o.dtype, fill));"),
    (INLINER, "Inliner::constant_under(", "if (!b.is_constant(root)) return std::nullopt;", "",
     "A function of constants is one."),
    (INLINER, "Inliner::constant_under(", "if (!v.monoid) return bits;", "if (bits == bits) return bits;"),
    (INLINER, "Inliner::constant_under(", "if (bits == neutral_bits(*v.monoid, v.dtype())) return bits;", ""),
    (INLINER, "Inliner::constant_under(", "some && info(*v.monoid).selects", "some"),
    (INLINER, "Inliner::constant_under(", "some && info(*v.monoid).selects", "info(*v.monoid).selects"),
    (INLINER, "Inliner::absorbs(",
     "b.constant_bits(dtype, *bits) == number_constant(b, dtype, fill)", "(number_constant(b, dtype, fill), true)"),
    (INLINER, "Inliner::evaluations(", "!v.monoid && ", ""),
    (INLINER, "Inliner::evaluations(", "if (!v.monoid && v.body.cost().weight() <= kFewOperations) continue;", ""),
    (CANONICAL, "void append_mask(", "if (symbolic::is_constant(predicate, 1)) return;", ""),
    (CANONICAL, "void append_mask(",
     "if (!masks.empty() && symbolic::is_constant(masks.back().predicate, 0)) return;", ""),
    (CANONICAL, "void append_mask(", "!masks.empty() && masks.back().fill == fill", "!masks.empty()"),
    (CANONICAL, "void join_slots(",
     "if (!(parts.slots[static_cast<size_t>(first[k])] == parts.slots[k])) first[k] = static_cast<int>(k);", ""),
    (CANONICAL, "Canonical canonical(", "for (Value& v : parts.values) v.online = v.masked_terms_vanish = false;", ""),
    (CANONICAL, "Canonical canonical(", "if (mode != MathMode::Strict)\n      for", "for"),
    (CANONICAL, "Canonical canonical(", "if (mode != MathMode::Strict) {", "{"),
    (CANONICAL, "Canonical canonical(", "v.monoid == Monoid::Add && has_masked_factor(v)", "has_masked_factor(v)"),
    (CANONICAL, "Canonical canonical(", "v.monoid == Monoid::Add && has_masked_factor(v)", "v.monoid == Monoid::Add"),
    (AXES, "std::optional<Expression> steps_within(", "if (count && count->range().min < 0) return std::nullopt;", ""),
    (AXES, "possible_splits(", "if (by.node().uses_index) continue;", "",
     "No extent is a multiple of a coordinate."),
    (AXES, "possible_splits(", "if (step.node().uses_index) continue;", "",
     "No divisor without coordinates is a multiple of one."),
    (AXES, "void apply(SpecParts& parts, const AxisSplit", "if (std::ranges::count(v.axes, split.axis) > 0) ", "",
     "Free axes are set anew."),
    (AXES, "void apply(SpecParts& parts, const AxisSplit",
     "if (std::ranges::count(v.reduced, split.axis) > 0) v.reduced.push_back(inner);", ""),
    (AXES, "Expression linear_in(", "if (step.constant()) ", "",
     "What is taken at two places is linear with any step."),
    (AXES, "void make_linear(", "if (!(parts.extents[a] == Expression(2))) continue;", ""),
    (AXES, "bool split_axes(", "parts.extents.size() < kMaxAxes", "true"),
    (AXES, "bool is_joint(", "if (axis >= 0) return false;", ""),
    (AXES, "bool is_joint(", "used != 0 && !is_joint(f, pair)", "false"),
    (AXES, "bool is_joint(", "if ((axes_of(rest) & pair.axes()) != 0) return false;", "",
     "A factor that depends on the two together is as good as a number."),
    (AXES, "bool is_joint(", "return outer == inner * pair.width;", "return true;"),
    (AXES, "bool bound_together(", "split(axes_of(v.axes)) || ", "",
     "A value has the axes that its operands depend on, and these are looked at."),
    (AXES, "bool bound_together(", " || split(axes_of(v.reduced))", ""),
    (AXES, "bool may_merge(", "if (!bound_together(parts, pair.axes())) return false;", ""),
    (AXES, "bool may_merge(", "if (!is_joint(o.index, pair)) return false;\n  for", "for"),
    (AXES, "bool may_merge(", "if (!is_joint(o.index, pair)) return false;\n      for", "for"),
    (AXES, "bool may_merge(", "if (!is_joint(m.predicate, pair)) return false;", "static_cast<void>(m);"),
    (AXES, "possible_pairs(", "(parallel & (axis_bit(a) | axis_bit(b))) == 0 &&", "(parallel | 1) != 0 &&",
     "may_merge decides; fewer pairs are looked at."),
    (MASKS, "condition_of(",
     "if (n.op != ScalarOp::Select) return std::nullopt;", "if (arity(n.op) == 0) return std::nullopt;"),
    (MASKS, "condition_of(",
     "if (condition.op != ScalarOp::Convert) return std::nullopt;",
     "if (arity(condition.op) == 0) return std::nullopt;"),
    (MASKS, "condition_of(", "source.op != ScalarOp::Input || ", ""),
    (MASKS, "condition_of(", " || v.operands[source.payload].kind != Kind::Index", ""),
    (MASKS, "bool reads_under(", " && o.masks[0].predicate == predicate", ""),
    (MASKS, "bool chooses(", "k && v_.operands[*k].index == predicate_", "k.has_value()"),
    (MASKS, "void evaluate_outside(", "outside_[n.operands[2].index]", "outside_[n.operands[1].index]"),
    (MASKS, "void evaluate_node(", "known = known && outside_[o.index];", "known = outside_[o.index].has_value();"),
    (MASKS, "void evaluate_node(", " || !touched_[i]", "",
     "A node of constants alone is one."),
    (MASKS, "void evaluate_node(", "if (constants.is_constant(result)) ", "",
     "A node of constants alone is one."),
    (MASKS, "bool is_part(", "touched_[s.index] && ", "",
     "What is constant where the predicate is 0 depends on it."),
    (MASKS, "Scalar emit_part(", " || (fill && o.dtype != dtype)", ""),
    (MASKS, "Scalar emit_part(", " || constants[there].payload != outside", ""),
    (MASKS, "Scalar inside_with_fill(", "o.dtype == nodes_[s.index].dtype ? bits : 0", "bits",
     "The part came out constant whatever these loads hold."),
    (MASKS, "Scalar inside_with_fill(",
     "for (size_t k = 1; k < masks.size(); ++k) append_mask(o.masks, masks[k].predicate, masks[k].fill);", ""),
    (MASKS, "outermost_products(", "n.op != ScalarOp::Mul; ++k", "true; ++k",
     "Factors that are products may share their own conditions as well."),
    (MASKS, "factors_of(", "body[factor].op == ScalarOp::Input", "body[factor].op != ScalarOp::Constant"),
    (MASKS, "bool is_in_buffer(", "if (r.min < 0) return false;", ""),
    (MASKS, "bool is_in_buffer(", "return r.max < *size;", "return true;"),
    (MASKS, "bool is_in_buffer(", "return Expression::known_less(index, elements);", "return true;"),
    (MASKS, "bool at_all_places(", "if (!visit(at)) return false;", "(void)visit(at);"),
    (MASKS, "is_in_buffer_without(", "stays_inside(left) || ", ""),
    (MASKS, "is_in_buffer_without(", " || says_nothing_of_index(dropped)", ""),
    (MASKS, "is_in_buffer_without(", "stays_inside(left) || says_nothing_of_index(dropped)", "true"),
    (MASKS, "bool is_zero_outside(", " && o.masks[0].fill == Number(0)", ""),
    (MASKS, "still_asked(", "(is_foreign || !only_foreign)", "true"),
    (MASKS, "still_asked(", "dropped.empty() || ", "",
     "Where nothing is dropped both ends say the same."),
    (MASKS, "owner_of(", "(axes_of(condition) & ~index) == 0 && ", ""),
    (MASKS, "bool has_masked_factor(", "v.body[term].op == ScalarOp::Mul && ", "",
     "A padded summand alone is 0 there as well."),
    (MASKS, "void drop_repeated_masks(", " || uses[k] != 1", ""),
    (MASKS, "void drop_repeated_masks(", "!is_zero_outside(v.operands[k]) || ", "v.operands[k].masks.empty() || "),
    (SHARE, "void find_enclosing()", "(axes_of(w.axes) & ~parallel_) != 0 || ", ""),
    (SHARE, "void find_enclosing()", " || (axes_of(w.axes) & axes_of(v.reduced)) != 0", ""),
    (SHARE, "void find_enclosing()", "| enclosing_[k];", ";"),
    (SHARE, "bool conflict(", "if ((own & both) == both) return true;", "",
     "What has both is read by what reduces one of them while it has the other."),
    (SHARE, "bool conflict(",
     "if ((reduced & both) != 0 && ((own | enclosing_[k]) & both) == both) return true;",
     "static_cast<void>(reduced);"),
    (SHARE, "bool share_one()", "b.slot != a.slot || ", ""),
    (SHARE, "bool share_one()", " || b.masks.size() != a.masks.size()", ""),
    (SHARE, "match(", "!(keep && free) &&", "",
     "Outputs over axes of one extent may share them as well."),
    (SHARE, "match(",
     "parts_.extents[static_cast<size_t>(from[k])] == parts_.extents[static_cast<size_t>(to[k])] &&", ""),
    (SHARE, "match(", " &&\n               !conflict(from[k], to[k])", ""),
    (SHARE, "match(", "fits && equal_after(a, b, renaming)", "fits"),
    (SHARE, "bool equal_after(", "if (!same(a.index, b.index)) return false;", ""),
    (SHARE, "bool equal_after(", "!(a.masks[k].fill == b.masks[k].fill) || ", "",
     "To share an axis is right whichever loads it brings together."),
    (SHARE, "bool equal_after(", " || !same(a.masks[k].predicate, b.masks[k].predicate)", "",
     "To share an axis is right whichever loads it brings together."),
    (SHARE, "bool join_equal_values(", "place[j] == static_cast<int>(j) && ", "",
     "The first of equal values comes first."),
    (VALUES, "void drop_unit_axes()", "if (v.reduced.empty()) v.monoid = std::nullopt;", ""),
    (VALUES, "bool is_inlined(", "!parts_.values[static_cast<size_t>(value)].monoid && ", ""),
    (VALUES, "constant_of(", "o.kind == Kind::Load && ", "",
     "Only loads have masks."),
    (VALUES, "constant_of(", " && symbolic::is_constant(o.masks[0].predicate, 0)", ""),
    (VALUES, "bool changes(", "if (constant_of(o)) return true;", ""),
    (VALUES, "void set_axes(", "if (parts_.extents[static_cast<size_t>(a)].range().max <= 1) ", ""),
    (VALUES, "void set_axes(", "list_of(set & ~axes_of(v.reduced))", "list_of(set)"),
    (VALUES, "void merge_reductions()",
     "!input || v.operands[*input].kind != Kind::Value", "!input || v.operands[*input].kind == Kind::Index"),
    (VALUES, "void merge_reductions()", "w.monoid != v.monoid || ", ""),
    (VALUES, "void merge_reductions()", "reads[from] != 1 || ", ""),
    (VALUES, "void merge_reductions()", " || !covered", ""),
    (VALUES, "void merge_reductions()", "separate(w, all_axes(v));", ""),
    (VALUES, "void widen_outputs()", "!v.monoid && !", "!"),
    (VALUES, "void widen_outputs()", " && !((wanted & ~have) != 0 && is_read(o.value))", ""),
    (VALUES, "void widen_outputs()",
     "if ((wanted & ~axes_of(parts_.values[static_cast<size_t>(source)].axes)) == 0) {", "{"),
    (DEVIATIONS, "deviation_of(", "v.monoid != Monoid::Add || ", ""),
    (DEVIATIONS, "deviation_of(", " || !is_real(v.dtype())", ""),
    (DEVIATIONS, "deviation_of(", "root.op != ScalarOp::Mul || ", ""),
    (DEVIATIONS, "deviation_of(", " || root.operands[0] != root.operands[1]", ""),
    (DEVIATIONS, "deviation_of(", "difference.op != ScalarOp::Sub && ", ""),
    (DEVIATIONS, "deviation_of(", " && difference.op != ScalarOp::Add", ""),
    (DEVIATIONS, "deviation_of(", "difference.op != ScalarOp::Sub && difference.op != ScalarOp::Add", "false"),
    (DEVIATIONS, "deviation_of(", "if (varies(u)) std::swap(x, u);", ""),
    (DEVIATIONS, "deviation_of(", "if (varies(u)) return std::nullopt;", ""),
    (DEVIATIONS, "deviation_of(", "sum.monoid != Monoid::Add || ", ""),
    (DEVIATIONS, "deviation_of(", " || sum.reduced != v.reduced", ""),
    (DEVIATIONS, "deviation_of(", "difference.op == ScalarOp::Add}", "false}"),
    (DEVIATIONS, "bool has_same_terms(", "root_of(x, a) == root_of(b.body, b)", "true"),
    (DEVIATIONS, "bool has_same_terms(", "root_of(x, a) == root_of(b.body, b)", "false"),
    (ONE_TERM, "place_where(", "place_where(n.operands[0], !holds)", "place_where(n.operands[0], holds)"),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::Eq : ScalarOp::Ne)", "ScalarOp::Eq"),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::Eq : ScalarOp::Ne)", "ScalarOp::Ne"),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::And : ScalarOp::Or)", "ScalarOp::And"),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::And : ScalarOp::Or)", "ScalarOp::Or"),
    (ONE_TERM, "place_where(", "a.op == b.op && ", ""),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::Le : ScalarOp::Lt)", "ScalarOp::Lt"),
    (ONE_TERM, "place_where(", "(holds ? ScalarOp::Le : ScalarOp::Lt)", "ScalarOp::Le"),
    (ONE_TERM, "place_where(", "a.operands[0] == b.operands[1] && ", ""),
    (ONE_TERM, "place_where(", " && a.operands[1] == b.operands[0]", ""),
    (ONE_TERM, "other_side(", " && (node_axes_[place.index] & axis_bit(axis_)) == 0", ""),
    (ONE_TERM, "place_where(", "if (place) place->is_all = false;", ""),
    (ONE_TERM, "bool is_index(", "if (n->dtype != Dtype::I32 && n->dtype != Dtype::I64) return false;", ""),
    (ONE_TERM, "bool is_index(", "is_narrow = is_narrow || n->dtype == Dtype::I32;", ""),
    (ONE_TERM, "bool is_index(", "o.kind == Operand::Kind::Index && ", ""),
    (ONE_TERM, "bool is_index(", "symbolic::kind_of(o.index) == symbolic::Kind::Index &&", ""),
    (ONE_TERM, "bool is_index(", "o.index.node().value == axis_ &&", ""),
    (ONE_TERM, "bool is_index(", "!is_narrow || ", ""),
    (ONE_TERM, "bool is_index(", "o.index.range().max <= std::numeric_limits<int32_t>::max()", "true"),
    (ONE_TERM, "bool is_zero(", "n.op == ScalarOp::Constant && ", ""),
    (ONE_TERM, "bool is_zero(", " && n.payload == 0", ""),
    (ONE_TERM, "bool sums_one_axis(", "v.monoid == Monoid::Add && ", ""),
    (ONE_TERM, "bool sums_one_axis(", " && v.reduced.size() == 1", ""),
    (ONE_TERM, "ScalarFunction choice(", "made.size() == factor.index ? b.constant(n.dtype, 1) : b.make(n)", "b.make(n)",
     "A factor that is 1 where it is asked may stand there."),
    (ONE_TERM, "std::vector<Scalar> multiplied(", "n.op == ScalarOp::Mul", "arity(n.op) == 2"),
    (ONE_TERM, "named_term_of(", "if (root.op != ScalarOp::Select) return std::nullopt;", ""),
    (ONE_TERM, "one_term_of(", "o.kind == Operand::Kind::Value &&", "o.value >= 0 &&",
     "What is no value has none."),
    (ONE_TERM, "one_term_of(", "if (term && std::ranges::any_of(values[number].operands, depends)) return std::nullopt;",
     "static_cast<void>(depends);"),
    (ONE_TERM, "named_term_of(", "!if_true && ", ""),
    (ONE_TERM, "named_term_of(", "if (!if_true && !is_zero(v.body[root.operands[1]])) return std::nullopt;", ""),
    (ONE_TERM, "void choose_one_term(", "!sums_one_axis(value) || ", "value.reduced.empty() || "),
    (ONE_TERM, "void choose_one_term(", " || value.body[root].op != ScalarOp::Mul", "",
     "A sum of one-hot rows alone is one of choices between 1 and 0 as well."),
    (ONE_TERM, "void choose_one_term(", "mode == MathMode::Strict && ", ""),
    (ONE_TERM, "void choose_one_term(", " && is_float(value.dtype())", ""),
    (ONE_TERM, "void choose_one_term(", "condition == factor || ", "",
     "No factor of a product is a condition itself."),
    (ONE_TERM, "void choose_one_term(", "if (!conditions.place_where(condition, true)) continue;", ""),
    (ROUTED, "bool folds_are_terms(", "if ((wanted & ~axes_of(value.axes)) != 0) return false;", ""),
    (ROUTED, "bool folds_are_terms(", "axis_bit(routed.term.axis) | axes_of(routed.places)", "axes_of(routed.places)"),
    (ROUTED, "bool folds_are_terms(", "axis_bit(routed.term.axis) | axes_of(routed.places)", "axis_bit(routed.term.axis)"),
    (ROUTED, "bool folds_are_terms(", "folds > 0", "true"),
    (ROUTED, "bool outputs_differ_by_place(", "(places & ~axes) == 0 && ", ""),
    (ROUTED, "bool outputs_differ_by_place(", " && (axes & axis_bit(routed.term.axis)) == 0", ""),
    (ROUTED, "routed_of(", "|| !term->is_certain", ""),
]


class Builder:
    """Compiles one changed source, and links the tests with it before the archive that holds the right one."""

    def __init__(self, build):
        self.build = build
        self.links = {test: self.link_command(test) for tests in TESTS.values() for test in tests}
        self.compiles = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())

    def link_command(self, test):
        listed = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", test],
                                capture_output=True, text=True, check=True).stdout
        return listed.strip().splitlines()[-1]

    def compile(self, source, text, folder):
        changed = folder / pathlib.Path(source).name
        changed.write_text(text)
        # All files of a module have one command.
        module = f"/luminal_{source.split('/')[1]}.dir/"
        words = shlex.split(next(c["command"] for c in self.compiles if module in c["command"]))
        words[words.index("-c") + 1] = str(changed)
        words[words.index("-o") + 1] = str(folder / "changed.o")
        # Closer to what a test needs than to what a user runs; a guard that is gone leaves names unused.
        words += ["-O1", "-w"]
        return subprocess.run(words, cwd=self.build, capture_output=True, text=True)

    def link(self, test, folder):
        program = folder / test
        # The first definition is taken: the archive has the right one, perhaps in an object that is needed anyway.
        command = self.links[test].replace(f" -o {test} ", f" -Wl,--allow-multiple-definition -o {program} "
                                                           f"{folder / 'changed.o'} ")
        done = subprocess.run(command, shell=True, cwd=self.build, capture_output=True, text=True)
        return program if done.returncode == 0 else None


def weakened(source, function, before, after):
    text = (ROOT / source).read_text()
    begin = text.find(function)
    place = text.find(before, begin)
    if begin < 0 or place < 0:
        raise LookupError(f"weaken_laws: {source} has no '{before}' in '{function}'; bring the list up to date")
    return text[:place] + after + text[place + len(before):]


def failing_test(builder, mutant):
    """What notices the mutant, or None."""
    source, function, before, after = mutant[:4]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        done = builder.compile(source, weakened(source, function, before, after), folder)
        if done.returncode != 0:
            sys.exit(f"'{before}' -> '{after}' in {source} does not compile:\n{done.stderr[-2000:]}")
        environment = dict(os.environ, LUMINAL_DEVICE="reference", LUMINAL_CACHE="off")
        for test, chosen in TESTS[source].items():
            program = builder.link(test, folder)
            if program is None:
                sys.exit(f"{test} does not link")
            try:
                run = subprocess.run([program, f"--gtest_filter={chosen}", "--gtest_fail_fast"], cwd=folder,
                                     env=environment, capture_output=True, text=True, timeout=120, errors="replace")
            except subprocess.TimeoutExpired:
                return f"{test} takes too long"
            failed = [line for line in run.stdout.splitlines() if line.startswith("[  FAILED  ]")]
            if run.returncode != 0:
                return failed[0][13:].split(" (")[0] if failed else f"{test} crashes"
    return None


def stale_mutants():
    for mutant in MUTANTS:
        try:
            weakened(*mutant[:4])
        except LookupError as error:
            yield str(error)


def main():
    if stale := list(stale_mutants()):
        sys.exit("\n".join(stale))
    if sys.argv[1:] == ["--check"]:
        return
    builder = Builder(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    mutants = [m for m in MUTANTS if word in " ".join(m)]
    counts = {}
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for mutant, how in zip(mutants, pool.map(lambda m: failing_test(builder, m), mutants)):
            same = len(mutant) > 4
            verdict = "noticed" if how else "the same" if same else "MISSED"
            wrong += verdict == "MISSED" or (same and how is not None)
            name = mutant[0].split("/")[-1]
            row = counts.setdefault(name, {"mutants": 0, "noticed": 0, "the same": 0, "MISSED": 0})
            row["mutants"] += 1
            row[verdict] += 1
            print(f"{verdict:9} {name}: {mutant[2]!r} -> {mutant[3]!r}: {how}", flush=True)
    print("| file | mutants | noticed | equivalent | missed |\n|---|---:|---:|---:|---:|")
    for name, row in counts.items():
        print("| " + " | ".join([name, *map(str, row.values())]) + " |")
    sys.exit(wrong != 0)


main()
