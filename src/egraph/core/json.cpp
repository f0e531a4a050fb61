#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/suggest.h"
#include "egraph/core/state.h"

namespace luminal::egraph {

namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::Constructor:
      return "constructor";
    case FunctionKind::Function:
      return "function";
    case FunctionKind::Relation:
      return "relation";
  }
  return "";
}

class JsonWriter {
 public:
  JsonWriter(const EGraph& graph, const RowFilter& keep) : graph_(graph), keep_(keep) {}

  /// Row by row: values of the whole e-graph as JSON would take several times the memory of its text.
  std::string write() {
    Json sorts = Json::array();
    for (const SortId sort : graph_.sorts())
      if (graph_.is_eq_sort(sort)) sorts.push_back(graph_.sort_name(sort));
    text_ = fmt::format("{{\n \"luminal-egraph\": 1,\n \"sorts\": {},\n \"functions\": [", sorts.dump());
    std::string_view before = "\n  ";
    for (const FunctionId f : graph_.functions_listed()) {
      text_ += before;
      before = ",\n  ";
      add_function(f);
    }
    text_ += "\n ]\n}\n";
    return std::move(text_);
  }

 private:
  void add_function(FunctionId f) {
    const FunctionSpec& spec = graph_.spec(f);
    Json head = {{"name", spec.name}, {"kind", kind_name(spec.kind)}, {"inputs", Json::array()}};
    for (const SortId sort : spec.inputs) head["inputs"].push_back(graph_.sort_name(sort));
    if (spec.kind != FunctionKind::Relation) head["output"] = graph_.sort_name(spec.output);
    if (spec.kind == FunctionKind::Constructor) head["cost"] = spec.cost;
    if (spec.unextractable) head["unextractable"] = true;
    text_ += head.dump();
    text_.back() = ',';  // instead of its end: the rows follow
    text_ += " \"rows\": [";
    std::string_view before = "\n   ";
    graph_.for_each_row(f, [&](std::span<const Value> args, Value output, bool subsumed) {
      if (keep_ && !keep_(f, args, output)) return true;
      text_ += before;
      before = ",\n   ";
      add_row(spec, args, output, subsumed);
      return true;
    });
    text_ += "]}";
  }

  // As text at once: where no memory is left, arrays of nlohmann's library cannot even be destroyed.
  void add_row(const FunctionSpec& spec, std::span<const Value> args, Value output, bool subsumed) {
    text_ += "{\"args\":[";
    for (size_t i = 0; i < args.size(); i++) {
      if (i > 0) text_ += ',';
      add_value(spec.inputs[i], args[i]);
    }
    text_ += ']';
    if (spec.kind != FunctionKind::Relation) {
      text_ += ",\"output\":";
      add_value(spec.output, output);
    }
    text_ += subsumed ? ",\"subsumed\":true}" : "}";
  }

  void add_value(SortId sort, Value v) {
    if (graph_.is_eq_sort(sort))
      text_ += std::to_string(ids_.try_emplace(graph_.find(v), ids_.size()).first->second);
    else if (sort == kUnit)
      text_ += "null";
    else if (sort == kBool)
      text_ += EGraph::as_bool(v) ? "true" : "false";
    else if (sort == kI64)
      text_ += std::to_string(graph_.as_i64(v));
    else if (sort == kString)
      add_string(std::string(graph_.as_string(v)));
    else if (sort == kF64)
      add_number(graph_.as_f64(v));
    else
      add_host_value(sort, v);
  }

  void add_string(std::string text) { text_ += Json(std::move(text)).dump(); }

  void add_number(double x) {
    if (std::isfinite(x))
      text_ += Json(x).dump();
    else
      text_ += std::isnan(x) ? "\"nan\"" : x > 0 ? "\"inf\"" : "\"-inf\"";
  }

