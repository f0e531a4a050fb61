#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "base/fail.h"
#include "base/fork.h"
#include "base/hash.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal::symbolic {
namespace {

constexpr uint32_t kMaxDepth = 1000;  // recursion over nodes stays far from the end of any stack

uint64_t content_hash(const Node& n) {
  uint64_t h = combine(static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.value));
  if (n.kind == Kind::Dim) {
    h = combine(h, hash_bytes(n.name));
    h = combine(h, static_cast<uint64_t>(n.facts.min));
    h = combine(h, static_cast<uint64_t>(n.facts.max));
    h = combine(h, static_cast<uint64_t>(n.facts.multiple_of));
  }
  for (const Expression& a : n.args) h = combine(h, a.node().hash);
  for (const Term& t : n.terms)
    h = combine(combine(h, static_cast<uint64_t>(t.coefficient)), t.monomial.node().hash);
  return h;
}

bool same_content(const Node& a, const Node& b) {
  return a.kind == b.kind && a.value == b.value && a.args == b.args && a.terms == b.terms &&
         a.name == b.name && a.facts == b.facts;
}

int64_t saturating_abs(int64_t x) { return x == INT64_MIN ? int64_t{1} << 62 : (x < 0 ? -x : x); }

// A divisor of the product: of the true product where that fits, otherwise of the larger factor.
int64_t mul_divisors(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? std::max(a, b) : result;
}

Range range_of_args(const Node& n, bool smallest) {
  Range result = n.args[0].node().range;
  for (const Expression& a : n.args) {
    const Range r = a.node().range;
    result = smallest ? Range{std::min(result.min, r.min), std::min(result.max, r.max)}
                      : Range{std::max(result.min, r.min), std::max(result.max, r.max)};
  }
  return result;
}

// Bitwise and/or of numbers that are known not to be negative stays below the next power of two.
Range bitwise_range(const Node& n) {
  Range result{0, kInfinity};
  int64_t top = 0, least = 0;
  bool any_nonnegative = false, all_nonnegative = true;
  for (const Expression& a : n.args) {
    const Range r = a.node().range;
    if (r.min >= 0) {
      any_nonnegative = true;
      result.max = std::min(result.max, r.max);
      top = std::max(top, r.max);
      least = std::max(least, r.min);
    } else {
      all_nonnegative = false;
    }
  }
  if (n.kind == Kind::And) return any_nonnegative ? result : Range{};
  if (!all_nonnegative) return {};
  const int bits = std::bit_width(static_cast<uint64_t>(top));
  return {least, bits >= 63 ? kInfinity : (int64_t{1} << bits) - 1};
}

Range range_of(const Node& n) {
  switch (n.kind) {
    case Kind::Constant:
      return {n.value, n.value};
    case Kind::Dim:
      return {n.facts.min, n.facts.max};
    case Kind::Index: {
      const int64_t top = n.args[0].node().range.max;
      return {0, top == kInfinity ? kInfinity : std::max<int64_t>(top - 1, 0)};
    }
    case Kind::Flat:
      return {0, kInfinity};
    case Kind::FloorDiv:
      return floor_div(n.args[0].node().range, n.args[1].node().range);
    case Kind::Mod:
      return floor_mod(n.args[0].node().range, n.args[1].node().range);
    case Kind::Min:
      return range_of_args(n, true);
    case Kind::Max:
      return range_of_args(n, false);
    case Kind::Negative:
      return {0, 1};
    case Kind::And:
    case Kind::Or:
      return bitwise_range(n);
    case Kind::Product: {
      Range r{1, 1};
      for (const Expression& a : n.args) r = mul(r, a.node().range);
      // An even power of one atom is no less than 0.
      if (n.args.size() == 2 && n.args[0] == n.args[1]) r.min = std::max<int64_t>(r.min, 0);
      return r;
    }
    case Kind::Sum: {
      Range r{n.value, n.value};
      for (const Term& t : n.terms) r = add(r, mul({t.coefficient, t.coefficient}, t.monomial.node().range));
      return r;
    }
  }
  return {};
}

int64_t divisor_of(const Node& n) {
  switch (n.kind) {
    case Kind::Constant:
      return saturating_abs(n.value);
    case Kind::Dim:
      return n.facts.multiple_of;
    case Kind::FloorDiv: {
      const Expression& by = n.args[1];
      const int64_t d = n.args[0].node().divisor;
      const int64_t c = kind_of(by) == Kind::Constant ? by.node().value : 0;
      return c > 0 && d % c == 0 ? std::max<int64_t>(d / c, 1) : 1;
    }
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max: {
      int64_t d = 0;
      for (const Expression& a : n.args) d = gcd(d, a.node().divisor);
      return std::max<int64_t>(d, 1);
    }
    case Kind::Product: {
      int64_t d = 1;
      for (const Expression& a : n.args) d = mul_divisors(d, std::max<int64_t>(a.node().divisor, 1));
      return d;
    }
    case Kind::Sum: {
      int64_t d = saturating_abs(n.value);
      for (const Term& t : n.terms)
        d = gcd(d, mul_divisors(saturating_abs(t.coefficient), t.monomial.node().divisor));
      return std::max<int64_t>(d, 1);
    }
    default:
      return 1;
  }
}

