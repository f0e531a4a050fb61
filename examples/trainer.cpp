// A small language model trained by a Trainer: bf16 products, accumulation, clipping, activation checkpoints,
// and a run that stops halfway and goes on from its checkpoint. It learns to say the alphabet.
#include <filesystem>
#include <iostream>

#include "luminal/luminal.h"

using namespace luminal;

struct Speller {
  nn::Embedding table;
  nn::CausalSelfAttention attention;
  nn::RMSNorm norm;

  explicit Speller(Graph& cx) : table(cx, 26, 32), attention(cx, 32, 4, {.kv_heads = 2}), norm(cx, 32) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& letters) const {
    const auto block = [&](const GraphTensor& x) { return x + attention.forward(norm.forward(x)); };
    return table.logits(training::checkpoint(block, table.forward(letters)));
  }
  void serialize(nn::Serializer& s) const {
    s.module("table", table);
    s.module("attention", attention);
    s.module("norm", norm);
  }
};

double train(const std::filesystem::path& folder, int64_t steps) {
  Graph cx;
  cx.set_seed(7);
  const Speller model(cx);
  GraphTensor letters = cx.tensor({4, 12}, Dtype::I64), next = cx.tensor({4, 12}, Dtype::I64);
  const GraphTensor loss = training::cross_entropy(model.forward(letters).transpose(1, 2), next);
  training::Trainer trainer(cx, model, loss, training::use<training::AdamW>({.learning_rate = 1e-2}),
                            {.clip_norm = 1, .accumulate = 2, .precision = Dtype::BF16});
  training::CheckpointManager checkpoints(folder);
  double last = 0;
  const auto feed = [&](int64_t step) {  // equal steps, equal inputs: so a run can go on anywhere
    std::vector<int64_t> in, out;
    for (int64_t i = 0; i < 48; ++i) in.push_back((step * 7 + i / 12 * 5 + i % 12) % 26);
    for (const int64_t letter : in) out.push_back((letter + 1) % 26);
    letters.set(in), next.set(out);
  };
  const auto seen = [&](const training::Trainer::Progress& p) { last = p.loss; };
  trainer.fit({.steps = steps, .feed = feed, .seen = seen, .checkpoints = &checkpoints, .save_every = 25});
  std::cout << "after step " << trainer.steps() << ": loss " << last << '\n';
  return last;
}

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "luminal_example_trainer";
  std::filesystem::remove_all(folder);
  (void)train(folder, 40);
  return train(folder, 80) < 0.1 ? 0 : 1;
}