  void add_host_value(SortId sort, Value v) {
    const ContainerSort& hooks = graph_.sort_hooks(sort);
    if (!graph_.is_container_sort(sort)) {
      if (!hooks.print) fail("[json] sort {} cannot be written: it has no print", hooks.name);
      text_ += "{\"text\":";
      add_string(hooks.print(v, {}));
      text_ += '}';
      return;
    }
    text_ += "{\"elements\":[";
    std::string_view before;
    hooks.elements(v, [&](SortId s, Value x) {
      text_ += before;
      before = ",";
      text_ += "{\"sort\":";
      add_string(std::string(graph_.sort_name(s)));
      text_ += ",\"value\":";
      add_value(s, x);
      text_ += '}';
    });
    text_ += "]}";
  }

  const EGraph& graph_;
  const RowFilter& keep_;
  std::string text_;
  std::unordered_map<Value, size_t> ids_;
};

/// Trusts nothing: every access names where it is.
class JsonReader {
 public:
  explicit JsonReader(EGraph& graph) : graph_(graph) {}

  void read(const Json& file) {
    if (!file.is_object() || !file.contains("luminal-egraph") || file["luminal-egraph"] != 1)
      fail<FormatError>("[json] this is not an e-graph: the member \"luminal-egraph\": 1 is missing");
    for (const Json& name : array(file, "sorts", "the file")) {
      if (!name.is_string())
        fail<FormatError>("[json] \"sorts\" holds {}, but names are expected", name.dump());
      const auto known = graph_.find_sort(name.get<std::string>());
      if (!known) graph_.eq_sort(name.get<std::string>());
    }
    size_t number = 0;
    for (const Json& function : array(file, "functions", "the file")) {
      where_ = fmt::format("function {}", number++);
      read_function(function);
    }
    graph_.rebuild();
  }

 private:
  static const Json& member(const Json& object, const char* name, std::string_view where) {
    if (!object.is_object() || !object.contains(name))
      fail<FormatError>("[json] {} has no member \"{}\"", where, name);
    return object[name];
  }
  static const Json& array(const Json& object, const char* name, std::string_view where) {
    const Json& out = member(object, name, where);
    if (!out.is_array()) fail<FormatError>("[json] \"{}\" of {} must be an array", name, where);
    return out;
  }
  std::string text(const Json& object, const char* name) const {
    const Json& out = member(object, name, where_);
    if (!out.is_string()) fail<FormatError>("[json] \"{}\" of {} must be a string", name, where_);
    return out.get<std::string>();
  }
  [[nodiscard]] SortId sort(const Json& name) const {
    if (!name.is_string())
      fail<FormatError>("[json] {}: expected the name of a sort, not {}", where_, name.dump());
    const auto found = graph_.find_sort(name.get<std::string>());
    if (found) return *found;
    std::vector<std::string> names;
    for (const SortId s : graph_.sorts()) names.push_back(graph_.sort_name(s));
    fail<FormatError>("[json] {}: unknown sort '{}'{}", where_, name.get<std::string>(),
                      did_you_mean(name.get<std::string>(), names));
  }

  void read_function(const Json& json) {
    const std::string name = text(json, "name"), kind = text(json, "kind");
    where_ = fmt::format("function {}", name);
    FunctionSpec spec;
    spec.name = name;
    for (const Json& input : array(json, "inputs", where_)) spec.inputs.push_back(sort(input));
    if (kind == "relation")
      spec.kind = FunctionKind::Relation;
    else
      spec.output = sort(member(json, "output", where_));
    if (kind == "function") spec.kind = FunctionKind::Function;
    if (kind != "constructor" && kind != "function" && kind != "relation")
      fail<FormatError>("[json] {}: \"kind\" is \"{}\"; choose constructor, function or relation", where_,
                        kind);
    if (json.contains("cost")) {
      if (!json["cost"].is_number()) fail<FormatError>("[json] \"cost\" of {} must be a number", where_);
      spec.cost = json["cost"].get<double>();
    }
    if (json.contains("unextractable")) spec.unextractable = json["unextractable"] == true;
    const FunctionId f = declared(spec);
    size_t number = 0;
    for (const Json& row : array(json, "rows", where_)) {
      where_ = fmt::format("row {} of {}", number++, name);
      read_row(f, row);
    }
  }

