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

void append_csv_field(GrowingText& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos && !text.empty()) return out.add(text);
  out.add('"');
  for (size_t begin = 0; begin < text.size();) {
    const size_t quote = std::min(text.find('"', begin), text.size());
    out.add(text.substr(begin, quote - begin));
    if (quote < text.size()) out.add("\"\"");
    begin = quote + 1;
  }
  out.add('"');
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
bool Interpreter::emit_relation(ExprId expr) {
  const ExprNode node = (*exprs_)[expr];
  const FunctionInfo* info = node.kind == ExprNode::Kind::Call ? scope_.find_function(node.name) : nullptr;
  if (!info || info->kind != FunctionKind::Relation) return false;
  evaluate(expr);
  std::vector<Evaluated> values;
  const std::vector<ExprId> args(exprs_->args_of(expr).begin(), exprs_->args_of(expr).end());
  for (const ExprId arg : args) values.push_back(evaluate(arg));
  TermExtractor terms = extractor(info->inputs);
  std::vector<TermTexts::Id> children;
  for (const Evaluated& value : values)
    children.push_back(terms.best(value.sort, graph_.canonical(value.sort->id, value.value))
                           .value_or(terms.texts().word(kNoTerm)));
  GrowingText out(graph_.state());
  terms.texts().append(out, terms.texts().call(node.name.text(), std::move(children)));
  out.add('\n');
  emit(out.take());
  return true;
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

void Interpreter::append_best(GrowingText& out, TermExtractor& terms, const Wanted& wanted) {
  const Value value = representative(wanted.what);
  const std::optional<TermTexts::Id> term = terms.best(wanted.what.sort, value);
  if (!term)
    command_failed(wanted.span,
                   "cannot extract '{}': its class has no extractable term (rows may be subsumed, deleted or "
                   "unextractable)",
                   to_text(*exprs_, wanted.expr));
  terms.texts().append(out, *term);
}

void Interpreter::append_variants(GrowingText& out, TermExtractor& terms, const Wanted& wanted, int64_t count,
                                  std::string_view indent) {
  const std::string before(indent);
  out.add(before + "(\n");
  if (!wanted.what.sort->is_eq()) {
    out.add(before + "   ");
    append_best(out, terms, wanted);
    out.add('\n');
  } else {
    const Value value = representative(wanted.what);
    for (const TermTexts::Id term : terms.variants(wanted.what.sort, value, static_cast<size_t>(count))) {
      out.add(before + "   ");
      terms.texts().append(out, term);
      out.add('\n');
    }
  }
  out.add(before + ")\n");
}

void Interpreter::extract(const Command& c) {
  const ExprId expr = c.exprs[0];
  if (emit_relation(expr)) return;
  const Evaluated what = evaluate(expr);
  const int64_t count = c.exprs.size() > 1 ? evaluate_count(c.exprs[1]) : 0;
  TermExtractor terms = extractor({&what.sort, 1});
  GrowingText out(graph_.state());
  if (count == 0) {
    append_best(out, terms, {what, expr, c.span});
    out.add('\n');
  } else {
    append_variants(out, terms, {what, expr, c.span}, count, "");
  }
  emit(out.take());
}

void Interpreter::multi_extract(const Command& c) {
  const int64_t count = evaluate_count(c.exprs[0]);
  std::vector<Evaluated> values;
  for (size_t i = 1; i < c.exprs.size(); ++i) values.push_back(evaluate(c.exprs[i]));
  std::map<const SortInfo*, std::unique_ptr<TermExtractor>> terms;  // costs are settled once for each sort
  GrowingText out(graph_.state());
  out.add("(\n");
  for (size_t i = 0; i < values.size(); ++i) {
    std::unique_ptr<TermExtractor>& of_sort = terms[values[i].sort];
    if (!of_sort) of_sort.reset(new TermExtractor(extractor({&values[i].sort, 1})));
    append_variants(out, *of_sort, {values[i], c.exprs[i + 1], c.span}, count, "   ");
  }
  out.add(")\n");
  emit(out.take());
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

void Interpreter::append_row(GrowingText& out, TermExtractor& terms, const FunctionInfo& info,
                             std::span<const Value> args, Value output, bool csv) {
  const auto term = [&](const SortInfo* sort, Value value) {
    return terms.best(sort, value).value_or(terms.texts().word(kNoTerm));
  };
  const auto append_cell = [&](TermTexts::Id cell) {
    GrowingText text(graph_.state());
    terms.texts().append(text, cell);
    out.add(',');
    append_csv_field(out, text.text());
  };
  std::vector<TermTexts::Id> children;
  for (size_t i = 0; i < args.size(); ++i) children.push_back(term(info.inputs[i], args[i]));
  const bool has_output = info.output != library_.unit;
  const TermTexts::Id row = terms.texts().call(info.name.text(), children);
  // As a term, the row of a relation is the row itself.
  const TermTexts::Id result =
      !has_output || info.kind == FunctionKind::Relation ? row : term(info.output, output);
  if (csv) {
    append_csv_field(out, info.name.text());
    for (const TermTexts::Id child : children) append_cell(child);
    if (has_output) append_cell(result);
  } else {
    out.add("   ");
    terms.texts().append(out, row);
    if (has_output) out.add(" -> ");
    if (has_output) terms.texts().append(out, result);
  }
  out.add('\n');
}

void Interpreter::print_function(const Command& c) {
  const FunctionInfo* info = scope_.find_function(c.name);
  if (!info)
    command_failed(c.span, "unknown function '{}'{}", c.name.text(), scope_.suggest_callable(c.name));
  std::vector<const SortInfo*> roots = info->inputs;
  roots.push_back(info->output);
  TermExtractor terms = extractor(roots);
  GrowingText out(graph_.state());
  if (!c.csv) out.add("(\n");
  int64_t left = c.count;
  graph_.for_each_row(info->id, [&](std::span<const Value> args, Value output, bool) {
    if (left == 0) return false;
    if (left > 0) --left;
    append_row(out, terms, *info, args, output, c.csv);
    return true;
  });
  if (!c.csv) out.add(")\n");
  if (c.file.empty()) return emit(out.take());
  write_file_atomic(c.file, out.text());
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
