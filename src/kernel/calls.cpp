#include "kernel/calls.h"

#include <algorithm>
#include <functional>

#include "luminal/scalar_math.h"

namespace luminal::kernel {
namespace {

/// A function's body to look for; input k is argument k.
struct Template {
  std::string_view name;
  int arity;
  ScalarFunction body;
};

/// Larger ones first: a function may hold another.
const std::vector<Template>& templates(Dtype dtype) {
  const auto make = [](Dtype type) {
    std::vector<Template> list;
    for (const math::Function& f : math::functions()) {
      ScalarBuilder b;
      std::vector<Scalar> arguments;
      for (int k = 0; k < f.arity; ++k) arguments.push_back(b.input(k, type));
      ScalarFunction body = b.finish(f.lower(b, arguments));
      if (body.nodes().size() > static_cast<size_t>(f.arity) + 2)
        list.push_back({f.name, f.arity, std::move(body)});
    }
    std::ranges::stable_sort(list, std::greater{}, [](const Template& t) { return t.body.nodes().size(); });
    return list;
  };
  static const std::vector<Template> single = make(Dtype::F32), wide = make(Dtype::F64), none;
  return dtype == Dtype::F32 ? single : dtype == Dtype::F64 ? wide : none;
}

/// Finds what a template's inputs stand for at a node; commutative operands may be swapped.
class Match {
 public:
  Match(const ScalarFunction& body, const Template& t) : body_(body), t_(t), bound_(t.body.nodes().size()) {}

  std::optional<std::vector<Scalar>> at(Scalar node) {
    if (!match(t_.body.outputs()[0], node)) return std::nullopt;
    std::vector<Scalar> arguments(static_cast<size_t>(t_.arity));
    for (size_t i = 0; i < bound_.size(); ++i)
      if (t_.body.nodes()[i].op == ScalarOp::Input) arguments[t_.body.nodes()[i].payload] = bound_[i];
    return arguments;
  }

 private:
  bool match(Scalar pattern, Scalar node) {
    if (--budget_ < 0) return false;
    Scalar& bound = bound_[pattern.index];
    if (bound != Scalar{}) return bound == node;
    const ScalarNode &p = t_.body[pattern], &n = body_[node];
    if (p.op != ScalarOp::Input && (p.op != n.op || p.payload != n.payload)) return false;
    if (p.dtype != n.dtype) return false;
    const std::vector<Scalar> before = bound_;
    bound = node;
    if (p.op == ScalarOp::Input || arity(p.op) == 0 || match_operands(p, n, false)) return true;
    bound_ = before;
    bound_[pattern.index] = node;
    if (is_commutative(p.op) && match_operands(p, n, true)) return true;
    bound_ = before;
    return false;
  }
  bool match_operands(const ScalarNode& p, const ScalarNode& n, bool swapped) {
    for (size_t k = 0; k < static_cast<size_t>(arity(p.op)); ++k)
      if (!match(p.operands[k], n.operands[swapped && k < 2 ? 1 - k : k])) return false;
    return true;
  }

  const ScalarFunction& body_;
  const Template& t_;
  std::vector<Scalar> bound_;
  int budget_ = 20000;
};

}  // namespace

std::optional<MathCall> call_at(const ScalarFunction& body, Scalar s) {
  const ScalarNode& n = body[s];
  if (arity(n.op) == 0) return std::nullopt;
  for (const Template& t : templates(n.dtype))
    if (auto arguments = Match(body, t).at(s)) return MathCall{t.name, std::move(*arguments)};
  return std::nullopt;
}

}  // namespace luminal::kernel
