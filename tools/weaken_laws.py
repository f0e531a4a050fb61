#!/usr/bin/env python3
"""Weakens every guard of the functions behind the rules, one at a time, and runs the tests of laws on each.

tests/rule/weakened_rules_test.cpp does the same to the text of the rules at run time; what their primitives ask
stands in C++, so here each mutant is compiled and linked, which takes some 10 s. After a change to laws.cpp:

  ninja -C build/release test_kernel test_search suite_rule && python3 tools/weaken_laws.py [BUILD] [WORD]

WORD: only mutants in whose file, text or change it occurs. Ends with 1 if a mutant that is not known to say the same
is missed, or one that is known to is noticed. `--check` only says whether the sources have what the list changes.
"""
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAWS, STORE, LANGUAGE = "src/kernel/laws.cpp", "src/search/saturate/spec_store.cpp", "src/search/saturate/language.cpp"
ONLINE = "src/kernel/online.cpp"

# Programs that may notice a mutant of a file, and their tests, the quickest first.
TESTS_OF_LAWS = {"test_kernel": "Laws.*", "test_search": "SpecStore.*",
                 "suite_rule": "Rules.*:WeakenedRules.TheRight*:RelaxedRange.*:OwnRules.*"}
TESTS = {LAWS: TESTS_OF_LAWS, STORE: TESTS_OF_LAWS, LANGUAGE: TESTS_OF_LAWS,
         ONLINE: {"test_kernel": "Online*:*OnlineSums.*:Compose*"}}

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
    (LAWS, "bool stands_free(", "return (axes_of(v.axes) & ~axes_of(spec.parallel_axes())) == 0;", "return true || (axes_of(v.axes) & ~axes_of(spec.parallel_axes())) == 0;"),
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
    (LAWS, "std::optional<Composed> fold_constant(", "for (size_t k = o.masks.size(); k-- > 0;)", "for (size_t k = 0; k-- > 0;)"),
    (LAWS, "std::optional<Composed> fold_constant(",
     "b.select(valid, constant, number_constant(b, o.dtype, o.masks[k].fill))",
     "b.select(valid, number_constant(b, o.dtype, o.masks[k].fill), constant)"),
    (LAWS, "std::optional<Composed> reduce_repeated(",
     "if (!v.monoid || (v.monoid != Monoid::Add && !info(*v.monoid).selects)) continue;", "if (!v.monoid) continue;"),
    (LAWS, "std::optional<Composed> reduce_repeated(", "for (const Operand& o : v.operands) used |= axes_of(o, spec.values());", ""),
    (LAWS, "std::optional<Composed> reduce_repeated(", "~used;", "~used & ~(axes_of(v.reduced) & (~axes_of(v.reduced) + 1));"),
    (LAWS, "std::optional<Composed> reduce_repeated(", ".range().min < 1", ".range().min < 0"),
    (LAWS, "std::optional<Composed> reduce_repeated(", "count *= ", "count = ",
     "Axes that nobody reads are one axis of the canonical form."),
    (LAWS, "std::optional<Composed> reduce_repeated(", "if (narrowed.reduced.empty()) ", ""),
    (LAWS, "std::optional<Composed> reduce_repeated(", "if (v.monoid == Monoid::Add) {", "{"),
    (LAWS, "std::optional<Composed> reduce_repeated(", "if (v.monoid == Monoid::Add) {", "if (v.monoid == Monoid::Max) {"),
    (STORE, "bool SpecStore::symmetric(", "i == j || ", ""),
    (STORE, "bool SpecStore::symmetric(",
     "!(slots[static_cast<size_t>(i)] == slots[static_cast<size_t>(j)])", "slots.empty()",
     "Forms with one slot marked differ where the slots do; asking the slots first is quicker."),
    (STORE, "bool SpecStore::symmetric(", "if (first->spec != second->spec) return false;", ""),
    (STORE, "bool SpecStore::symmetric(", "if (to != (from == i ? j : from == j ? i : from)) return false;", "static_cast<void>(from), static_cast<void>(to);"),
    (STORE, "bool SpecStore::is_elementwise(", "!v.monoid && ", ""),
    (STORE, "bool SpecStore::is_elementwise(", "v.body.nodes().size() <= kMostNodes &&", "kMostNodes > 0 &&"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostNodes = 16", "kMostNodes = 17"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostNodes = 16", "kMostNodes = 15"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostOperands = 4", "kMostOperands = 5"),
    (STORE, "bool SpecStore::is_elementwise(", "kMostOperands = 4", "kMostOperands = 3"),
    (STORE, "bool SpecStore::is_exact(", "v.monoid && !info(*v.monoid).selects", "(!v.monoid || !info(*v.monoid).selects)"),
    (STORE, "bool SpecStore::is_exact(", "!info(*v.monoid).selects && ", ""),
    (STORE, "bool SpecStore::is_exact(", " && is_float(v.dtype())", ""),
    (STORE, "SpecStore::Made* SpecStore::join(", "if (std::ranges::adjacent_find(sorted) == sorted.end()) return nullptr;", "",
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
    (ONLINE, "bool take_bodies_in(", "if (!online_of(trial.values, static_cast<int>(at)) && !take_factors_out(trial, at)) return false;", "",
     "Reading bodies changes where they are computed, and nothing else."),
    (ONLINE, "bool joins_walk(", "v.online || !reads_fold(v.body)", "!reads_fold(v.body)"),
    (ONLINE, "bool joins_walk(", "v.online || !reads_fold(v.body)", "v.online"),
    (ONLINE, "bool joins_walk(", "if (v.monoid != Monoid::Add) return false;", ""),
    (ONLINE, "bool joins_walk(", "terms && !reads_fold(*terms)", "terms.has_value()"),
    (ONLINE, "void mark_online(", "if (parts.values.size() < 2 || !has_maximum(parts)) return;", "",
     "Without a maximum nothing follows one: leaving early is quicker."),
    (ONLINE, "void mark_online(", "if (changed) simplify_values(parts);", "",
     "Operands that nothing reads any more count for nothing."),
]


class Builder:
    """Compiles one changed source, and links the tests with it before the archive that holds the right one."""

    def __init__(self, build):
        self.build = build
        self.links = {test: self.command(test) for tests in TESTS.values() for test in tests}

    def command(self, target):
        listed = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", target],
                                capture_output=True, text=True, check=True).stdout
        return listed.strip().splitlines()[-1]

    def compile(self, source, text, folder):
        changed = folder / pathlib.Path(source).name
        changed.write_text(text)
        target = f"CMakeFiles/luminal_{source.split('/')[1]}.dir/{source}.o"
        words = shlex.split(self.command(target))
        words[words.index(str(ROOT / source))] = str(changed)
        words[words.index("-o") + 1] = str(folder / "changed.o")
        words[words.index("-MF") + 1] = str(folder / "changed.d")
        # Closer to what a test needs than to what a user runs; a guard that is gone leaves names unused.
        words += ["-O1", "-w"]
        return subprocess.run(words, cwd=self.build, capture_output=True, text=True)

    def link(self, test, folder):
        program = folder / test
        command = self.links[test].replace(f" -o {test} ", f" -o {program} {folder / 'changed.o'} ")
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
                run = subprocess.run([program, f"--gtest_filter={chosen}"], cwd=folder, env=environment,
                                     capture_output=True, text=True, timeout=120, errors="replace")
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
