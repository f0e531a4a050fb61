#include <algorithm>
#include <map>

#include "ops/composite/build.h"

// Einstein summation: operands are contracted from left to right; a letter is summed as soon as nothing to
// come needs it. A letter that stands twice in one operand reads the diagonal through a view.
namespace luminal {

using namespace composite;

namespace {

/// A letter, or -1, -2 ... for the axes of "..." counted from the right.
using Label = int;
using Labels = std::vector<Label>;

struct Labelled {
  GraphTensor tensor;
  Labels labels;
};

bool contains(const Labels& labels, Label label) { return std::ranges::find(labels, label) != labels.end(); }

class Equation {
 public:
  Equation(std::string_view text, std::span<const GraphTensor> operands) : text_(text) {
    std::string compact(text);
    std::erase(compact, ' ');
    const size_t arrow = compact.find("->");
    const std::string left = compact.substr(0, arrow);
    size_t begin = 0;
    while (true) {
      const size_t comma = left.find(',', begin);
      terms_.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
      if (comma == std::string::npos) break;
      begin = comma + 1;
    }
    if (terms_.size() != operands.size())
      wrong(fmt::format("it has {} operands, but {} tensors are given", terms_.size(), operands.size()));
    for (size_t i = 0; i < terms_.size(); ++i) inputs.push_back(labels_of(terms_[i], operands[i], i));
    if (arrow == std::string::npos)
      implicit_output();
    else
      explicit_output(compact.substr(arrow + 2));
  }

  [[noreturn]] void wrong(const std::string& what) const { reject("\"{}\": {}", text_, what); }

  std::vector<Labels> inputs;
  Labels output;

 private:
  /// Letters of `term`, with "..." standing for `ellipsis_rank` axes.
  [[nodiscard]] Labels read(std::string_view term, int ellipsis_rank) const {
    Labels labels;
    bool seen = false;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.substr(i, 3) == "...") {
        if (seen) wrong(fmt::format("'{}' has more than one ellipsis", term));
        seen = true;
        for (int k = ellipsis_rank; k > 0; --k) labels.push_back(-k);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
        labels.push_back(term[i]);
      } else {
        wrong(fmt::format(
            "'{}' is not a letter; write axes as letters, operands apart by ',', and '->' before the "
            "output",
            term[i]));
      }
    }
    return labels;
  }

  Labels labels_of(std::string_view term, const GraphTensor& operand, size_t number) {
    const int letters = static_cast<int>(read(term, 0).size());
    const bool open = term.find("...") != std::string_view::npos;
    if (open ? letters > operand.rank() : letters != operand.rank())
      wrong(fmt::format("'{}' names {} axes and operand {} is {}", term, letters, number,
                        operand.type().to_string()));
    const int rest = operand.rank() - letters;
    ellipsis_rank_ = std::max(ellipsis_rank_, rest);
    return read(term, rest);
  }

  void implicit_output() {
    for (int k = ellipsis_rank_; k > 0; --k) output.push_back(-k);
    std::map<Label, int> count;
    for (const Labels& labels : inputs)
      for (const Label label : labels) ++count[label];
    for (const auto& [label, times] : count)
      if (label > 0 && times == 1) output.push_back(label);
  }

  void explicit_output(std::string_view term) {
    output = read(term, ellipsis_rank_);
    for (const Label label : output) {
      if (std::ranges::count(output, label) > 1)
        wrong(fmt::format("'{}' appears twice in the output", static_cast<char>(label)));
      if (std::ranges::none_of(inputs, [&](const Labels& labels) { return contains(labels, label); }))
        wrong(fmt::format("'{}' appears in the output but in no operand", static_cast<char>(label)));
    }
  }

  std::string text_;
  std::vector<std::string> terms_;
  int ellipsis_rank_ = 0;
};

std::string text_of(Label label) { return label > 0 ? std::string(1, static_cast<char>(label)) : "..."; }

/// Coordinates i of out read (i, i) of axes `kept` and `dropped`, which are of equal size.
MovementStep diagonal_step(const Shape& dims, int kept, int dropped) {
  MovementStep step;
  step.name = "diagonal";
  step.detail = fmt::format("{}, {}", kept, dropped);
  step.in_dims = dims;
  for (int axis = 0; axis < static_cast<int>(dims.size()); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int out_axis = axis < dropped ? axis : axis - 1;
    if (axis == dropped) {
      step.in_of_out.push_back(Expression::index(kept, dims[static_cast<size_t>(kept)]));
      continue;
    }
    step.out_dims.push_back(dims[i]);
    step.in_of_out.push_back(Expression::index(out_axis, dims[i]));
    step.out_of_in.push_back(Expression::index(axis, dims[i]));
  }
  const Expression a = Expression::index(kept, dims[static_cast<size_t>(kept)]);
  const Expression b = Expression::index(dropped, dims[static_cast<size_t>(dropped)]);
  step.in_valid = a.gte(b) & b.gte(a);
  return step;
}

