#include <algorithm>

#include "base/cancel.h"
#include "base/fail.h"
#include "graph/data_input.h"
#include "graph/graph_state.h"
#include "graph/materialize.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/scan_form.h"
#include "ops/types.h"

namespace luminal {

Attributes ScanForm::attributes() const {
  return {{"body", std::shared_ptr<const Payload>(body)},
          {"carries", static_cast<int64_t>(carries)},
          {"sequences", static_cast<int64_t>(sequences)},
          {"length", length},
          {"reverse", reverse}};
}

std::optional<ScanForm> ScanForm::of(const Attributes& attributes) {
  const Attribute* found = attributes.find("body");
  const auto* payload = found ? std::get_if<std::shared_ptr<const Payload>>(found) : nullptr;
  if (payload == nullptr) return std::nullopt;
  ScanForm form{.body = std::dynamic_pointer_cast<const Subgraph>(*payload)};
  if (!form.body) return std::nullopt;
  form.carries = static_cast<size_t>(attributes.get<int64_t>("carries"));
  form.sequences = static_cast<size_t>(attributes.get<int64_t>("sequences"));
  form.length = attributes.get<Expression>("length");
  form.reverse = attributes.get<bool>("reverse");
  return form;
}

namespace {

ScanForm scan_form(const Attributes& attributes) {
  std::optional<ScanForm> form = ScanForm::of(attributes);
  LUMINAL_CHECK(form.has_value(), "attributes of a scan: {}", attributes.to_string());
  return *form;
}

bool never_equal(const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return true;
  for (size_t i = 0; i < a.size(); ++i)
    if (Expression::known_less(a[i], b[i]) || Expression::known_less(b[i], a[i])) return true;
  return false;
}

bool surely_equal(const Shape& a, const Shape& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), &Expression::known_equal);
}

void check_scan_input(const ScanForm& form, size_t i, const TensorType& given) {
  TensorType due = form.input_type(i);
  if (form.is_sequence(i)) {
    ops::check_plain("scan", given.dtype);
    due.dims.insert(due.dims.begin(), form.length);
  }
  if (given.dtype != due.dtype)
    fail<DtypeError>("[scan] input {} is {} where the body takes {}", i, given.to_string(), due.to_string());
  if (never_equal(given.dims, due.dims))
    fail<ShapeError>("[scan] input {} is {} where the body takes {}", i, given.to_string(), due.to_string());
}

/// What leaves a step goes into the next one.
void check_carry(const ScanForm& form, size_t i) {
  const TensorType in = form.input_type(i), out = form.output_type(i);
  ops::check_plain("scan", in.dtype);
  if (in.dtype != out.dtype)
    fail<DtypeError>("[scan] carry {} goes into a step as {} and comes out as {}; cast() it in the body", i,
                     in.to_string(), out.to_string());
  if (!surely_equal(in.dims, out.dims))
    fail<ShapeError>(
        "[scan] carry {} goes into a step as {} and comes out as {}; a carry keeps its dims from step to "
        "step",
        i, in.to_string(), out.to_string());
}

std::vector<TensorType> infer_scan(std::span<const TensorType> inputs, const Attributes& attributes) {
  const ScanForm form = scan_form(attributes);
  ops::check_arity("scan", inputs, form.inputs());
  if (form.outputs() < form.carries)
    fail("[scan] a step takes {} carries and gives {}; give the next value of each", form.carries,
         form.outputs());
  for (size_t i = 0; i < inputs.size(); ++i) check_scan_input(form, i, inputs[i]);
  std::vector<TensorType> outputs;
  for (size_t i = 0; i < form.outputs(); ++i) {
    outputs.push_back(form.output_type(i));
    if (i < form.carries)
      check_carry(form, i);
    else
      outputs.back().dims.insert(outputs.back().dims.begin(), form.length);
  }
  return outputs;
}

