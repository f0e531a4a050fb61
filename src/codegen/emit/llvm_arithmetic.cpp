#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/fail.h"
#include "codegen/emit/llvm_writer.h"
#include "scalar/typing.h"

namespace luminal::codegen::llvm_text {
namespace {

Type with(Type t, Dtype d) { return {d, t.lanes}; }
LlvmValue number(Type t, int64_t value) { return {integer_literal(t, value), 0}; }
int level_of(const std::vector<LlvmValue>& v) {
  int level = 0;
  for (const LlvmValue& o : v) level = std::max(level, o.level);
  return level;
}
LlvmValue f32_literal(int lanes, float value) {
  return {literal({Dtype::F32, lanes}, std::bit_cast<uint32_t>(value)), 0};
}

}  // namespace

LlvmValue Arithmetic::unary(const std::string& op, Type t, const LlvmValue& a) {
  return w_.pure(a.level, fmt::format("{} {} {}", op, type_text(t), a.text));
}
LlvmValue Arithmetic::binary(const std::string& op, Type t, const LlvmValue& a, const LlvmValue& b) {
  return w_.pure(std::max(a.level, b.level), fmt::format("{} {} {}, {}", op, type_text(t), a.text, b.text));
}
LlvmValue Arithmetic::select(Type t, const LlvmValue& condition, const LlvmValue& a, const LlvmValue& b) {
  return w_.pure(level_of({condition, a, b}),
                 fmt::format("select {} {}, {} {}, {} {}", type_text(with(t, Dtype::Bool)), condition.text,
                             type_text(t), a.text, type_text(t), b.text));
}
LlvmValue Arithmetic::cast(const std::string& op, Type from, const LlvmValue& a, Type to) {
  return w_.pure(a.level, fmt::format("{} {} {} to {}", op, type_text(from), a.text, type_text(to)));
}
LlvmValue Arithmetic::call(const std::string& intrinsic, Type t, const std::vector<LlvmValue>& operands) {
  const std::string type = type_text(t);
  std::string arguments, parameters;
  for (const LlvmValue& o : operands) {
    arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", type, o.text);
    parameters += (parameters.empty() ? "" : ", ") + type;
  }
  const std::string name = declare_(fmt::format("llvm.{}.{}", intrinsic, mangled(t)), type, parameters);
  return w_.pure(level_of(operands), fmt::format("call {} {}({})", type, name, arguments));
}

LlvmValue Arithmetic::fence(Type t, const LlvmValue& a) { return call("arithmetic.fence", t, {a}); }

LlvmValue Arithmetic::operator()(ScalarOp op, Type result, Type t, const std::vector<LlvmValue>& v,
                                 const uint64_t* divisor) {
  const bool real = is_real(t.dtype), is_bool = t.dtype == Dtype::Bool;
  const std::string sign = is_signed(t.dtype) ? "s" : "u";
  const auto compare = [&](const std::string& floats, const std::string& integers) {
    return binary(real ? "fcmp " + floats : "icmp " + integers, t, v[0], v[1]);
  };
  switch (op) {
    case ScalarOp::Add:
      return binary(real ? "fadd" : "add", t, v[0], v[1]);
    case ScalarOp::Sub:
      return binary(real ? "fsub" : "sub", t, v[0], v[1]);
    case ScalarOp::Mul:
      return binary(real ? "fmul" : "mul", t, v[0], v[1]);
    case ScalarOp::Neg:
      return real ? unary("fneg", t, v[0]) : binary("sub", t, number(t, 0), v[0]);
    case ScalarOp::Abs:
      if (real) return call("fabs", t, v);
      return is_signed(t.dtype) ? call("smax", t, {v[0], binary("sub", t, number(t, 0), v[0])}) : v[0];
    case ScalarOp::Minimum:
      return is_bool ? binary("and", t, v[0], v[1]) : call(real ? "minimum" : sign + "min", t, v);
    case ScalarOp::Maximum:
      return is_bool ? binary("or", t, v[0], v[1]) : call(real ? "maximum" : sign + "max", t, v);
    // LLVM takes lanes of a quotient for 0 where it knows both operands' to be, as those that a masked load leaves out,
    // and drops a select of 0 in these lanes; 0 / 0 is NaN (TargetLowering::SimplifyDemandedVectorElts, LLVM 19).
    case ScalarOp::Div:
      return binary("fdiv", t, t.lanes > 1 ? fence(t, v[0]) : v[0], v[1]);
    case ScalarOp::Remainder:
      return binary("frem", t, t.lanes > 1 ? fence(t, v[0]) : v[0], v[1]);
    case ScalarOp::Fma:
      return call("fma", t, v);
    case ScalarOp::Sqrt:
      return call("sqrt", t, v);
    case ScalarOp::Floor:
      return call("floor", t, v);
    case ScalarOp::RoundEven:
      return call("roundeven", t, v);
    case ScalarOp::FloorDiv:
    case ScalarOp::FloorMod:
      return floor_division(op, t, v[0], v[1], divisor);
    case ScalarOp::ShiftLeft:
    case ScalarOp::ShiftRightLogical:
    case ScalarOp::ShiftRightArithmetic:
      return shift(op, t, v[0], v[1]);
    case ScalarOp::And:
      return binary("and", t, v[0], v[1]);
    case ScalarOp::Or:
      return binary("or", t, v[0], v[1]);
    case ScalarOp::Xor:
      return binary("xor", t, v[0], v[1]);
    case ScalarOp::Not:
      return binary("xor", t, v[0], number(t, is_bool ? 1 : -1));
    case ScalarOp::Lt:
      return compare("olt", sign + "lt");
    case ScalarOp::Le:
      return compare("ole", sign + "le");
    case ScalarOp::Eq:
      return compare("oeq", "eq");
    case ScalarOp::Ne:
      return compare("une", "ne");
    case ScalarOp::Select:
      return select(result, v[0], v[1], v[2]);
    case ScalarOp::Convert:
      return convert(t, v[0], result);
    case ScalarOp::Bitcast:
      return type_text(t) == type_text(result) ? v[0] : cast("bitcast", t, v[0], result);
    case ScalarOp::Input:
    case ScalarOp::Constant:
    case ScalarOp::Coordinate:
      break;
  }
  throw InternalError(fmt::format("[llvm] '{}' is a leaf and has no instruction", name(op)));
}

// LLVM's division traps or is undefined for a divisor of 0 and for least / -1: both divide by 1 instead.
LlvmValue Arithmetic::floor_division(ScalarOp op, Type t, const LlvmValue& a, const LlvmValue& b,
                                     const uint64_t* divisor) {
  const bool division = op == ScalarOp::FloorDiv, with_sign = is_signed(t.dtype);
  const LlvmValue zero = number(t, 0);
  const bool safe = divisor != nullptr && *divisor != 0 && *divisor != width_mask(t.dtype);
  if (safe && std::has_single_bit(*divisor) && *divisor <= width_mask(t.dtype) >> (with_sign ? 1 : 0)) {
    if (!division) return binary("and", t, a, number(t, static_cast<int64_t>(*divisor - 1)));
    return binary(with_sign ? "ashr" : "lshr", t, a, number(t, std::countr_zero(*divisor)));
  }
  LlvmValue by = b, is_zero, is_minus_one;
  if (!safe) {
    is_zero = binary("icmp eq", t, b, zero);
    by = select(t, is_zero, number(t, 1), b);
    if (with_sign) {
      is_minus_one = binary("icmp eq", t, b, number(t, -1));
      by = select(t, is_minus_one, number(t, 1), by);
    }
  }
  if (!with_sign) {
    const LlvmValue result = binary(division ? "udiv" : "urem", t, a, by);
    return safe || !division ? result : select(t, is_zero, zero, result);
  }
  const Type mask = with(t, Dtype::Bool);
  const LlvmValue rest = binary("srem", t, a, by);
  const LlvmValue signs_differ = binary("icmp slt", t, binary("xor", t, rest, by), zero);
  const LlvmValue adjust = binary("and", mask, binary("icmp ne", t, rest, zero), signs_differ);
  if (!division) return binary("add", t, rest, select(t, adjust, by, zero));
  const LlvmValue quotient =
      binary("add", t, binary("sdiv", t, a, by), select(t, adjust, number(t, -1), zero));
  if (safe) return quotient;
  return select(t, is_zero, zero, select(t, is_minus_one, binary("sub", t, zero, a), quotient));
}

LlvmValue Arithmetic::shift(ScalarOp op, Type t, const LlvmValue& a, const LlvmValue& b) {
  const int width = width_bits(t.dtype);
  const LlvmValue inside = binary("icmp ult", t, b, number(t, width));
  const bool arithmetic = op == ScalarOp::ShiftRightArithmetic;
  const LlvmValue amount = select(t, inside, b, number(t, arithmetic ? width - 1 : 0));
  const std::string name = arithmetic ? "ashr" : op == ScalarOp::ShiftLeft ? "shl" : "lshr";
  const LlvmValue moved = binary(name, t, a, amount);
  return arithmetic ? moved : select(t, inside, moved, number(t, 0));
}

LlvmValue Arithmetic::convert(Type from, const LlvmValue& a, Type to) {
  const Dtype f = from.dtype, d = to.dtype;
  if (is_half(f)) return f32_of_half(from, a);
  if (is_half(d)) return half_of_f32(a, to);
  if (d == Dtype::Bool)
    return is_real(f) ? binary("fcmp une", from, a, {literal(from, 0), 0})
                      : binary("icmp ne", from, a, number(from, 0));
  if (is_real(f) && is_real(d)) return cast(f == Dtype::F32 ? "fpext" : "fptrunc", from, a, to);
  if (f == Dtype::F32 && width_bits(d) < 32 && to.lanes > 1) return narrow_lanes(a, to);
  if (is_real(f)) {
    const std::string name =
        fmt::format("llvm.fpto{}i.sat.{}.{}", is_signed(d) ? "s" : "u", mangled(to), mangled(from));
    return w_.pure(a.level,
                   fmt::format("call {} {}({} {})", type_text(to),
                               declare_(name, type_text(to), type_text(from)), type_text(from), a.text));
  }
  if (is_real(d)) return cast(is_signed(f) ? "sitofp" : "uitofp", from, a, to);
  const int narrow = f == Dtype::Bool ? 1 : width_bits(f), wide = width_bits(d);
  if (narrow == wide) return a;
  return cast(narrow > wide ? "trunc" : is_signed(f) ? "sext" : "zext", from, a, to);
}

/// F32 lanes to integers of 8 or 16 bits. LLVM takes vectors apart where a conversion saturates; bounds that are floats
/// make that unnecessary.
LlvmValue Arithmetic::narrow_lanes(const LlvmValue& a, Type to) {
  const Type f32 = with(to, Dtype::F32), i32 = with(to, Dtype::I32);
  const bool has_sign = is_signed(to.dtype);
  const auto beyond = static_cast<float>(int64_t{1} << (width_bits(to.dtype) - (has_sign ? 1 : 0)));
  const auto choose = [&](const char* holds, const LlvmValue& b, const LlvmValue& x,
                          const LlvmValue& otherwise) {
    return select(f32, binary(fmt::format("fcmp {}", holds), f32, x, b), x, otherwise);
  };
  const LlvmValue low = f32_literal(to.lanes, has_sign ? -beyond : 0),
                  high = f32_literal(to.lanes, beyond - 1);
  const LlvmValue number = choose("ord", a, a, f32_literal(to.lanes, 0));  // NaN gives 0
  const LlvmValue bounded = choose("olt", high, choose("ogt", low, number, low), high);
  return cast("trunc", i32, cast("fptosi", f32, bounded, i32), to);
}

// Integer forms of the conversions, for bf16 everywhere (the instructions of some machines flush subnormals)
// and for f16 on machines without instructions. They give what luminal/dtype.h gives.
LlvmValue Arithmetic::f32_of_half(Type from, const LlvmValue& a) {
  const Type i32 = with(from, Dtype::I32), f32 = with(from, Dtype::F32);
  const auto n = [&](int64_t value) { return number(i32, value); };
  if (from.dtype == Dtype::F16 && options_.converts_f16) {
    const std::string half = from.lanes == 1 ? "half" : fmt::format("<{} x half>", from.lanes);
    const LlvmValue as_half =
        w_.pure(a.level, fmt::format("bitcast {} {} to {}", type_text(from), a.text, half));
    // Behind a fence LLVM computes in f32 as it is told. Otherwise it narrows what is rounded to a half again
    // to arithmetic on halves, and what it makes of their maximum and of masked compares is wrong (LLVM 19).
    return fence(f32, w_.pure(a.level, fmt::format("fpext {} {} to {}", half, as_half.text, type_text(f32))));
  }
  const LlvmValue word = cast("zext", from, a, i32);
  if (from.dtype == Dtype::BF16) return cast("bitcast", i32, binary("shl", i32, word, n(16)), f32);
  // Exponent and mantissa moved into place; the product with 2^112 mends the bias and makes subnormals
  // normal.
  const LlvmValue magnitude = binary("shl", i32, binary("and", i32, word, n(0x7fff)), n(13));
  const LlvmValue scaled =
      binary("fmul", f32, cast("bitcast", i32, magnitude, f32), f32_literal(from.lanes, 0x1p112F));
  const LlvmValue special = binary("icmp uge", i32, magnitude, n(0x7c00 << 13));
  const LlvmValue finite = cast("bitcast", f32, scaled, i32);
  const LlvmValue bits = select(i32, special, binary("or", i32, magnitude, n(0x7f800000)), finite);
  const LlvmValue sign = binary("shl", i32, binary("and", i32, word, n(0x8000)), n(16));
  return cast("bitcast", i32, binary("or", i32, bits, sign), f32);
}

LlvmValue Arithmetic::half_of_f32(const LlvmValue& a, Type to) {
  if (to.dtype == Dtype::BF16) return bf16_of_f32(a, to.lanes);
  if (!options_.converts_f16) return f16_of_f32_by_integers(a, to.lanes);
  const std::string half = to.lanes == 1 ? "half" : fmt::format("<{} x half>", to.lanes);
  const LlvmValue as_half =
      w_.pure(a.level, fmt::format("fptrunc {} {} to {}", type_text(with(to, Dtype::F32)), a.text, half));
  return w_.pure(a.level, fmt::format("bitcast {} {} to {}", half, as_half.text, type_text(to)));
}

LlvmValue Arithmetic::bf16_of_f32(const LlvmValue& a, int lanes) {
  const Type i32{Dtype::I32, lanes}, f32{Dtype::F32, lanes};
  const auto n = [&](int64_t value) { return number(i32, value); };
  const LlvmValue word = cast("bitcast", f32, a, i32);
  const LlvmValue top = binary("lshr", i32, word, n(16));
  const LlvmValue bias = binary("add", i32, binary("and", i32, top, n(1)), n(0x7fff));
  const LlvmValue rounded = binary("lshr", i32, binary("add", i32, word, bias), n(16));
  const LlvmValue is_nan = binary("fcmp uno", f32, a, a);
  const LlvmValue bits = select(i32, is_nan, binary("or", i32, top, n(0x40)), rounded);
  return cast("trunc", i32, bits, {Dtype::BF16, lanes});
}

LlvmValue Arithmetic::f16_of_f32_by_integers(const LlvmValue& a, int lanes) {
  const Type i32{Dtype::I32, lanes}, f32{Dtype::F32, lanes};
  const auto n = [&](int64_t value) { return number(i32, value); };
  const LlvmValue word = cast("bitcast", f32, a, i32);
  const LlvmValue magnitude = binary("and", i32, word, n(0x7fffffff));
  // Below 2^-14 the sum with 0.5 leaves the rounded subnormal in the lowest bits.
  const LlvmValue shifted =
      binary("fadd", f32, cast("bitcast", i32, magnitude, f32), f32_literal(lanes, 0.5F));
  const LlvmValue small = binary("sub", i32, cast("bitcast", f32, shifted, i32), n(0x3f000000));
  const LlvmValue odd = binary("and", i32, binary("lshr", i32, magnitude, n(13)), n(1));
  const LlvmValue biased = binary("add", i32, magnitude, n(((15 - 127) << 23) + 0xfff));
  const LlvmValue normal = binary("lshr", i32, binary("add", i32, biased, odd), n(13));
  const LlvmValue is_nan = binary("icmp ugt", i32, magnitude, n(0x7f800000));
  const LlvmValue payload =
      binary("or", i32, binary("and", i32, binary("lshr", i32, magnitude, n(13)), n(0x3ff)), n(0x7e00));
  const LlvmValue large = select(i32, is_nan, payload, n(0x7c00));
  const LlvmValue finite = select(i32, binary("icmp ult", i32, magnitude, n(0x38800000)), small, normal);
  const LlvmValue bits = select(i32, binary("icmp uge", i32, magnitude, n(0x47800000)), large, finite);
  const LlvmValue sign = binary("and", i32, binary("lshr", i32, word, n(16)), n(0x8000));
  return cast("trunc", i32, binary("or", i32, bits, sign), {Dtype::F16, lanes});
}

LlvmValue Arithmetic::broadcast(Type to, const LlvmValue& scalar) {
  if (to.lanes == 1) return scalar;
  const Type one{to.dtype, 1};
  if (scalar.text[0] != '%') return {fmt::format("splat ({} {})", type_text(one), scalar.text), 0};
  const LlvmValue first = w_.pure(scalar.level, fmt::format("insertelement {} poison, {} {}, i64 0",
                                                            type_text(to), type_text(one), scalar.text));
  return w_.pure(scalar.level, fmt::format("shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer",
                                           type_text(to), first.text, to.lanes));
}

LlvmValue Arithmetic::shuffle(Type from, const LlvmValue& a, const LlvmValue& b,
                              const std::vector<int>& pattern) {
  const std::string type = type_text(from);
  const auto lane = [&](const LlvmValue& vector, int number) {
    if (from.lanes == 1) return vector;
    return w_.pure(vector.level, fmt::format("extractelement {} {}, i64 {}", type, vector.text, number));
  };
  if (pattern.size() == 1) return lane(pattern[0] < from.lanes ? a : b, pattern[0] % from.lanes);
  if (from.lanes == 1) {  // scalars are no vectors to LLVM
    LlvmValue made{"poison", 0};
    const std::string to = type_text({from.dtype, static_cast<int>(pattern.size())});
    for (size_t k = 0; k < pattern.size(); ++k) {
      const LlvmValue& source = pattern[k] == 0 ? a : b;
      made = w_.pure(std::max(made.level, source.level),
                     fmt::format("insertelement {} {}, {} {}, i64 {}", to, made.text, type, source.text, k));
    }
    return made;
  }
  std::string mask;
  for (const int p : pattern) mask += fmt::format("{}i32 {}", mask.empty() ? "" : ", ", p);
  return w_.pure(std::max(a.level, b.level), fmt::format("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>",
                                                         type, a.text, b.text, pattern.size(), mask));
}

LlvmValue Arithmetic::permute(Type numbers, Type table, const std::vector<LlvmValue>& operands) {
  const Type t{table.dtype, numbers.lanes};
  const int bytes = 4 * t.lanes;
  const bool fits = t == table && t.dtype == Dtype::F32 && options_.permutes &&
                    (bytes == options_.vector_bytes || bytes == 32);
  if (operands.size() == 3 && !(fits && bytes == 64)) {
    const LlvmValue low = permute(numbers, table, {operands[0], operands[1]});
    const LlvmValue high = permute(numbers, table, {operands[0], operands[2]});
    const LlvmValue bit = binary("and", numbers, operands[0], {integer_literal(numbers, table.lanes), 0});
    const LlvmValue is_high =
        w_.pure(bit.level, fmt::format("icmp ne {} {}, zeroinitializer", type_text(numbers), bit.text));
    return select(t, is_high, high, low);
  }
  if (fits) return permute_by_instruction(t, operands);
  const LlvmValue within =
      binary("and", numbers, operands[0], {integer_literal(numbers, table.lanes - 1), 0});
  if (numbers.dtype == Dtype::U8 && table.lanes == 16 && options_.permutes)
    if (const LlvmValue made = permute_bytes(t, within, operands[1]); !made.text.empty()) return made;
  const std::string type = type_text(t);
  const int level = std::max(operands[1].level, within.level);
  LlvmValue made{"poison", 0};
  for (int k = 0; k < t.lanes; ++k) {
    const LlvmValue number = w_.pure(
        within.level, fmt::format("extractelement {} {}, i64 {}", type_text(numbers), within.text, k));
    const LlvmValue entry =
        w_.pure(level, fmt::format("extractelement {} {}, {} {}", type_text(table), operands[1].text,
                                   type_text({numbers.dtype, 1}), number.text));
    made = w_.pure(level, fmt::format("insertelement {} {}, {} {}, i64 {}", type, made.text,
                                      type_text({t.dtype, 1}), entry.text, k));
  }
  return made;
}

/// Entries of a table of 16 bytes, by numbers below 16: an instruction finds 16, 32 or 64 of them. No text where there is
/// none for so many.
LlvmValue Arithmetic::permute_bytes(Type t, const LlvmValue& numbers, const LlvmValue& table) {
  constexpr int kEntries = 16;
  const bool wide = t.lanes == 64 && options_.vector_bytes == 64 && options_.dots;  // VNNI implies AVX-512 BW
  const char* name = t.lanes == 16   ? "llvm.x86.ssse3.pshuf.b.128"
                     : t.lanes == 32 ? "llvm.x86.avx2.pshuf.b"
                     : wide          ? "llvm.x86.avx512.pshuf.b.512"
                                     : nullptr;
  if (name == nullptr) return {};
  std::vector<int> repeated;
  for (int k = 0; k < t.lanes; ++k) repeated.push_back(k % kEntries);
  const LlvmValue entries = shuffle({t.dtype, kEntries}, table, table, repeated);
  const std::string type = type_text(t);
  const std::string function = declare_(name, type, fmt::format("{0}, {0}", type));
  return w_.pure(std::max(numbers.level, entries.level),
                 fmt::format("call {0} {1}({0} {2}, {0} {3})", type, function, entries.text, numbers.text));
}

/// The instructions take numbers modulo the lanes.
LlvmValue Arithmetic::permute_by_instruction(Type t, const std::vector<LlvmValue>& operands) {
  const std::string type = type_text(t), numbers = type_text({Dtype::I32, t.lanes});
  const LlvmValue &at = operands[0], &low = operands[1];
  if (operands.size() == 3) {
    const LlvmValue& high = operands[2];
    const std::string name =
        declare_("llvm.x86.avx512.vpermi2var.ps.512", type, fmt::format("{}, {}, {}", type, numbers, type));
    return w_.pure(std::max({at.level, low.level, high.level}),
                   fmt::format("call {0} {1}({0} {2}, {3} {4}, {0} {5})", type, name, low.text, numbers,
                               at.text, high.text));
  }
  const bool wide = t.lanes == 16;
  const std::string name = declare_(wide ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps", type,
                                    fmt::format("{}, {}", type, numbers));
  return w_.pure(std::max(at.level, low.level),
                 fmt::format("call {0} {1}({0} {2}, {3} {4})", type, name, low.text, numbers, at.text));
}

LlvmValue Arithmetic::bits_as(const std::string& from, const LlvmValue& a, const std::string& to) {
  return w_.pure(a.level, fmt::format("bitcast {} {} to {}", from, a.text, to));
}

LlvmValue Arithmetic::dot4(Type t, const std::vector<LlvmValue>& operands, uint64_t greatest) {
  const int bytes = 4 * t.lanes, level = level_of({operands[0], operands[1], operands[2]});
  const std::string type = type_text(t), from = type_text({Dtype::U8, bytes});
  const bool is_register = bytes == 16 || bytes == 32 || (bytes == 64 && options_.vector_bytes == 64);
  if (options_.dots && is_register) {
    const std::string name = declare_(fmt::format("llvm.x86.avx512.vpdpbusd.{}", 8 * bytes), type,
                                      fmt::format("{0}, {0}, {0}", type));
    return w_.pure(level,
                   fmt::format("call {0} {1}({0} {2}, {0} {3}, {0} {4})", type, name, operands[0].text,
                               bits_as(from, operands[1], type).text, bits_as(from, operands[2], type).text));
  }
  constexpr uint64_t kPairsFit = 127;  // 2 * 127 * 128 is no more than 16 bits hold
  if (options_.permutes && bytes == 32)
    return greatest <= kPairsFit ? dot4_by_sums(t, operands) : dot4_by_pairs(t, operands);
  const Type wide{Dtype::I32, bytes};
  const LlvmValue a = cast("zext", {Dtype::U8, bytes}, operands[1], wide);
  const LlvmValue b = cast("sext", {Dtype::I8, bytes}, operands[2], wide);
  const LlvmValue products = binary("mul", wide, a, b);
  LlvmValue sum = operands[0];
  for (int j = 0; j < 4; ++j) {
    std::vector<int> every_fourth;
    for (int k = 0; k < t.lanes; ++k) every_fourth.push_back(4 * k + j);
    sum = binary("add", t, sum, shuffle(wide, products, products, every_fourth));
  }
  return sum;
}

/// AVX2: an instruction adds the products of two bytes, which fit 16 bits here, another one two of these sums.
LlvmValue Arithmetic::dot4_by_sums(Type t, const std::vector<LlvmValue>& operands) {
  const Type half{Dtype::U16, 2 * t.lanes};
  const std::string type = type_text(t), pairs = type_text(half), bytes = type_text({Dtype::U8, 4 * t.lanes});
  const std::string multiply = declare_("llvm.x86.avx2.pmadd.ub.sw", pairs, fmt::format("{0}, {0}", bytes));
  const LlvmValue sums = w_.pure(level_of({operands[1], operands[2]}),
                                 fmt::format("call {} {}({} {}, {} {})", pairs, multiply, bytes,
                                             operands[1].text, bytes, operands[2].text));
  const std::string add = declare_("llvm.x86.avx2.pmadd.wd", type, fmt::format("{0}, {0}", pairs));
  const LlvmValue fours = w_.pure(sums.level, fmt::format("call {} {}({} {}, {} {})", type, add, pairs,
                                                          sums.text, pairs, integer_literal(half, 1)));
  return binary("add", t, operands[0], fours);
}

/// AVX2: products of even bytes and of odd ones, as 16-bit numbers whose pairs an instruction adds.
LlvmValue Arithmetic::dot4_by_pairs(Type t, const std::vector<LlvmValue>& operands) {
  const Type half{Dtype::U16, 2 * t.lanes};
  const std::string type = type_text(t), pairs = type_text(half), from = type_text({Dtype::U8, 4 * t.lanes});
  const LlvmValue a = bits_as(from, operands[1], pairs), b = bits_as(from, operands[2], pairs);
  const LlvmValue eight{integer_literal(half, 8), 0};
  const LlvmValue even_a = binary("and", half, a, {integer_literal(half, 255), 0});
  const LlvmValue even_b = binary("ashr", half, binary("shl", half, b, eight), eight);
  const LlvmValue odd_a = binary("lshr", half, a, eight), odd_b = binary("ashr", half, b, eight);
  const std::string name = declare_("llvm.x86.avx2.pmadd.wd", type, fmt::format("{0}, {0}", pairs));
  const auto added = [&](const LlvmValue& x, const LlvmValue& y) {
    return w_.pure(level_of({x, y}),
                   fmt::format("call {} {}({} {}, {} {})", type, name, pairs, x.text, pairs, y.text));
  };
  return binary("add", t, operands[0], binary("add", t, added(even_a, even_b), added(odd_a, odd_b)));
}

LlvmValue Arithmetic::reduce(ScalarOp op, Type from, const LlvmValue& a) {
  LlvmValue value = a;
  for (Type t = from; t.lanes > 1;) {
    std::vector<int> low, high;
    for (int k = 0; k < t.lanes / 2; ++k) low.push_back(k), high.push_back(k + t.lanes / 2);
    const Type half{t.dtype, t.lanes / 2};
    const LlvmValue first = shuffle(t, value, value, low), second = shuffle(t, value, value, high);
    value = (*this)(op, half, half, {first, second});
    t = half;
  }
  return value;
}

}  // namespace luminal::codegen::llvm_text
