#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

/// The values of templates: those of Python that templates meet.
namespace luminal::text::jinja {

class Value;
using List = std::vector<Value>;

/// Keys are texts; they keep the order in which they came.
class Dict {
 public:
  [[nodiscard]] const Value* find(const std::string& key) const;
  void set(const std::string& key, Value value);
  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, Value>> entries_;
  std::unordered_map<std::string, size_t> index_;
};

struct Undefined {
  std::string name;
};
struct None {};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> keywords;
  /// By position or name, null if it was not given.
  [[nodiscard]] const Value* get(size_t position, const char* name) const;
};
using Callable = std::function<Value(const Arguments&)>;

class Value {
 public:
  struct Sequence {
    List items;
    bool tuple = false;
  };
  struct Namespace {
    Dict values;
  };
  using Content = std::variant<Undefined, None, bool, int64_t, double, std::string, std::shared_ptr<Sequence>,
                               std::shared_ptr<Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Callable>>;
  Value() = default;
  template <class T>
    requires std::is_constructible_v<Content, T>
  Value(T content) : content_(std::move(content)) {}  // NOLINT: a value is what it holds
  Value(const char* text) : content_(std::string(text)) {}
  static Value list(List items, bool tuple = false) {
    return std::make_shared<Sequence>(Sequence{std::move(items), tuple});
  }
  static Value dict(Dict entries) { return std::make_shared<Dict>(std::move(entries)); }
  static Value undefined(std::string name) { return Undefined{std::move(name)}; }
  static Value function(Callable call) { return std::make_shared<Callable>(std::move(call)); }

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&content_);
  }
  [[nodiscard]] const std::string* text() const { return as<std::string>(); }
  [[nodiscard]] const Sequence* sequence() const { return pointed<Sequence>(); }
  [[nodiscard]] const Dict* mapping() const { return pointed<Dict>(); }
  [[nodiscard]] Namespace* name_space() const {
    const auto* held = as<std::shared_ptr<Namespace>>();
    return held ? held->get() : nullptr;
  }
  [[nodiscard]] const Callable* callable() const { return pointed<Callable>(); }
  [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
  [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
  [[nodiscard]] bool truthy() const;
  /// A bool counts as 0 or 1; null if it is not a whole number.
  [[nodiscard]] const int64_t* integer(int64_t& room) const;
  [[nodiscard]] bool is_number() const { return as<bool>() || as<int64_t>() || as<double>(); }
  [[nodiscard]] double number() const;

  /// "string", "list" ..., as messages name it.
  [[nodiscard]] std::string kind() const;
  /// Python's str() and repr().
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::string repr(int depth = 0) const;
  /// Python's json.dumps(ensure_ascii=False); `indent` below 0 for one line.
  [[nodiscard]] std::string json(int64_t indent, bool sort_keys, int depth = 0) const;

 private:
  template <class T>
  [[nodiscard]] const T* pointed() const {
    const auto* held = as<std::shared_ptr<T>>();
    return held ? held->get() : nullptr;
  }
  Content content_;
};

[[nodiscard]] bool equal(const Value& a, const Value& b, int depth = 0);
/// Below 0, 0 or above. Errors: Error if they have no order.
[[nodiscard]] int compare(const Value& a, const Value& b);

}  // namespace luminal::text::jinja
