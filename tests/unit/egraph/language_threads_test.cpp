// Several threads on programs of real sizes: the same rows, ids and order included.
#include <gtest/gtest.h>

#include <vector>

#include "luminal/egglog.h"
#include "unit/egraph/core_dump.h"

namespace luminal::egraph {
namespace {

using testing::dump;

// Blocks, pieces of scans and tables that grow and shrink by their real sizes.
TEST(ManyThreads, LargeProgramGivesTheSameRows) {
  const char* text = R"(
    (datatype E (Add E E) (Mul E E) (V i64))
    (function least (E) i64 :merge (min old new))
    (relation seen (E E))
    (rewrite (Add a b) (Add b a))
    (rewrite (Add a (Add b c)) (Add (Add a b) c))
    (rewrite (Add (Add a b) c) (Add a (Add b c)))
    (rewrite (Mul a (Add b c)) (Add (Mul a b) (Mul a c)))
    (rule ((= e (V n))) ((set (least e) n)))
    (rule ((= e (Add a b)) (= x (least a)) (= y (least b))) ((set (least e) (+ x y)) (seen e a) (seen e b)))
    (rule ((seen a b) (seen b c)) ((seen a c)))
    (Mul (V 9) (Add (V 1) (Add (V 2) (Add (V 3) (Add (V 4) (Add (V 5) (Add (V 6) (Add (V 7) (V 8)))))))))
    (union (Add (V 1) (V 2)) (V 3)))";
  std::vector<std::vector<Value>> dumps;
  uint64_t rows = 0;
  for (const uint32_t threads : {1U, 2U, 5U}) {
    EgglogOptions options;
    options.threads = threads;
    EgglogProgram program(options);
    program.run(text);
    for (int i = 0; i < 4; i++) program.run("(run 2)");
    dumps.push_back(dump(program.graph()));
    rows = program.graph().row_count();
  }
  EXPECT_GT(rows, 20000u);
  EXPECT_EQ(dumps[0], dumps[1]);
  EXPECT_EQ(dumps[0], dumps[2]);
}

// A piece of a scan that matches too much to be kept is searched again, match by match.
TEST(ManyThreads, ExplosivePiecesGiveTheSameRows) {
  const char* text = R"(
    (relation left (i64 i64)) (relation right (i64 i64)) (relation pair (i64 i64))
    (rule ((left x k) (right k y)) ((pair x y))))";
  std::vector<std::vector<Value>> dumps;
  for (const uint32_t threads : {1U, 2U}) {
    EgglogOptions options;
    options.threads = threads;
    EgglogProgram program(options);
    program.run(text);
    EGraph& g = program.graph();
    const FunctionId left = *g.find_function("left"), right = *g.find_function("right");
    for (int64_t i = 0; i < 9000; i++) {
      g.add(left, {g.i64(i), g.i64(i % 200)});
      g.add(right, {g.i64(i % 200), g.i64(i)});
    }
    program.run("(run 1)");
    dumps.push_back(dump(g));
    EXPECT_EQ(g.row_count(*g.find_function("pair")), 9000u * 45u);
  }
  EXPECT_EQ(dumps[0], dumps[1]);
}

}  // namespace
}  // namespace luminal::egraph
