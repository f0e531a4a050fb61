#include "egraph/language/ast.h"

#include <algorithm>

namespace luminal::egraph::language {

ExprId ExprPool::add_variable(Symbol name, const Span& span) {
  const auto id = static_cast<ExprId>(nodes.size());
  nodes.push_back({.kind = ExprNode::Kind::Variable, .first = id, .name = name, .span = span});
  return id;
}

namespace {

/// A node without arguments whose content is the next of `items`.
template <class Item>
ExprId add_leaf(std::vector<ExprNode>& nodes, ExprNode::Kind kind, std::vector<Item>& items, Item item,
                const Span& span) {
  const auto id = static_cast<ExprId>(nodes.size());
  nodes.push_back(
      {.kind = kind, .first = id, .literal = static_cast<uint32_t>(items.size()), .name = {}, .span = span});
  items.push_back(std::move(item));
  return id;
}

}  // namespace

ExprId ExprPool::add_literal(Literal literal, const Span& span) {
  return add_leaf(nodes, ExprNode::Kind::Constant, literals, std::move(literal), span);
}

ExprId ExprPool::add_fresh(FreshSyntax syntax, const Span& span) {
  return add_leaf(nodes, ExprNode::Kind::Fresh, fresh, std::move(syntax), span);
}

ExprId ExprPool::add_call(Symbol name, std::span<const ExprId> arguments, ExprId first, const Span& span) {
  const auto id = static_cast<ExprId>(nodes.size());
  nodes.push_back({.kind = ExprNode::Kind::Call,
                   .first = first,
                   .args = static_cast<uint32_t>(args.size()),
                   .arg_count = static_cast<uint32_t>(arguments.size()),
                   .name = name,
                   .span = span});
  args.insert(args.end(), arguments.begin(), arguments.end());
  return id;
}

namespace {

std::string joined(const ExprPool& exprs, std::span<const ExprId> items) {
  std::string text;
  for (const ExprId item : items) text += (text.empty() ? "" : " ") + to_text(exprs, item);
  return text;
}

std::string call_text(const ExprPool& exprs, Symbol name, std::span<const ExprId> args) {
  return args.empty() ? "(" + name.text() + ")" : "(" + name.text() + " " + joined(exprs, args) + ")";
}

std::string joined(const ExprPool& exprs, std::span<const Fact> facts, std::string_view separator) {
  std::string text;
  for (const Fact& fact : facts) text += (text.empty() ? "" : std::string(separator)) + to_text(exprs, fact);
  return text;
}

}  // namespace

std::string to_text(const ExprPool& exprs, ExprId expr) {
  // Work list of nodes to write; the marker closes the list of the call above it.
  constexpr ExprId kClose = UINT32_MAX;
  std::string text;
  std::vector<ExprId> todo{expr};
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    if (id == kClose) {
      text += ')';
      continue;
    }
    if (!text.empty() && text.back() != '(') text += ' ';
    const ExprNode& node = exprs[id];
    if (node.kind == ExprNode::Kind::Constant) {
      text += to_text(exprs.literal_of(id));
    } else if (node.kind == ExprNode::Kind::Variable) {
      text += node.name.text();
    } else if (node.kind == ExprNode::Kind::Fresh) {
      text += node.span.text();
    } else {
      text += '(' + node.name.text();
      todo.push_back(kClose);
      const auto args = exprs.args_of(id);
      todo.insert(todo.end(), args.rbegin(), args.rend());
    }
  }
  return text;
}

std::string to_text(const ExprPool& exprs, const Fact& fact) {
  if (!fact.is_equality) return to_text(exprs, fact.left);
  return "(= " + to_text(exprs, fact.left) + " " + to_text(exprs, fact.right) + ")";
}

std::string to_text(const ExprPool& exprs, const ActionSyntax& action) {
  using Kind = ActionSyntax::Kind;
  switch (action.kind) {
    case Kind::Let:
      return "(let " + action.name.text() + " " + to_text(exprs, action.value) + ")";
    case Kind::Set:
      return "(set " + call_text(exprs, action.name, action.args) + " " + to_text(exprs, action.value) + ")";
    case Kind::SetCost:
      return "(set-cost " + call_text(exprs, action.name, action.args) + " " + to_text(exprs, action.value) +
             ")";
    case Kind::Delete:
      return "(delete " + call_text(exprs, action.name, action.args) + ")";
    case Kind::Subsume:
      return "(subsume " + call_text(exprs, action.name, action.args) + ")";
    case Kind::Union:
      return "(union " + to_text(exprs, action.value) + " " + to_text(exprs, action.right) + ")";
    case Kind::Panic:
      return "(panic " + to_text(Literal(action.message)) + ")";
    case Kind::Expr:
      return to_text(exprs, action.value);
  }
  return {};
}

std::string to_text(const ExprPool& exprs, const RuleSyntax& rule) {
  std::string text = "(rule (" + joined(exprs, rule.body, "\n       ") + ")\n      (";
  for (size_t i = 0; i < rule.head.size(); ++i)
    text += (i == 0 ? "" : "\n       ") + to_text(exprs, rule.head[i]);
  text += ")\n        ";
  if (rule.ruleset) text += ":ruleset " + rule.ruleset.text();
  text += ' ';
  if (!rule.name.empty()) text += ":name \"" + rule.name + "\"";
  if (rule.mode == EvalMode::Naive) text += " :naive";
  if (rule.mode == EvalMode::UnsafeSeminaive) text += " :unsafe-seminaive";
  return text + ")";
}

std::string to_text(const ExprPool& exprs, const RewriteSyntax& rewrite) {
  std::string text = rewrite.both_ways ? "(birewrite " : "(rewrite ";
  text += to_text(exprs, rewrite.left) + " " + to_text(exprs, rewrite.right);
  if (rewrite.subsume) text += " :subsume";
  if (!rewrite.conditions.empty()) text += " :when (" + joined(exprs, rewrite.conditions, " ") + ")";
  if (rewrite.ruleset) text += " :ruleset " + rewrite.ruleset.text();
  return text + ")";
}

}  // namespace luminal::egraph::language
