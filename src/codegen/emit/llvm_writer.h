#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/emit/llvm.h"
#include "codegen/loop_ir.h"

/// Insides of the LLVM printer.
namespace luminal::codegen::llvm_text {

/// A value in the text: a name or a literal, and the depth of the scope it is defined in (literals: 0).
struct LlvmValue {
  std::string text;
  int level = 0;
};

/// The text of one function while it grows. Scopes are the function, its loops and branches. Code without
/// side effects goes to the end of the outermost scope in which its operands are known: that place is in
/// front of the inner scope that is being written, so it dominates all that follows.
class Writer {
 public:
  Writer();

  /// The value of an instruction without side effects; the same text gives the same value.
  LlvmValue pure(int level, const std::string& instruction);
  /// The value of an instruction that must stand where it is.
  LlvmValue here(const std::string& instruction);
  void statement(const std::string& text);
  [[nodiscard]] std::string fresh_name() { return "%v" + std::to_string(next_name_++); }
  [[nodiscard]] std::string fresh_label() { return "b" + std::to_string(next_label_++); }

  /// Ends the current block (whose terminator has been written) and begins another in the same scope.
  void label(const std::string& name);
  [[nodiscard]] const std::string& block() const { return scopes_.back().block; }
  [[nodiscard]] int level() const { return static_cast<int>(scopes_.size()) - 1; }

  /// A place for text that is known later.
  size_t reserve();
  void fill(size_t place, const std::string& text) { chunks_[place] += text; }
  /// A new scope whose first block is `name`; its label is the caller's to write.
  void open(const std::string& name);
  /// Back to the outer scope, which goes on in block `name`.
  void close(const std::string& name);
  [[nodiscard]] std::string text() const;

 private:
  struct Scope {
    size_t chunk;
    std::string block;
    std::vector<std::string> known;  ///< keys of known_ that end with this scope
  };
  std::vector<std::string> chunks_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, LlvmValue> known_;
  int next_name_ = 0, next_label_ = 0;
};

/// Declarations of intrinsics, by name.
class Declarations {
 public:
  /// "@name", declared as `result @name(parameters)`.
  std::string operator()(const std::string& name, const std::string& result, const std::string& parameters);
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::string, std::string> lines_;
};

/// "float", "<16 x i1>": f16 and bf16 are i16, they are only stored.
[[nodiscard]] std::string type_text(Type t);
/// As it stands in memory: Bool is a byte.
[[nodiscard]] Type memory_type(Type t);
/// "v16f32", "f32": the suffix of an overloaded intrinsic.
[[nodiscard]] std::string mangled(Type t);
[[nodiscard]] std::string literal(Type t, uint64_t bits);
[[nodiscard]] std::string integer_literal(Type t, int64_t value);

/// The scalar IR's operations, lane by lane.
class Arithmetic {
 public:
  Arithmetic(Writer& writer, Declarations& declarations, const LlvmOptions& options)
      : w_(writer), declare_(declarations), options_(options) {}

  /// op(operands) of type `result`; `operand` is the type of the operands (of the last two, for Select).
  /// `divisor` is the second operand's bits if it is a constant.
  LlvmValue operator()(ScalarOp op, Type result, Type operand, const std::vector<LlvmValue>& operands,
                       const uint64_t* divisor = nullptr);
  LlvmValue broadcast(Type to, const LlvmValue& scalar);
  /// Lanes folded by halves.
  LlvmValue reduce(ScalarOp op, Type from, const LlvmValue& a);
  LlvmValue shuffle(Type from, const LlvmValue& a, const LlvmValue& b, const std::vector<int>& pattern);
  /// `operands`: numbers, then one table or two.
  LlvmValue permute(Type numbers, Type table, const std::vector<LlvmValue>& operands);
  LlvmValue dot4(Type t, const std::vector<LlvmValue>& operands, uint64_t greatest);

 private:
  LlvmValue bits_as(const std::string& from, const LlvmValue& a, const std::string& to);
  LlvmValue narrow_lanes(const LlvmValue& a, Type to);
  LlvmValue dot4_by_sums(Type t, const std::vector<LlvmValue>& operands);
  LlvmValue dot4_by_pairs(Type t, const std::vector<LlvmValue>& operands);
  LlvmValue permute_by_instruction(Type t, const std::vector<LlvmValue>& operands);
  LlvmValue permute_bytes(Type t, const LlvmValue& numbers, const LlvmValue& table);
  LlvmValue unary(const std::string& op, Type t, const LlvmValue& a);
  LlvmValue binary(const std::string& op, Type t, const LlvmValue& a, const LlvmValue& b);
  LlvmValue select(Type t, const LlvmValue& condition, const LlvmValue& a, const LlvmValue& b);
  LlvmValue cast(const std::string& op, Type from, const LlvmValue& a, Type to);
  LlvmValue call(const std::string& intrinsic, Type t, const std::vector<LlvmValue>& operands);
  LlvmValue fence(Type t, const LlvmValue& a);  ///< `a`, of which LLVM is to know nothing
  LlvmValue floor_division(ScalarOp op, Type t, const LlvmValue& a, const LlvmValue& b,
                           const uint64_t* divisor);
  LlvmValue shift(ScalarOp op, Type t, const LlvmValue& a, const LlvmValue& b);
  LlvmValue convert(Type from, const LlvmValue& a, Type to);
  LlvmValue f32_of_half(Type from, const LlvmValue& a);
  LlvmValue half_of_f32(const LlvmValue& a, Type to);
  LlvmValue f16_of_f32_by_integers(const LlvmValue& a, int lanes);
  LlvmValue bf16_of_f32(const LlvmValue& a, int lanes);

  Writer& w_;
  Declarations& declare_;
  const LlvmOptions& options_;
};

/// Index formulas as i64 arithmetic.
class Indices {
 public:
  explicit Indices(Writer& writer, Declarations& declarations) : w_(writer), declare_(declarations) {}
  std::map<std::string, LlvmValue, std::less<>> dims;
  std::map<int, LlvmValue> variables;

  LlvmValue value(const Expression& e);
  /// `base` + `e` elements of `element` (LLVM's type).
  LlvmValue address(const LlvmValue& base, const std::string& element, const Expression& e);

 private:
  struct Sized {
    LlvmValue operand;
    Range range;
  };
  Sized sized(const Expression& e);
  Sized term(int64_t coefficient, const Expression& monomial);
  Sized sum(std::vector<Sized> terms);
  Sized add(const Sized& a, const Sized& b);
  Sized mul(const Sized& a, const Sized& b);
  LlvmValue divide(const Expression& e);
  LlvmValue unsigned_divide(const std::string& op, const Sized& a, const Sized& b);
  LlvmValue fold(const Expression& e);
  LlvmValue pure(const std::string& op, const LlvmValue& a, const LlvmValue& b);

  Writer& w_;
  Declarations& declare_;
};

}  // namespace luminal::codegen::llvm_text