/// The body as a graph that runs, on the reference interpreter. Between steps values have the dtypes of the
/// body: a run in f64 computes each step in f64 and rounds what it carries.
class ScanSteps {
 public:
  ScanSteps(const ScanForm& form, EvalContext& context)
      : form_(form), context_(context), length_(form.length.exec(context.dims)) {
    std::vector<GraphTensor> inputs;
    for (size_t i = 0; i < form.inputs(); ++i) {
      const TensorType type = form.input_type(i);
      inputs.push_back(graph_.tensor(type.dims, type.dtype));
      inputs_.push_back(inputs.back().edge().source);
    }
    for (const GraphTensor& output : inlined(*form.body, graph_, inputs)) {
      outputs_.push_back(output.edge());
      if (is_computed(*graph_.node(output.node()).op)) graph_.tensor_of(outputs_.back().source).retrieve();
    }
    graph_.state()->dims = context.dims;
    bool in_f64 = false;
    for (size_t i = 0; i < form.outputs(); ++i)
      in_f64 |= context.outputs[i].dtype != form.output_type(i).dtype;
    executable_ = make_session(in_f64 ? "reference-f64" : "reference")->compile(graph_, Fast{});
  }

  void run() {
    for (size_t i = 0; i < form_.inputs(); ++i)
      if (!form_.is_sequence(i)) give(i, *context_.inputs[i]);
    for (int64_t done = 0; done < length_; ++done) {
      throw_if_cancelled();
      step(form_.reverse ? length_ - 1 - done : done);
    }
    for (size_t i = 0; i < form_.carries; ++i) write(*graph_.value(inputs_[i]), context_.outputs[i], 0);
  }

 private:
  void give(size_t i, const TensorData& data) {
    const Dtype own = graph_.type(inputs_[i]).dtype;
    graph_.store(inputs_[i], std::make_shared<TensorData>(data.dtype == own ? data : convert(data, own)),
                 true);
  }

  void step(int64_t place) {
    for (size_t i = form_.carries; i < form_.carries + form_.sequences; ++i) {
      const TensorData& all = *context_.inputs[i];
      TensorData one(all.dtype, {all.dims.begin() + 1, all.dims.end()});
      std::copy_n(all.bytes.begin() + place * static_cast<int64_t>(one.bytes.size()), one.bytes.size(),
                  one.bytes.begin());
      give(i, one);
    }
    executable_->run(graph_, {});
    std::vector<TensorData> made;
    for (const Edge& edge : outputs_)
      made.push_back(materialize(*graph_.value(edge.source), edge.view, context_.dims));
    for (size_t i = 0; i < made.size(); ++i) {
      if (i < form_.carries)
        give(i, made[i]);
      else
        write(made[i], context_.outputs[i], place);
    }
  }

  /// At element `place` of `all`, whose dtype is a wider one in f64.
  static void write(const TensorData& made, TensorData& all, int64_t place) {
    if (made.dtype != all.dtype) return write(convert(made, all.dtype), all, place);
    std::ranges::copy(made.bytes, all.bytes.begin() + place * static_cast<int64_t>(made.bytes.size()));
  }

  const ScanForm& form_;
  EvalContext& context_;
  int64_t length_;
  Graph graph_;
  std::vector<Value> inputs_;
  std::vector<Edge> outputs_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace

const OpDef kScan = {
    .name = "scan",
    .arity = -1,
    .infer = infer_scan,
    .evaluate =
        [](EvalContext& context) {
          const ScanForm form = scan_form(context.attributes);
          ScanSteps(form, context).run();
        },
    .gradient = [](Gradient& g) { scan_form(g.attributes()).body->gradient(g); },
    .flops_per_element = 0,
    .doc =
        "A body run step by step over carried state, one element of each sequence a step; gives the last "
        "state and sequences of what the steps hand out. Recorded by `scan` (luminal/scan.h).",
};

}  // namespace luminal