/// One axis for each letter.
Labelled without_repeats(Labelled operand, const Equation& equation) {
  Labels& labels = operand.labels;
  for (int second = 1; second < static_cast<int>(labels.size());) {
    const Label label = labels[static_cast<size_t>(second)];
    const int first = static_cast<int>(std::ranges::find(labels, label) - labels.begin());
    if (first == second) {
      ++second;
      continue;
    }
    const GraphTensor& x = operand.tensor;
    if (!Expression::known_equal(x.dim(first), x.dim(second)))
      equation.wrong(fmt::format("'{}' is {} and {} in {}; a diagonal needs equal sizes", text_of(label),
                                 x.dim(first).to_string(), x.dim(second).to_string(), x.type().to_string()));
    operand.tensor = x.with_view(x.view().apply(diagonal_step(x.dims(), first, second)));
    labels.erase(labels.begin() + second);
  }
  return operand;
}

/// Axes in the order of `order`, of size 1 where the operand has none.
GraphTensor aligned(const Labelled& operand, const Labels& order) {
  std::vector<int> axes;
  for (const Label label : order)
    if (const auto at = std::ranges::find(operand.labels, label); at != operand.labels.end())
      axes.push_back(static_cast<int>(at - operand.labels.begin()));
  GraphTensor result = operand.tensor.permute(axes);
  for (size_t i = 0; i < order.size(); ++i)
    if (!contains(operand.labels, order[i])) result = result.unsqueeze(static_cast<int>(i));
  return result;
}

std::vector<int> places_outside(const Labels& labels, const Labels& kept) {
  std::vector<int> places;
  for (size_t i = 0; i < labels.size(); ++i)
    if (!contains(kept, labels[i])) places.push_back(static_cast<int>(i));
  return places;
}

Labels intersection(const Labels& labels, const Labels& kept) {
  Labels result;
  std::ranges::copy_if(labels, std::back_inserter(result),
                       [&](Label label) { return contains(kept, label); });
  return result;
}

Labelled summed(const Labelled& operand, const Labels& kept) {
  return {reduced(kSumReduce, operand.tensor, places_outside(operand.labels, kept), false),
          intersection(operand.labels, kept)};
}

/// The product of both, summed over what is not in `kept`.
Labelled contracted(const Labelled& a, const Labelled& b, const Labels& kept) {
  Labels left_needs = kept, right_needs = kept;
  left_needs.insert(left_needs.end(), b.labels.begin(), b.labels.end());
  right_needs.insert(right_needs.end(), a.labels.begin(), a.labels.end());
  const Labelled left = summed(a, left_needs), right = summed(b, right_needs);
  Labels all = left.labels;
  std::ranges::copy_if(right.labels, std::back_inserter(all),
                       [&](Label label) { return !contains(all, label); });
  return {product_sum(aligned(left, all), aligned(right, all), places_outside(all, kept)),
          intersection(all, kept)};
}

/// Sizes agree, or are 1.
void check_sizes(const Equation& equation, std::span<const Labelled> operands) {
  std::map<Label, std::pair<Expression, size_t>> sizes;
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t axis = 0; axis < operands[i].labels.size(); ++axis) {
      const Label label = operands[i].labels[axis];
      const Expression& size = operands[i].tensor.dims()[axis];
      const auto [known, fresh] = sizes.try_emplace(label, size, i);
      if (fresh || size == Expression(1) || Expression::known_equal(known->second.first, size)) continue;
      if (known->second.first != Expression(1))
        equation.wrong(fmt::format(
            "'{}' is {} in operand {} and {} in operand {}; sizes must be equal, or one of them 1",
            text_of(label), known->second.first.to_string(), known->second.second, size.to_string(), i));
      known->second = {size, i};
    }
}

}  // namespace

GraphTensor einsum(std::string_view text, std::span<const GraphTensor> operands, Where at) {
  const CallSite site("einsum", at);
  if (operands.empty()) reject<Error>("no tensors are given; give one for each operand of \"{}\"", text);
  const Equation equation(text, operands);
  Graph graph = operands.front().graph();
  const std::vector<Operand> given(operands.begin(), operands.end());
  const std::vector<GraphTensor> tensors = promoted(graph, given, Promotion::Arithmetic);
  std::vector<Labelled> parts;
  for (size_t i = 0; i < tensors.size(); ++i)
    parts.push_back(without_repeats({tensors[i], equation.inputs[i]}, equation));
  check_sizes(equation, parts);

  Labelled result = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    Labels kept = equation.output;
    for (size_t later = i + 1; later < parts.size(); ++later)
      kept.insert(kept.end(), parts[later].labels.begin(), parts[later].labels.end());
    result = contracted(result, parts[i], kept);
  }
  return aligned(summed(result, equation.output), equation.output);
}

GraphTensor einsum(std::string_view text, std::initializer_list<GraphTensor> operands, Where at) {
  return einsum(text, std::span(operands.begin(), operands.size()), at);
}

}  // namespace luminal
