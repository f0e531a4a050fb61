#include <array>

#include "cli/command.h"

namespace luminal::cli {

extern const Command kBench;
extern const Command kCache;
extern const Command kConvert;
extern const Command kEgg;
extern const Command kEmbed;
extern const Command kEnv;
extern const Command kExplain;
extern const Command kInspect;
extern const Command kPerplexity;
extern const Command kPredict;
extern const Command kQuantize;
extern const Command kRandomModel;
extern const Command kRun;
extern const Command kServe;
extern const Command kTrain;

namespace {
constexpr std::array kCommands{&kBench,   &kCache,   &kConvert,    &kEgg,     &kEmbed,    &kEnv,
                               &kExplain, &kInspect, &kPerplexity, &kPredict, &kQuantize, &kRandomModel,
                               &kRun,     &kServe,   &kTrain};  // sorted by name
}

std::span<const Command* const> commands() { return kCommands; }

}  // namespace luminal::cli
