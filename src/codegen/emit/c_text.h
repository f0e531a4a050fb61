#pragma once
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/c_dialect.h"
#include "codegen/loop_ir.h"

/// Insides of the printer for the C family.
namespace luminal::codegen::c_text {

/// Of values and of memory, which differ for Bool: a value is 0 or -1, as vector comparisons give it, and memory holds
/// 0 or 1.
[[nodiscard]] Word value_word(Dtype dtype);
[[nodiscard]] Word memory_word(Dtype dtype);
[[nodiscard]] int word_bytes(Word word);
[[nodiscard]] bool is_float_word(Word word);
[[nodiscard]] bool is_signed_word(Word word);
/// The integer of so many bytes.
[[nodiscard]] Word integer_word(int bytes, bool is_signed);

/// The functions of our own that a text uses, each before those that call it.
class Functions {
 public:
  /// Whether somebody has to `define` it.
  [[nodiscard]] bool is_new(const std::string& name) { return names_.insert(name).second; }
  void define(const std::string& text) { text_ += text + "\n"; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::set<std::string> names_;
  std::string text_;
};

/// Types, and the words in which dialects differ.
class Spelling {
 public:
  explicit Spelling(const Dialect& dialect) : d_(dialect) {}
  [[nodiscard]] const Dialect& dialect() const { return d_; }
  /// Lanes of one vector of the language: a value of the loop IR is lanes / width of them.
  [[nodiscard]] int width(int lanes) const;
  [[nodiscard]] std::string type(Word word, int width) const;
  /// A scalar in every lane.
  [[nodiscard]] std::string spread(Word word, int width, const std::string& scalar) const;
  [[nodiscard]] std::string from_lanes(Word word, const std::vector<std::string>& lanes) const;
  [[nodiscard]] std::string lane(const std::string& vector, int width, int number) const;
  [[nodiscard]] std::string literal(Dtype dtype, uint64_t bits) const;
  [[nodiscard]] std::string float_bits(Word word, uint64_t bits) const;

  /// By value: C's conversion, which is defined where the value fits, and between integers.
  [[nodiscard]] std::string convert(Word to, int width, const std::string& a) const;
  [[nodiscard]] std::string bits(Word from, Word to, int width, const std::string& a) const;
  /// `a` where `mask` holds. The mask is the result of a comparison of words of so many bytes.
  [[nodiscard]] std::string choose(Word word, int width, int mask_bytes, const std::string& mask,
                                   const std::string& a, const std::string& b) const;
  /// The type of a comparison's result.
  [[nodiscard]] std::string mask_type(Word compared, int width) const;

 private:
  const Dialect& d_;
};

/// The scalar IR's operations on vectors of one width.
class Operations {
 public:
  Operations(const Spelling& spelling, Functions& functions) : s_(spelling), functions_(functions) {}

  /// op(operands) of type `result`, whose lanes are the width; `operand` is the dtype of the operands (of the last two,
  /// for Select). The operands are names or the like: they may stand more than once.
  std::string operator()(ScalarOp op, Type result, Dtype operand, std::span<const std::string> operands);

 private:
  struct Vector {
    Dtype dtype;
    Word word;
    int width;
  };
  [[nodiscard]] std::string number(const Vector& t, int64_t value) const;
  [[nodiscard]] std::string choose(const Vector& t, const std::string& mask, const std::string& a,
                                   const std::string& b) const;
  /// Of integers, modulo 2^bits: signed overflow has no meaning in C.
  [[nodiscard]] std::string wrapped(const char* op, const Vector& t, const std::string& a,
                                    const std::string& b) const;
  /// Of a comparison, as a Bool.
  [[nodiscard]] std::string truth(const Vector& t, const std::string& mask) const;
  std::string extreme(ScalarOp op, const Vector& t, const std::string& a, const std::string& b);
  std::string absolute(const Vector& t, const std::string& a);
  std::string remainder(const Vector& t, const std::string& a, const std::string& b);
  std::string floor_division(ScalarOp op, const Vector& t, const std::string& a, const std::string& b);
  std::string shift(ScalarOp op, const Vector& t, const std::string& a, const std::string& b);
  [[nodiscard]] std::string shift_lines(ScalarOp op, const Vector& t) const;
  [[nodiscard]] std::string division_lines(ScalarOp op, const Vector& t) const;
  [[nodiscard]] std::string extreme_lines(ScalarOp op, const Vector& t) const;
  [[nodiscard]] std::string saturating_lines(const Vector& from, const Vector& to) const;
  std::string conversion(const Vector& from, const std::string& a, const Vector& to);
  std::string saturated(const Vector& from, const std::string& a, const Vector& to);
  std::string f32_of_half(const Vector& from, const std::string& a);
  std::string half_of_f32(const std::string& a, const Vector& to);
  [[nodiscard]] std::string f16_lines(int width) const;
  [[nodiscard]] std::string bf16_lines(int width) const;
  /// A call of a function of our own: `body` has its lines, in which the operands are a and b.
  std::string call(const std::string& name, const Vector& result, const Vector& operand,
                   const std::vector<std::string>& operands, const std::function<std::string()>& body);

  const Spelling& s_;
  Functions& functions_;
};

/// Index formulas as 64-bit arithmetic.
class Indices {
 public:
  Indices(const Spelling& spelling, Functions& functions) : s_(spelling), functions_(functions) {}
  std::map<std::string, std::string, std::less<>> dims;
  std::map<int, std::string> variables;
  /// A name, a number, a call or an expression in brackets.
  std::string operator()(const Expression& e);

 private:
  std::string sum(const Expression& e);
  std::string product(int64_t coefficient, const Expression& monomial);
  std::string quotient(const Expression& e);
  std::string fold(const Expression& e);
  std::string call(const std::string& name, const std::string& a, const std::string& b);
  [[nodiscard]] std::string joined(const std::vector<std::pair<std::string, Range>>& parts, bool adds) const;

  const Spelling& s_;
  Functions& functions_;
};

[[nodiscard]] std::string integer_text(int64_t value);
/// What a buffer is called in the text: its number, so that no two are the same, and its name where C takes that.
[[nodiscard]] std::string buffer_name(const Program& program, size_t buffer);
/// Whether a Local buffer is an array of the task's.
[[nodiscard]] bool is_private(const Buffer& buffer, const Dialect& dialect);
/// An argument of a kernel of ParameterStyle::Listed. A buffer is two: its memory, and an offset in bytes.
struct Parameter {
  enum class Kind : uint8_t { Buffer, Shared, Prepared, Local, Dim, FirstTask };
  Kind kind = Kind::Buffer;
  int number = 0;  ///< of a slot or output in Program::buffers, or of a dim
};
[[nodiscard]] std::vector<Parameter> parameters_of(const Program& program, const Dialect& dialect);
/// One stage as a kernel.
[[nodiscard]] std::string stage_text(const Program& program, size_t stage, const Spelling& spelling,
                                     Functions& functions);

}  // namespace luminal::codegen::c_text
