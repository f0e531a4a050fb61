#include "luminal/nn/activation.h"

#include "nn/weights.h"

namespace luminal::nn {

PReLU::PReLU(GraphSite cx, int64_t channels, double initial, Dtype dtype) {
  const CallSite site("PReLU", cx.where);
  check_size("PReLU", "channels", channels);
  check_float("PReLU", dtype);
  weight = constant_weight(cx, "weight", {channels}, initial, dtype);
}

Dropout::Dropout(double probability) : p(probability) { check_probability("Dropout", p); }

}  // namespace luminal::nn
