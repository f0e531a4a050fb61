#pragma once
/// Everything in luminal::nn.
#include "luminal/nn/activation.h"
#include "luminal/nn/attention.h"
#include "luminal/nn/conv.h"
#include "luminal/nn/init.h"
#include "luminal/nn/linear.h"
#include "luminal/nn/module.h"
#include "luminal/nn/norm.h"
#include "luminal/nn/recurrent.h"
#include "luminal/nn/transformer.h"