void derive(Node& n) {
  const auto child = [&n](const Expression& e) {
    const Node& c = e.node();
    n.size = static_cast<uint32_t>(std::min<uint64_t>(uint64_t{n.size} + c.size, UINT32_MAX));
    n.depth = std::max(n.depth, c.depth + 1);
    n.uses_dim |= c.uses_dim;
    // The extent of an index variable is a fact about it, free of index variables itself.
    n.uses_index |= c.uses_index;
    n.indices |= c.indices;
    n.uses_flat |= c.uses_flat;
  };
  n.uses_dim = n.kind == Kind::Dim;
  n.uses_index = n.kind == Kind::Index;
  if (n.uses_index) n.indices = uint64_t{1} << std::min<int64_t>(n.value, kLastIndexBit);
  n.uses_flat = n.kind == Kind::Flat;
  for (const Expression& a : n.args) child(a);
  for (const Term& t : n.terms) child(t.monomial);
  if (n.kind == Kind::Index) n.size = n.depth = 1;
  if (n.kind == Kind::Index) n.uses_dim = false;
  if (n.depth > kMaxDepth)
    fail<Error>("[Expression] nested deeper than {} operations; substitute sizes for named dims earlier",
                kMaxDepth);
  n.range = range_of(n);
  n.divisor = divisor_of(n);
}

// Open addressing; nodes are never freed, so a handle is a plain pointer for the life of the process.
class Shard {
 public:
  const Node* find_or_add(Node&& node) {
    const std::lock_guard lock(mutex_);
    if (count_ * 2 >= slots_.size()) grow();
    size_t at = slot_of(node.hash, slots_.size());
    for (; slots_[at].node != nullptr; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].hash == node.hash && same_content(*slots_[at].node, node)) return slots_[at].node;
    derive(node);
    ++count_;
    slots_[at] = {node.hash, new Node(std::move(node))};
    return slots_[at].node;
  }
  void hold_while_forking() { luminal::hold_while_forking(mutex_); }

 private:
  struct Slot {
    uint64_t hash = 0;  // beside the pointer: a probe touches no other node
    const Node* node = nullptr;
  };
  static size_t slot_of(uint64_t hash, size_t size) { return static_cast<size_t>(hash >> 8) & (size - 1); }
  void grow() {
    std::vector<Slot> bigger(std::max<size_t>(64, slots_.size() * 2));
    for (const Slot& s : slots_) {
      if (s.node == nullptr) continue;
      size_t at = slot_of(s.hash, bigger.size());
      while (bigger[at].node != nullptr) at = (at + 1) & (bigger.size() - 1);
      bigger[at] = s;
    }
    slots_ = std::move(bigger);
  }

  std::mutex mutex_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// All are held while forking, and the thread sanitizer follows at most 64 locks at once.
constexpr size_t kShards = 32;

Shard& shard_of(uint64_t hash) {
  static auto* const shards = [] {
    auto* made = new std::array<Shard, kShards>;  // outlives every static that holds an Expression
    for (Shard& shard : *made) shard.hold_while_forking();
    return made;
  }();
  return (*shards)[hash % kShards];
}

template <class T>
int sign_of(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

}  // namespace

Expression intern(Node&& node) {
  if (node.args.size() > kMaxParts || node.terms.size() > kMaxParts)
    fail<Error>("[Expression] a formula of more than {} terms; use fewer named dims", kMaxParts);
  node.hash = content_hash(node);
  return Node::wrap(shard_of(node.hash).find_or_add(std::move(node)));
}

Expression raw(Kind kind, std::vector<Expression> args) {
  Node n;
  n.kind = kind;
  n.args = std::move(args);
  return intern(std::move(n));
}

Expression constant(int64_t value) {
  constexpr int64_t kLow = -64, kHigh = 1024;
  const auto make = [](int64_t v) {
    Node n;
    n.value = v;
    return intern(std::move(n));
  };
  // Addresses only: an Expression's default constructor comes here.
  static const auto* const small = [&make] {
    auto* table = new std::vector<const Node*>;
    for (int64_t v = kLow; v <= kHigh; ++v) table->push_back(&make(v).node());
    return table;
  }();
  if (value >= kLow && value <= kHigh) return Node::wrap((*small)[static_cast<size_t>(value - kLow)]);
  return make(value);
}

/// Made before main(): a process that is forked while another thread makes a static would wait for it for
/// ever.
[[maybe_unused]] static const Expression kFirst = constant(0);

int compare(const Expression& a, const Expression& b) {
  if (a == b) return 0;
  const Node &x = a.node(), &y = b.node();
  // A product sorts by its factors, so "2*s*t + s" and "s" find each other's neighbourhood.
  if (x.kind != y.kind) return sign_of(x.kind, y.kind);
  if (const int c = x.name.compare(y.name)) return c;
  if (x.args.size() != y.args.size()) return sign_of(x.args.size(), y.args.size());
  if (x.kind == Kind::Index && x.value != y.value) return sign_of(x.value, y.value);
  // Children are interned: the first pair that is not the same node differs in content.
  for (size_t i = 0; i < x.args.size(); ++i)
    if (const int c = compare(x.args[i], y.args[i])) return c;
  if (x.terms.size() != y.terms.size()) return sign_of(x.terms.size(), y.terms.size());
  for (size_t i = 0; i < x.terms.size(); ++i) {
    if (const int c = compare(x.terms[i].monomial, y.terms[i].monomial)) return c;
    if (const int c = sign_of(x.terms[i].coefficient, y.terms[i].coefficient)) return c;
  }
  if (const int c = sign_of(x.value, y.value)) return c;
  if (const int c = sign_of(x.facts.min, y.facts.min)) return c;
  if (const int c = sign_of(x.facts.max, y.facts.max)) return c;
  return sign_of(x.facts.multiple_of, y.facts.multiple_of);
}

}  // namespace luminal::symbolic
