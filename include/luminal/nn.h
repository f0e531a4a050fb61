#pragma once
/// Everything in luminal::nn.
#include "luminal/nn/init.h"
#include "luminal/nn/layers.h"
#include "luminal/nn/module.h"
