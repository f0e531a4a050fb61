#pragma once
#include <cstdint>
#include <optional>

#include "luminal/nn/module.h"

namespace luminal::nn {

/// y = x W^T + b.  Shapes: x [..., in] -> [..., out]; weight [out, in] (or [in, out] if permuted), bias
/// [out]. Initial values: U(-1/sqrt(in), 1/sqrt(in)).  Errors: ShapeError if x does not end in `in`.
struct Linear {
  struct Options {
    bool bias = true;
    bool permuted = false;  ///< weight as [in, out]
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<GraphTensor> bias;
  bool permuted = false;

  Linear(GraphSite cx, int64_t in, int64_t out, const Options& options);
  Linear(GraphSite cx, int64_t in, int64_t out) : Linear(cx, in, out, Options()) {}
  /// With another module's weight: the head of a language model that shares its embedding's table.
  explicit Linear(GraphTensor tied) : weight(std::move(tied)) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Rows of a table.  Shapes: integers [...] -> [..., size]; weight [count, size] (or [size, count] if
/// permuted). Initial values: N(0, 1).  Errors: DtypeError for an index of floats; Error for one that is no
/// row: when it is set, if the index is an input, and else at run time.
struct Embedding {
  struct Options {
    std::optional<int64_t> padding_idx = {};  ///< this row starts at 0 and gets no gradient; -1 is the last
    bool permuted = false;                    ///< weight as [size, count]
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<int64_t> padding_idx;
  bool permuted = false;

  Embedding(GraphSite cx, int64_t count, int64_t size, const Options& options);
  Embedding(GraphSite cx, int64_t count, int64_t size) : Embedding(cx, count, size, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& index, Where where = Where::current()) const;
  /// The tied head: x [..., size] times the table -> logits [..., count].
  [[nodiscard]] GraphTensor logits(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const { s.tensor("weight", weight); }
};

}  // namespace luminal::nn
