// The names that the examples of public headers take as given: declared, and never defined.
#pragma once
#undef NDEBUG
#include <luminal/luminal.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iostream>
#include <numbers>
#include <stop_token>

using namespace luminal;

extern Graph cx, graph;
extern GraphTensor x, y, w, a, b, mask, loss, tokens;
extern std::vector<GraphTensor> weights, params, gradients, biases, head;
bool is_identity(const Node& node);
extern TensorData features, labels, weight, bias;
extern Compiled step;

struct Model {
  GraphTensor forward(const GraphTensor& in) const;
  GraphTensor forward(const GraphTensor& in, nn::KvCache& cache) const;
  void serialize(nn::Serializer& s) const;
};
using Block = Model;
extern Model model;
extern std::vector<Block> blocks;
extern training::Adam adam;
extern int64_t prompt;
double schedule(int64_t step);
std::vector<float> images(int64_t step);

extern const text::TokenizerSpec spec;
extern const std::vector<float> logits;
extern const text::Tokenizer tokenizer;
extern text::Sampler sampler;
extern const std::vector<text::TokenId> prompt_ids;
constexpr text::TokenId end_of_text = 2;

extern std::vector<std::pair<double, double>> points;
extern const float* input;
extern float* output;
void launch(const std::vector<std::byte>& arguments);
void train(auto&&... batch) {}
std::string read_file(const std::string& path);

enum { CblasRowMajor, CblasNoTrans };
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