  FunctionId declared(const FunctionSpec& spec) {
    const auto known = graph_.find_function(spec.name);
    if (!known) {
      if (spec.kind == FunctionKind::Function)
        fail<FormatError>(
            "[json] {} must be declared before its rows are read: how it merges is not in the text", where_);
      return graph_.function(spec);
    }
    const FunctionSpec& present = graph_.spec(*known);
    const bool relation = spec.kind == FunctionKind::Relation;
    if (present.kind != spec.kind || present.inputs != spec.inputs ||
        (!relation && present.output != spec.output))
      fail<FormatError>("[json] {} is already declared, and differently", where_);
    return *known;
  }

  void read_row(FunctionId f, const Json& row) {
    const FunctionSpec& spec = graph_.spec(f);
    const Json& json_args = array(row, "args", where_);
    if (json_args.size() != spec.inputs.size())
      fail<FormatError>("[json] {}: {} arguments, but {} takes {}", where_, json_args.size(), spec.name,
                        spec.inputs.size());
    std::vector<Value> args;
    for (size_t i = 0; i < json_args.size(); i++) args.push_back(value(spec.inputs[i], json_args[i]));
    if (spec.kind == FunctionKind::Relation)
      graph_.add(f, args);
    else
      graph_.set(f, args, value(spec.output, member(row, "output", where_)));
    if (row.contains("subsumed") && row["subsumed"] == true) graph_.subsume(f, args);
  }

  Value value(SortId sort, const Json& json) {
    const auto wrong = [&]() -> Value {
      fail<FormatError>("[json] {}: {} is not a value of sort {}", where_, json.dump(),
                        graph_.sort_name(sort));
    };
    if (graph_.is_eq_sort(sort)) {
      if (!json.is_number_unsigned()) return wrong();
      const auto [id, fresh] = ids_.try_emplace(json.get<uint64_t>(), 0);
      if (fresh) id->second = graph_.fresh_id();
      return id->second;
    }
    if (sort == kUnit) return json.is_null() ? kUnitValue : wrong();
    if (sort == kBool) return json.is_boolean() ? EGraph::boolean(json.get<bool>()) : wrong();
    if (sort == kI64) {
      const bool fits = !json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t{INT64_MAX};
      return json.is_number_integer() && fits ? graph_.i64(json.get<int64_t>()) : wrong();
    }
    if (sort == kString) return json.is_string() ? graph_.string(json.get<std::string>()) : wrong();
    if (sort == kF64) {
      if (json == "nan") return graph_.f64(std::nan(""));
      if (json == "inf" || json == "-inf") return graph_.f64(json == "inf" ? HUGE_VAL : -HUGE_VAL);
      return json.is_number() ? graph_.f64(json.get<double>()) : wrong();
    }
    const ContainerSort& hooks = graph_.sort_hooks(sort);
    std::optional<Value> made;
    if (!graph_.is_container_sort(sort)) {
      const Json& content = member(json, "text", where_);
      if (hooks.parse && content.is_string()) made = hooks.parse(content.get<std::string>());
    } else {
      std::vector<Value> elements;
      for (const Json& element : array(json, "elements", where_))
        elements.push_back(
            value(this->sort(member(element, "sort", where_)), member(element, "value", where_)));
      if (hooks.make) made = hooks.make(elements);
    }
    return made ? *made : wrong();
  }

  EGraph& graph_;
  std::string where_;
  std::unordered_map<uint64_t, Value> ids_;
};

}  // namespace

std::string EGraph::to_json(const RowFilter& keep) const {
  try {
    return JsonWriter(*this, keep).write();
  } catch (const Json::exception& e) {  // a String that is not UTF-8
    fail<FormatError>("[json] {}", e.what());
  }
}

void EGraph::load_json(std::string_view text) {
  Json file;
  try {
    file = parse_bounded_json<Json>(text, "json");
  } catch (const Json::exception& e) {
    fail<FormatError>("[json] {}", e.what());
  }
  JsonReader(*this).read(file);
}

}  // namespace luminal::egraph
