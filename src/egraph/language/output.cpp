// Commands that print: extraction, tables, sizes, statistics.
#include <algorithm>
#include <map>
#include <memory>

#include "base/file.h"
#include "egraph/language/extraction.h"
#include "egraph/language/interpreter.h"

namespace luminal::egraph::language {
namespace {

constexpr std::string_view kNoTerm = "Unextractable";

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos && !text.empty()) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string indented(std::span<const std::string> lines, std::string_view indent) {
  std::string out(indent);
  out += "(\n";
  for (const std::string& line : lines) out += std::string(indent) + "   " + line + "\n";
  return out + std::string(indent) + ")\n";
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

int64_t Interpreter::evaluate_count(ExprId expr) {
  const int64_t count = graph_.as_i64(evaluate(expr, library_.i64).value);
  if (count < 0) command_failed((*exprs_)[expr].span, "cannot extract a negative number of variants");
  return count;
}

TermExtractor Interpreter::extractor(std::span<const SortInfo* const> roots) const {
  return {graph_, library_, scope_, roots};
}

// Rows of relations have no e-class to extract from: the row itself is the only term there is.
std::optional<std::string> Interpreter::relation_text(ExprId expr) {
  const ExprNode node = (*exprs_)[expr];
  const FunctionInfo* info = node.kind == ExprNode::Kind::Call ? scope_.find_function(node.name) : nullptr;
  if (!info || info->kind != FunctionKind::Relation) return {};
  evaluate(expr);
  std::vector<Evaluated> values;
  const std::vector<ExprId> args(exprs_->args_of(expr).begin(), exprs_->args_of(expr).end());
  for (const ExprId arg : args) values.push_back(evaluate(arg));
  TermExtractor terms = extractor(info->inputs);
  std::vector<TermTexts::Id> children;
  for (const Evaluated& value : values)
    children.push_back(terms.best(value.sort, graph_.canonical(value.sort->id, value.value))
                           .value_or(terms.texts().word(kNoTerm)));
  return terms.texts().text(terms.texts().call(node.name.text(), std::move(children)));
}

// The class to extract from: the value's own, or the one that the table of its sort leads to.
Value Interpreter::representative(const Evaluated& what) const {
  const Value value = graph_.canonical(what.sort->id, what.value);
  const FunctionInfo* table = what.sort->union_table ? scope_.find_function(what.sort->union_table) : nullptr;
  if (!table || table->inputs != std::vector{what.sort, what.sort}) return value;
  Value found = value;
  graph_.for_each_row(table->id, [&](std::span<const Value> args, Value, bool) {
    if (args[0] == value) found = args[1];
    return args[0] != value;
  });
  return found;
}

std::string Interpreter::best_text(TermExtractor& terms, const Evaluated& what, ExprId expr,
                                   const Span& span) {
  const Value value = representative(what);
  const std::optional<TermTexts::Id> term = terms.best(what.sort, value);
  if (!term)
    command_failed(span,
                   "cannot extract '{}': its class has no extractable term (rows may be subsumed, deleted or "
                   "unextractable)",
                   to_text(*exprs_, expr));
  return terms.texts().text(*term);
}

std::vector<std::string> Interpreter::variants(TermExtractor& terms, const Evaluated& what, int64_t count,
                                               ExprId expr, const Span& span) {
  if (!what.sort->is_eq()) return {best_text(terms, what, expr, span)};
  const Value value = representative(what);
  std::vector<std::string> out;
  for (const TermTexts::Id term : terms.variants(what.sort, value, static_cast<size_t>(count)))
    out.push_back(terms.texts().text(term));
  return out;
}

void Interpreter::extract(const Command& c) {
  const ExprId expr = c.exprs[0];
  if (const std::optional<std::string> row = relation_text(expr)) return emit(*row + "\n");
  const Evaluated what = evaluate(expr);
  const int64_t count = c.exprs.size() > 1 ? evaluate_count(c.exprs[1]) : 0;
  TermExtractor terms = extractor({&what.sort, 1});
  if (count == 0) return emit(best_text(terms, what, expr, c.span) + "\n");
  emit(indented(variants(terms, what, count, expr, c.span), ""));
}

void Interpreter::multi_extract(const Command& c) {
  const int64_t count = evaluate_count(c.exprs[0]);
  std::vector<Evaluated> values;
  for (size_t i = 1; i < c.exprs.size(); ++i) values.push_back(evaluate(c.exprs[i]));
  std::map<const SortInfo*, std::unique_ptr<TermExtractor>> terms;  // costs are settled once for each sort
  std::string out = "(\n";
  for (size_t i = 0; i < values.size(); ++i) {
    std::unique_ptr<TermExtractor>& of_sort = terms[values[i].sort];
    if (!of_sort) of_sort.reset(new TermExtractor(extractor({&values[i].sort, 1})));
    out += indented(variants(*of_sort, values[i], count, c.exprs[i + 1], c.span), "   ");
  }
  emit(out + ")\n");
}

// Of each e-class only the cheapest row stays; named constructors, or those of named sorts, or all.
void Interpreter::keep_best(const Command& c) {
  std::vector<const FunctionInfo*> affected;
  const auto add_if = [&](auto&& condition) {
    for (const FunctionInfo* info : scope_.function_order)
      if (info->kind == FunctionKind::Constructor && condition(info)) affected.push_back(info);
  };
  if (c.names.empty()) add_if([](const FunctionInfo*) { return true; });
  for (const Symbol name : c.names) {
    if (const SortInfo* sort = scope_.find_sort(name))
      add_if([&](const FunctionInfo* info) { return info->output == sort; });
    else if (const FunctionInfo* function = scope_.find_function(name))
      add_if([&](const FunctionInfo* info) { return info == function; });
    else {
      const std::string near = scope_.suggest_sort(name);
      fail_at(c.span, "unknown sort or constructor '{}'{}", name.text(),
              near.empty() ? scope_.suggest_callable(name) : near);
    }
  }
  std::vector<std::pair<FunctionId, std::vector<Value>>> doomed;
  {
    const TermExtractor terms = extractor(scope_.sort_order);
    for (const FunctionInfo* info : affected)
      graph_.for_each_row(info->id, [&](std::span<const Value> args, Value output, bool) {
        if (terms.cost(info->output, output) && !terms.is_best(info, args, output))
          doomed.emplace_back(info->id, std::vector<Value>(args.begin(), args.end()));
        return true;
      });
  }
  for (const auto& [function, args] : doomed) graph_.remove(function, args);
}

const FunctionInfo* Interpreter::visible_function(Symbol name, const Span& span) const {
  const FunctionInfo* info = scope_.find_function(name);
  if (!info || info->is_global || info->hidden)
    command_failed(span, "unknown function '{}'{}", name.text(), scope_.suggest_callable(name));
  return info;
}

void Interpreter::print_function(const Command& c) {
  const FunctionInfo* info = scope_.find_function(c.name);
  if (!info)
    command_failed(c.span, "unknown function '{}'{}", c.name.text(), scope_.suggest_callable(c.name));
  std::vector<const SortInfo*> roots = info->inputs;
  roots.push_back(info->output);
  TermExtractor terms = extractor(roots);
  const auto term = [&](const SortInfo* sort, Value value) {
    return terms.best(sort, value).value_or(terms.texts().word(kNoTerm));
  };
  std::string out = c.csv ? "" : "(\n";
  int64_t left = c.count;
  graph_.for_each_row(info->id, [&](std::span<const Value> args, Value output, bool) {
    if (left == 0) return false;
    if (left > 0) --left;
    std::vector<TermTexts::Id> children;
    for (size_t i = 0; i < args.size(); ++i) children.push_back(term(info->inputs[i], args[i]));
    const bool has_output = info->output != library_.unit;
    TermTexts::Id row = terms.texts().call(info->name.text(), children);
    // As a term, the row of a relation is the row itself.
    const TermTexts::Id result =
        !has_output || info->kind == FunctionKind::Relation ? row : term(info->output, output);
    if (c.csv) {
      out += csv_field(info->name.text());
      for (const TermTexts::Id child : children) out += "," + csv_field(terms.texts().text(child));
      if (has_output) out += "," + csv_field(terms.texts().text(result));
      out += "\n";
    } else {
      out += "   " + terms.texts().text(row);
      if (has_output) out += " -> " + terms.texts().text(result);
      out += "\n";
    }
    return true;
  });
  if (!c.csv) out += ")\n";
  if (c.file.empty()) return emit(std::move(out));
  write_file_atomic(c.file, out);
}

void Interpreter::print_size(const Command& c) {
  if (c.name) {
    const uint64_t rows = graph_.row_count(visible_function(c.name, c.span)->id);
    return emit(std::to_string(rows) + "\n");
  }
  std::vector<std::pair<std::string, uint64_t>> sizes;
  for (const FunctionInfo* info : scope_.function_order)
    if (!info->is_global && !info->hidden) sizes.emplace_back(info->name.text(), graph_.row_count(info->id));
  std::sort(sizes.begin(), sizes.end());
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i)
    out += fmt::format("{}({} {})", i == 0 ? "" : "\n ", sizes[i].first, sizes[i].second);
  emit(out + ")\n");
}

void Interpreter::print_stats(const Command& c) {
  if (!c.file.empty()) return write_file_atomic(c.file, stats_json());
  std::vector<RuleReport> rules = report_.rules;
  std::sort(rules.begin(), rules.end(), [](const RuleReport& a, const RuleReport& b) {
    const double left = a.search_s + a.apply_s, right = b.search_s + b.apply_s;
    return left != right ? left < right : a.rule < b.rule;
  });
  std::string out = "Overall statistics:\n";
  for (const RuleReport& rule : rules) {
    const auto found = shown_rules_.find(static_cast<uint32_t>(rule.rule));
    std::string name = found == shown_rules_.end() ? rule.name : found->second;
    std::replace(name.begin(), name.end(), '\n', ' ');
    if (name.size() > 80) name = name.substr(0, 80) + "...";
    out += fmt::format("Rule {}: search and apply {:.3f}s, num matches {}\n", name,
                       rule.search_s + rule.apply_s, rule.matched);
  }
  for (const auto& [ruleset, time] : ruleset_times_)
    out += fmt::format("Ruleset {}: search {:.3f}s, merge 0.000s, rebuild {:.3f}s\n", ruleset, time.search_s,
                       time.rebuild_s);
  emit(std::move(out));
}

std::string Interpreter::stats_json() const {
  std::string rules, rulesets;
  for (const RuleReport& rule : report_.rules)
    rules += fmt::format(
        "{}{{\"rule\":{},\"runs\":{},\"searched\":{},\"matched\":{},\"applied\":{},\"search_s\":{},\"apply_"
        "s\":{}}}",
        rules.empty() ? "" : ",", json_text(rule.name), rule.runs, rule.searched, rule.matched, rule.applied,
        rule.search_s, rule.apply_s);
  for (const auto& [ruleset, time] : ruleset_times_)
    rulesets += fmt::format("{}{{\"ruleset\":{},\"search_s\":{},\"rebuild_s\":{}}}",
                            rulesets.empty() ? "" : ",", json_text(ruleset), time.search_s, time.rebuild_s);
  return fmt::format(
      "{{\"iterations\":{},\"unions\":{},\"total_s\":{},\"rebuild_s\":{},\"plan_s\":{},\"rules\":[{}],"
      "\"rulesets\":[{}]}}\n",
      report_.iterations, report_.unions, report_.total_s, report_.rebuild_s, report_.plan_s, rules,
      rulesets);
}

}  // namespace luminal::egraph::language
