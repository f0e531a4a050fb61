#pragma once
/// Everything for training.
#include "luminal/training/activation_checkpoint.h"
#include "luminal/training/amp.h"
#include "luminal/training/checkpoint_manager.h"
#include "luminal/training/gradients.h"
#include "luminal/training/loss.h"
#include "luminal/training/optimizer.h"
#include "luminal/training/scheduler.h"
#include "luminal/training/trainer.h"
