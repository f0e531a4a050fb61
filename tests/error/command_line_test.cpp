#include <sstream>

#include "cli/command.h"
#include "error/mistake.h"
#include "support/environment.h"

// Mistakes on the command line: one line on standard error, and an exit code.
namespace luminal::error_test {
namespace {

struct CommandLine {
  std::vector<std::string> arguments;
  int code;
  std::string told;
};

void expect_refused(const std::vector<CommandLine>& lines) {
  for (const CommandLine& line : lines) {
    SCOPED_TRACE(testing::PrintToString(line.arguments));
    std::ostringstream out, err;
    cli::Console console{out, err};
    EXPECT_EQ(cli::run(line.arguments, console), line.code);
    EXPECT_EQ(out.str(), "");
    EXPECT_EQ(err.str(), line.told + "\n");
  }
}

TEST(CommandLineMistakes, AreToldInALine) {
  const test::WorkingFolder folder;
  const test::EnvironmentVariable cache("LUMINAL_CACHE", "cache");
  {
    std::ofstream("broken.egg") << "(datatype Math (Num i64)\n";
  }
  expect_refused({
      {{"trian"}, 2, "luminal: unknown command 'trian'; did you mean 'train'? (see 'luminal --help')"},
      {{"train"},
       2,
       "luminal train: missing subcommand; choose one of mnist, digits, regression, text (see 'luminal train "
       "--help')"},
      {{"train", "mnits"},
       2,
       "luminal train: unknown subcommand 'mnits'; choose one of mnist, digits, regression, text; did you "
       "mean 'mnist'? (see 'luminal train --help')"},
      {{"train", "mnist", "--epoch", "3"},
       2,
       "luminal train mnist: unknown option '--epoch'; did you mean '--epochs'? (see 'luminal train mnist "
       "--help')"},
      {{"train", "mnist", "--epochs"},
       2,
       "luminal train mnist: --epochs: 1 required INT missing (see 'luminal train mnist --help')"},
      {{"train", "mnist", "--epochs", "many"},
       2,
       "luminal train mnist: --epochs takes a whole number, not 'many' (see 'luminal train mnist --help')"},
      {{"train", "mnist", "--epochs", "0"}, 1, "luminal: [train] --epochs is 0; give 1 or more"},
      {{"train", "mnist", "--lr", "-1"}, 1, "luminal: [train] --lr is -1; give a rate above 0"},
      {{"train", "mnist", "--mode", "fats"},
       1,
       "luminal: [mode] unknown mode 'fats'; choose fast, optimal or budget=SECONDS"},
      {{"train", "mnist", "--mode", "budget=soon"},
       1,
       "luminal: [mode] unknown mode 'budget=soon'; choose fast, optimal or budget=SECONDS"},
      {{"train", "mnist", "--device", "gpu"},
       1,
       "luminal: [device] unknown device 'gpu'; this build has: " + devices() + "; did you mean 'cpu'?"},
      {{"train", "mnist", "--data", "nowhere"},
       1,
       "luminal: [data] 'nowhere' has none of train-images-idx3-ubyte.gz, train-images-idx3-ubyte; give the "
       "folder with the MNIST files"},
      {{"train", "mnist", "--weights", "."}, 1, "luminal: [train] --weights '.' is a folder; give a file"},
      {{"train", "mnist", "--resume"},
       2,
       "luminal train mnist: --resume requires --checkpoints (see 'luminal train mnist --help')"},
      {{"predict", "nothing.png"},
       2,
       "luminal predict: unexpected argument 'nothing.png' (see 'luminal predict --help')"},
      {{"explain", "x:f32[2"}, 1, "luminal: [formula] ']' is missing (column 8)\n  x:f32[2\n         ^"},
      {{"explain", "x:f23[2]"},
       1,
       "luminal: [formula] [dtype] unknown dtype 'f23'; choose one of f32 f64 f16 bf16 i8 u8 i32 i64 bool "
       "q8_0 q4_0 q4_1 u16 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs iq1_s iq1_m iq2_xxs iq2_xs iq2_s "
       "iq3_xxs iq3_s tq1_0 tq2_0 mxfp4 nvfp4; did you mean 'f32'? (column 3)\n  x:f23[2]\n    ^"},
      {{"explain", "x:f32[2].rleu()"},
       1,
       "luminal: [formula] unknown function 'rleu'; did you mean 'relu'? (column 10)\n  x:f32[2].rleu()\n    "
       "       ^"},
      {{"explain", "x:f32[2] + y:f32[3]"},
       1,
       "luminal: [formula] [add] shapes do not broadcast: lhs [2] and rhs [3] have 2 and 3 at axis -1; sizes "
       "must be equal, or one of them 1 (column 10)\n  x:f32[2] + y:f32[3]\n           ^"},
      {{"explain", "x:f32[n,2] * 2"},
       1,
       "luminal: [compile] nothing is compiled yet: the size of 'n' is not known; give it with set_dim (on "
       "the command line: --dim n=SIZE)"},
      {{"explain", "x:f32[n,2] * 2", "--dim", "m=4"},
       1,
       "luminal: [dim] 'x:f32[n,2] * 2' has no dim 'm'; its dims are n; did you mean 'n'?"},
      {{"explain", "x:f32[n,2] * 2", "--dim", "n=four"},
       1,
       "luminal: [dim] --dim takes NAME=SIZE with a whole number, not 'n=four'"},
      {{"explain", "x:f32[2] * 2", "--mode", "optmal"},
       1,
       "luminal: [mode] unknown mode 'optmal'; choose fast, optimal or budget=SECONDS"},
      {{"explain", "x:f32[2] * 2", "--math", "exact"},
       1,
       "luminal: [math] unknown math mode 'exact'; choose one of strict, relaxed, fast"},
      {{"explain", "x:f32[2] * 2", "--without-rule", "no-such-rule"},
       1,
       "luminal: [rules] unknown rule 'no-such-rule' to switch off; `luminal explain` names those that "
       "fire in a graph; there are "
       "kernel-slot-read, kernel-identity-vanishes, kernel-identity-over-reals, "
       "kernel-constant-folds-in, slots-equal-join, slots-symmetric-swap, "
       "sum-factor-leaves-exact, sum-factor-leaves-rounded, sum-factor-leaves-producer, "
       "sum-factor-leaves-unbounded, sum-factor-leaves-unbounded-producer, "
       "max-factor-leaves-positive, reduce-repeated-exact, reduce-repeated-rounded, "
       "view-copy-read-through"},
      {{"explain", "x:f32[2] * 2", "--rules", "laws.egg"},
       1,
       "luminal: [read] cannot open 'laws.egg': No such file or directory"},
      {{"explain", "x:f32[2] * 2", "--device", "cuda"},
       1,
       "luminal: [device] unknown device 'cuda'; this build has: " + devices()},
      {{"bench", "x:f32[2] *"},
       1,
       "luminal: [formula] unexpected end of the formula (column 11)\n  x:f32[2] *\n            ^"},
      {{"egg", "missing.egg"},
       2,
       "luminal egg: files: File does not exist: missing.egg (see 'luminal egg --help')"},
      {{"egg", "broken.egg"},
       1,
       "luminal: broken.egg:1:1: error: this '(' is never closed: the text ends inside the list\n 1 | "
       "(datatype Math (Num i64)\n   | ^"},
      {{"cache", "--import", "missing.db"}, 1, "luminal: [cache] there is no file missing.db"},
  });
}

}  // namespace
}  // namespace luminal::error_test
