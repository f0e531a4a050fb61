#include "egraph/core/sexpr.h"

#include <algorithm>

#include "base/fail.h"
#include "base/utf8.h"

namespace luminal::egraph {
namespace {

constexpr int kMaxSexprDepth = 2000;

// Length of the white space at `at`, 0 if there is none: Unicode's White_Space property, as UTF-8.
size_t white_space_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const unsigned first = byte(0);
  if (first == ' ' || (first >= '\t' && first <= '\r')) return 1;
  if (first == 0xC2 && (byte(1) == 0x85 || byte(1) == 0xA0)) return 2;
  const unsigned wide = first << 16 | byte(1) << 8 | byte(2);
  const bool general_punctuation = (wide >= 0xE28080 && wide <= 0xE2808A) || wide == 0xE280A8 ||
                                   wide == 0xE280A9 || wide == 0xE280AF || wide == 0xE2819F;
  if (general_punctuation || wide == 0xE19A80 || wide == 0xE38080) return 3;
  return 0;
}

class SexprReader {
 public:
  explicit SexprReader(std::string_view text) : text_(text) {}

  std::vector<SexprNode> read(const std::function<void()>& poll) {
    if (const size_t bad = find_invalid_utf8(text_); bad != std::string_view::npos)
      throw SexprError{fmt::format("byte 0x{:02x} is not UTF-8 text: programs are written in UTF-8",
                                   static_cast<unsigned char>(text_[bad])),
                       bad, bad + 1};
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      if (poll) poll();
      read_token();
    }
    if (!open_.empty()) {
      const size_t first = nodes_[open_.back()].first;
      throw SexprError{"this '(' is never closed: the text ends inside the list", first, first + 1, true};
    }
    return std::move(nodes_);
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == ';') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (const size_t blank = white_space_at(text_, at_)) {
        at_ += blank;
      } else {
        return;
      }
    }
  }

  void read_token() {
    const size_t first = at_;
    if (text_[at_] == '(') {
      ++at_;
      open_.push_back(nodes_.size());
      nodes_.push_back({.kind = SexprNode::Kind::List, .first = first, .last = at_});
    } else if (text_[at_] == ')') {
      ++at_;
      if (open_.empty()) throw SexprError{"this ')' closes nothing", first, at_};
      SexprNode& list = nodes_[open_.back()];
      list.last = at_;
      list.end = nodes_.size();
      open_.pop_back();
    } else if (text_[at_] == '"') {
      std::string value = read_string();
      nodes_.push_back({SexprNode::Kind::String, nodes_.size() + 1, first, at_, std::move(value)});
    } else {
      while (at_ < text_.size() && text_[at_] != ';' && text_[at_] != '(' && text_[at_] != ')' &&
             white_space_at(text_, at_) == 0)
        ++at_;
      nodes_.push_back({SexprNode::Kind::Word, nodes_.size() + 1, first, at_, {}});
    }
  }

  std::string read_string() {
    const size_t first = at_;
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        value += text_[at_];
        continue;
      }
      if (++at_ == text_.size()) break;
      constexpr std::string_view kEscapes = "nt\\\"", kMeanings = "\n\t\\\"";
      const size_t which = kEscapes.find(text_[at_]);
      if (which == std::string_view::npos)
        throw SexprError{"unknown escape in a string; the language knows \\n, \\t, \\\\ and \\\"", at_ - 1,
                         at_ + 1};
      value += kMeanings[which];
    }
    if (at_ >= text_.size()) throw SexprError{"this string has no closing quote", first, first + 1, true};
    ++at_;
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> open_;
  std::vector<SexprNode> nodes_;
};

[[noreturn]] void refuse_sexpr(std::string_view what, size_t position, std::string_view source) {
  fail<FormatError>("[egraph] {} at position {} of: {}", what, position, source);
}

Sexpr tree_of(const std::vector<SexprNode>& nodes, size_t index, std::string_view source, int depth) {
  const SexprNode& node = nodes[index];
  if (depth > kMaxSexprDepth) refuse_sexpr("nested too deeply", node.first, source);
  Sexpr tree{node.kind, {}, node.first, {}};
  if (node.kind == SexprNode::Kind::Word) tree.text = source.substr(node.first, node.last - node.first);
  if (node.kind == SexprNode::Kind::String) tree.text = node.value;
  for (size_t child = index + 1; child < node.end; child = nodes[child].end)
    tree.items.push_back(tree_of(nodes, child, source, depth + 1));
  return tree;
}

}  // namespace

std::vector<SexprNode> read_sexprs(std::string_view text, const std::function<void()>& poll) {
  return SexprReader(text).read(poll);
}

Sexpr parse_sexpr(std::string_view source) {
  try {
    const std::vector<SexprNode> nodes = read_sexprs(source);
    if (nodes.empty()) refuse_sexpr("expected an expression", source.size(), source);
    if (nodes[0].end != nodes.size())
      refuse_sexpr("unexpected text after the expression", nodes[nodes[0].end].first, source);
    return tree_of(nodes, 0, source, 0);
  } catch (const SexprError& error) {
    refuse_sexpr(error.message, error.first, source);
  }
}

}  // namespace luminal::egraph
