#pragma once
/// Everything for training.
#include "luminal/training/loss.h"
#include "luminal/training/optimizer.h"
#include "luminal/training/scheduler.h"
