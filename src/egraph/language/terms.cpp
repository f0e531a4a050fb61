#include "egraph/language/terms.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace luminal::egraph::language {
namespace {

using Presort = SortInfo::Presort;

// Integers before floats before strings before booleans before the unit value.
int kind_order(const Literal& literal) {
  constexpr int kOrder[] = {4, 0, 1, 2, 3};
  return kOrder[literal.index()];
}

int compare_literals(const Literal& a, const Literal& b) {
  if (const int order = three_way(kind_order(a), kind_order(b))) return order;
  if (const auto* x = std::get_if<double>(&a)) {
    const double y = std::get<double>(b);
    if (std::isnan(*x) || std::isnan(y)) return three_way(std::isnan(*x), std::isnan(y));
    return three_way(*x, y);
  }
  if (const auto* x = std::get_if<int64_t>(&a)) return three_way(*x, std::get<int64_t>(b));
  if (const auto* x = std::get_if<std::string>(&a)) return three_way(*x, std::get<std::string>(b));
  if (const auto* x = std::get_if<bool>(&a)) return three_way(*x, std::get<bool>(b));
  return 0;
}

}  // namespace

TermTexts::Id TermTexts::add(Node node, std::string key) {
  constexpr size_t kEntry = 160;  // of the table here and of the extractor's, beside the node
  const size_t bytes =
      sizeof node + kEntry + node.name.size() + node.children.size() * sizeof(Id) + key.size();
  const auto [found, fresh] = ids_.try_emplace(std::move(key), static_cast<Id>(nodes_.size()));
  if (!fresh) return found->second;
  nodes_.push_back(std::move(node));
  counted_ += bytes;
  state_.text_bytes += bytes;
  state_.poll();
  return found->second;
}

TermTexts::Id TermTexts::literal(Literal value) {
  std::string key = "l" + to_text(value);
  if (std::holds_alternative<double>(value)) key += "f";  // 1e30 and the integer of the same digits differ
  Node node;
  node.kind = Node::Kind::Constant;
  node.value = std::move(value);
  return add(std::move(node), std::move(key));
}

TermTexts::Id TermTexts::word(std::string_view text) {
  Node node;
  node.name = text;
  return add(std::move(node), "w" + std::string(text));
}

TermTexts::Id TermTexts::call(std::string_view head, std::vector<Id> children) {
  std::string key = "c" + std::string(head) + '\0';
  key.append(reinterpret_cast<const char*>(children.data()), children.size() * sizeof(Id));
  Node node;
  node.kind = Node::Kind::Call;
  node.name = head;
  node.children = std::move(children);
  return add(std::move(node), std::move(key));
}

std::string_view TermTexts::head(Id id) const {
  return nodes_[id].kind == Node::Kind::Call ? std::string_view(nodes_[id].name) : std::string_view();
}

int TermTexts::compare(Id left, Id right) const {
  std::vector<std::pair<Id, Id>> todo{{left, right}};
  while (!todo.empty()) {
    const auto [l, r] = todo.back();
    todo.pop_back();
    if (l == r) continue;
    const Node &a = nodes_[l], &b = nodes_[r];
    if (const int order = three_way(a.kind, b.kind)) return order;
    if (a.kind == Node::Kind::Constant) {
      if (const int order = compare_literals(a.value, b.value)) return order;
      continue;
    }
    if (const int order = three_way(a.name, b.name)) return order;
    if (const int order = three_way(a.children.size(), b.children.size())) return order;
    for (size_t i = a.children.size(); i-- > 0;) todo.emplace_back(a.children[i], b.children[i]);
  }
  return 0;
}

void TermTexts::append(GrowingText& out, Id id) const {
  // A shared subterm is written once and then copied from where it stands in the text.
  struct Step {
    Id id;
    bool space = false;
    size_t begin = std::string::npos;  // of a call whose children are written
  };
  std::unordered_map<Id, std::pair<size_t, size_t>> written;
  std::vector<Step> todo{{id}};
  while (!todo.empty()) {
    Step step = todo.back();
    todo.pop_back();
    if (step.space) out.add(' ');
    if (const auto found = written.find(step.id); found != written.end()) {
      out.repeat(found->second.first, found->second.second);
      continue;
    }
    const Node& node = nodes_[step.id];
    if (node.kind == Node::Kind::Call && step.begin == std::string::npos) {
      todo.push_back({step.id, false, out.size()});
      out.add('(' + node.name);
      for (size_t i = node.children.size(); i-- > 0;) todo.push_back({node.children[i], true});
      continue;
    }
    if (node.kind == Node::Kind::Call) {
      out.add(')');
    } else {
      step.begin = out.size();
      out.add(node.kind == Node::Kind::Constant ? to_text(node.value) : node.name);
    }
    written.emplace(step.id, std::pair{step.begin, out.size() - step.begin});
  }
}

TermTexts::Id TermWriter::big(const BigInt& x) {
  graph_.state().require_memory(bit_count(x) / 2, decimal_seconds(bit_count(x)));
  return texts_.call("from-string", {texts_.literal(x.str())});
}

TermTexts::Id TermWriter::leaf(const SortInfo* sort, Value value) {
  if (sort == library_.i64) return texts_.literal(graph_.as_i64(value));
  if (sort == library_.f64) return texts_.literal(graph_.as_f64(value));
  if (sort == library_.string) return texts_.literal(std::string(graph_.as_string(value)));
  if (sort == library_.boolean) return texts_.literal(EGraph::as_bool(value));
  if (sort == library_.unit) return texts_.literal(std::monostate{});
  if (sort == library_.big_int_sort) return big(library_.big_int(value));
  if (sort == library_.big_rat_sort) {
    const BigRat& x = library_.big_rat(value);
    const TermTexts::Id top = big(x.numerator);
    return texts_.call("bigrat", {top, big(x.denominator)});
  }
  if (sort == library_.rational_sort) {
    const Rational& x = library_.rational(value);
    const TermTexts::Id top = texts_.literal(x.numerator);
    return texts_.call("rational", {top, texts_.literal(x.denominator)});
  }
  return texts_.word("Unextractable");
}

TermTexts::Id TermWriter::multiset(Library::Args sequence, std::span<const TermTexts::Id> elements) {
  std::vector<std::pair<TermTexts::Id, int64_t>> counts;
  for (size_t i = 0; i < elements.size(); ++i)
    counts.emplace_back(elements[i], graph_.as_i64(sequence[2 * i + 1]));
  std::sort(counts.begin(), counts.end(),
            [&](const auto& a, const auto& b) { return texts_.compare(a.first, b.first) < 0; });
  std::vector<TermTexts::Id> listed, parts;
  for (const auto& [element, count] : counts) {
    if (count > kMostRepeats) {
      const TermTexts::Id times = texts_.literal(count);
      parts.push_back(texts_.call("multiset-single", {element, times}));
    } else {
      listed.insert(listed.end(), static_cast<size_t>(count), element);
    }
  }
  if (!listed.empty() || parts.empty()) parts.insert(parts.begin(), texts_.call("multiset-of", listed));
  TermTexts::Id sum = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) sum = texts_.call("multiset-sum", {sum, parts[i]});
  return sum;
}

// Unordered containers are written in the order of their elements' terms, which ids don't change.
TermTexts::Id TermWriter::container(const SortInfo* sort, Value value, std::vector<TermTexts::Id> children) {
  const auto before = [&](TermTexts::Id a, TermTexts::Id b) { return texts_.compare(a, b) < 0; };
  switch (sort->presort) {
    case Presort::Vec: {
      const bool is_empty = children.empty();
      return texts_.call(is_empty ? "vec-empty" : "vec-of", std::move(children));
    }
    case Presort::Pair:
      return texts_.call("pair", std::move(children));
    case Presort::Set:
      std::sort(children.begin(), children.end(), before);
      children.erase(std::unique(children.begin(), children.end()), children.end());
      return texts_.call("set-of", std::move(children));
    case Presort::MultiSet:
      return multiset(sort->store->at(value), children);
    case Presort::Map: {
      std::vector<std::pair<TermTexts::Id, TermTexts::Id>> pairs;
      for (size_t i = 0; i + 1 < children.size(); i += 2) pairs.emplace_back(children[i], children[i + 1]);
      std::sort(pairs.begin(), pairs.end(), [&](auto& a, auto& b) { return before(a.first, b.first); });
      children.clear();
      for (const auto& [key, item] : pairs) children.insert(children.end(), {key, item});
      return texts_.call("map-of", std::move(children));
    }
    case Presort::Function: {
      const std::string& name = library_.target_info(sort->store->at(value)[0]).name;
      children.insert(children.begin(), texts_.literal(name));
      return texts_.call("unstable-fn", std::move(children));
    }
    case Presort::None:
      break;
  }
  return texts_.word("Unextractable");
}

}  // namespace luminal::egraph::language
