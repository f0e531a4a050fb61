#include "programs.h"

#include <fmt/format.h>

#include <random>

namespace luminal::bench {

namespace {

using std::to_string;

// egg's math micro-benchmark (egg, tests/math.rs), as egglog's repository has it.
constexpr const char* kMath = R"(
(datatype Math (Diff Math Math) (Integral Math Math) (Add Math Math) (Sub Math Math) (Mul Math Math)
  (Div Math Math) (Pow Math Math) (Ln Math) (Sqrt Math) (Sin Math) (Cos Math) (Const i64) (Var String))
(rewrite (Add a b) (Add b a))
(rewrite (Mul a b) (Mul b a))
(rewrite (Add a (Add b c)) (Add (Add a b) c))
(rewrite (Mul a (Mul b c)) (Mul (Mul a b) c))
(rewrite (Sub a b) (Add a (Mul (Const -1) b)))
(rewrite (Add a (Const 0)) a)
(rewrite (Mul a (Const 0)) (Const 0))
(rewrite (Mul a (Const 1)) a)
(rewrite (Sub a a) (Const 0))
(rewrite (Mul a (Add b c)) (Add (Mul a b) (Mul a c)))
(rewrite (Add (Mul a b) (Mul a c)) (Mul a (Add b c)))
(rewrite (Mul (Pow a b) (Pow a c)) (Pow a (Add b c)))
(rewrite (Pow x (Const 1)) x)
(rewrite (Pow x (Const 2)) (Mul x x))
(rewrite (Diff x (Add a b)) (Add (Diff x a) (Diff x b)))
(rewrite (Diff x (Mul a b)) (Add (Mul a (Diff x b)) (Mul b (Diff x a))))
(rewrite (Diff x (Sin x)) (Cos x))
(rewrite (Diff x (Cos x)) (Mul (Const -1) (Sin x)))
(rewrite (Integral (Const 1) x) x)
(rewrite (Integral (Cos x) x) (Sin x))
(rewrite (Integral (Sin x) x) (Mul (Const -1) (Cos x)))
(rewrite (Integral (Add f g) x) (Add (Integral f x) (Integral g x)))
(rewrite (Integral (Sub f g) x) (Sub (Integral f x) (Integral g x)))
(rewrite (Integral (Mul a b) x) (Sub (Mul a (Integral b x)) (Integral (Mul (Diff x a) (Integral b x)) x)))
(Integral (Ln (Var "x")) (Var "x"))
(Integral (Add (Var "x") (Cos (Var "x"))) (Var "x"))
(Integral (Mul (Cos (Var "x")) (Var "x")) (Var "x"))
(Diff (Var "x") (Add (Const 1) (Mul (Const 2) (Var "x"))))
(Diff (Var "x") (Sub (Pow (Var "x") (Const 3)) (Mul (Const 7) (Pow (Var "x") (Const 2)))))
(Add (Mul (Var "y") (Add (Var "x") (Var "y"))) (Sub (Add (Var "x") (Const 2)) (Add (Var "x") (Var "x"))))
(Div (Const 1) (Sub (Div (Add (Const 1) (Sqrt (Var "five"))) (Const 2))
                    (Div (Sub (Const 1) (Sqrt (Var "five"))) (Const 2))))
)";

EgglogCase math(int runs) { return {"math_" + to_string(runs), kMath, fmt::format("(run {})", runs)}; }

EgglogCase associativity_commutativity(int leaves) {
  std::string term = "(V 0)";
  for (int i = 1; i < leaves; i++) term = fmt::format("(Add (V {}) {})", i, term);
  return {fmt::format("ac_{}", leaves),
          "(datatype E (Add E E) (V i64))\n(rewrite (Add a b) (Add b a))\n"
          "(rewrite (Add a (Add b c)) (Add (Add a b) c))\n(rewrite (Add (Add a b) c) (Add a (Add b c)))\n" +
              term,
          "(run-schedule (saturate (run)))"};
}

// A tree: every node reaches its ancestors, about 1.5 million paths.
EgglogCase closure(int edges) {
  std::string facts;
  for (int i = 1; i <= edges; i++) facts += fmt::format("{}\t{}\n", i, (i - 1) / 2);
  return {"closure_" + to_string(edges),
          "(relation edge (i64 i64))\n(relation path (i64 i64))\n(rule ((edge x y)) ((path x y)))\n"
          "(rule ((path x y) (edge y z)) ((path x z)))\n(input edge \"edge.csv\")",
          "(run-schedule (saturate (run)))",
          {{"edge.csv", facts}}};
}

// Andersen's analysis: inclusion constraints over variables and heap cells.
EgglogCase points_to(int variables) {
  std::mt19937_64 random(11);
  const auto pairs = [&](int count) {
    std::string text;
    // Neighbours mostly, so that sets stay small, and a few far ones.
    for (int i = 0; i < count; i++) {
      const auto a = static_cast<int64_t>(random() % static_cast<uint64_t>(variables));
      const auto far = static_cast<int64_t>(random() % (i % 50 == 0 ? static_cast<uint64_t>(variables) : 40));
      text += fmt::format("{}\t{}\n", a, (a + far) % variables);
    }
    return text;
  };
  return {"points_to_" + to_string(variables),
          "(relation address (i64 i64))\n(relation assign (i64 i64))\n(relation load (i64 i64))\n"
          "(relation store (i64 i64))\n(relation points (i64 i64))\n(relation heap (i64 i64))\n"
          "(rule ((address x o)) ((points x o)))\n"
          "(rule ((assign x y) (points y o)) ((points x o)))\n"
          "(rule ((load x y) (points y p) (heap p o)) ((points x o)))\n"
          "(rule ((store x y) (points x p) (points y o)) ((heap p o)))\n"
          "(input address \"address.csv\")\n(input assign \"assign.csv\")\n(input load \"load.csv\")\n"
          "(input store \"store.csv\")",
          "(run 8)",
          {{"address.csv", pairs(variables / 2)},
           {"assign.csv", pairs(variables)},
           {"load.csv", pairs(variables / 4)},
           {"store.csv", pairs(variables / 4)}}};
}

// Type inference by unification: equal arrows have equal parts.
EgglogCase lambda_types(int terms) {
  std::mt19937_64 random(5);
  int variable = 0;
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const auto build = [&](auto&& self, std::vector<int>& scope, int depth) -> std::string {
    const int kind = depth == 0 ? 0 : pick(5);
    if (kind == 0 && !scope.empty())
      return fmt::format("(Ref {})", scope[static_cast<size_t>(pick(static_cast<int>(scope.size())))]);
    if (kind == 0) return "(Lit 1)";
    if (kind <= 2) {
      scope.push_back(variable++);
      std::string body = self(self, scope, depth - 1);
      std::string text = fmt::format("(Lam {} {})", scope.back(), body);
      scope.pop_back();
      return text;
    }
    const std::string function = self(self, scope, depth - 1);
    return fmt::format("(App {} {})", function, self(self, scope, depth - 1));
  };
  std::string setup =
      "(datatype Expr (Ref i64) (Lit i64) (Lam i64 Expr) (App Expr Expr))\n"
      "(datatype Type (Int) (Arrow Type Type) (TypeOf Expr) (TypeOfVariable i64))\n"
      "(rule ((= e (Lit n))) ((union (TypeOf e) (Int))))\n"
      "(rule ((= e (Ref x))) ((union (TypeOf e) (TypeOfVariable x))))\n"
      "(rule ((= e (Lam x b))) ((union (TypeOf e) (Arrow (TypeOfVariable x) (TypeOf b)))))\n"
      "(rule ((= e (App f a))) ((union (TypeOf f) (Arrow (TypeOf a) (TypeOf e)))))\n"
      "(rule ((= (Arrow a b) (Arrow c d))) ((union a c) (union b d)))\n";
  for (int i = 0; i < terms; i++) {
    std::vector<int> scope;
    setup += build(build, scope, 9) + "\n";
  }
  return {"lambda_types_" + to_string(terms), setup, "(run-schedule (saturate (run)))"};
}

// Vectors and sets of classes that are united a few at a time: containers are rebuilt in each round.
EgglogCase containers(int rows) {
  std::mt19937_64 random(3);
  const int leaves = rows / 5;
  std::string triples, merges;
  const auto leaf = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(leaves)); };
  for (int i = 0; i < rows; i++) triples += fmt::format("{}\t{}\t{}\n", leaf(), leaf(), leaf());
  for (int i = 0; i < leaves / 2; i++) merges += fmt::format("{}\t{}\t{}\n", i % 20, leaf(), leaf());
  return {"containers_" + to_string(rows),
          "(datatype* (E (L i64) (Row Items) (Bag ESet)) (sort Items (Vec E)) (sort ESet (Set E)))\n"
          "(relation triple (i64 i64 i64))\n(relation merge (i64 i64 i64))\n(relation turn (i64))\n"
          "(relation has (E E))\n"
          "(rule ((triple a b c)) ((Row (vec-of (L a) (L b) (L c)))))\n"
          "(rule ((= e (Row v)) (= x (vec-get v 0)) (= y (vec-get v 1))) ((Bag (set-of x y)) (has e x)))\n"
          "(rule ((turn r) (< r 20)) ((turn (+ r 1))))\n"
          "(rule ((turn r) (merge r a b)) ((union (L a) (L b))))\n"
          "(turn 0)\n(input triple \"triple.csv\")\n(input merge \"merge.csv\")",
          "(run 24)",
          {{"triple.csv", triples}, {"merge.csv", merges}}};
}

// The algebra of a transformer's training step: axes are bits of an integer, laws are directed.
constexpr const char* kTensorLaws = R"(
(datatype T (In String i64) (C f64) (Mul T T) (Add T T) (Exp2 T) (Recip T) (Lt T T) (Where T T T) (Sum i64 T)
  (MaxR i64 T) (On i64 T T))
(function ax (T) i64 :merge (& old new))
(relation pos (T))
(ruleset facts)
(ruleset alg)
(rule ((= t (In n a))) ((set (ax t) a)) :ruleset facts)
(rule ((= t (C c))) ((set (ax t) 0)) :ruleset facts)
(rule ((= t (C c)) (> c 0.0)) ((pos t)) :ruleset facts)
(rule ((= t (Mul a b)) (= x (ax a)) (= y (ax b))) ((set (ax t) (| x y))) :ruleset facts)
(rule ((= t (Add a b)) (= x (ax a)) (= y (ax b))) ((set (ax t) (| x y))) :ruleset facts)
(rule ((= t (Lt a b)) (= x (ax a)) (= y (ax b))) ((set (ax t) (| x y))) :ruleset facts)
(rule ((= t (Where c a b)) (= z (ax c)) (= x (ax a)) (= y (ax b))) ((set (ax t) (| z (| x y)))) :ruleset facts)
(rule ((= t (Exp2 a)) (= x (ax a))) ((set (ax t) x)) :ruleset facts)
(rule ((= t (Recip a)) (= x (ax a))) ((set (ax t) x)) :ruleset facts)
(rule ((= t (Sum k a)) (= x (ax a))) ((set (ax t) (& x (^ k 65535)))) :ruleset facts)
(rule ((= t (MaxR k a)) (= x (ax a))) ((set (ax t) (& x (^ k 65535)))) :ruleset facts)
(rule ((= t (On k s w)) (= x (ax s)) (= y (ax w))) ((set (ax t) (& (| x y) (^ k 65535)))) :ruleset facts)
(rewrite (Mul a b) (Mul b a) :ruleset alg)
(rewrite (Add a b) (Add b a) :ruleset alg)
(rule ((= t (Sum k (Mul a b))) (= 0 (& k (ax a)))) ((union t (Mul a (Sum k b)))) :ruleset alg)
(rule ((= t (Sum k (Mul (Mul p r) q))) (= 0 (& k (ax r)))) ((union t (Mul r (Sum k (Mul p q))))) :ruleset alg)
(rule ((= t (Mul c (Add s (Mul n m)))) (= c (C cc)) (= n (C -1.0)))
      ((union t (Add (Mul c s) (Mul n (Mul c m))))) :ruleset alg)
(rule ((= t (Mul c (MaxR k s))) (pos c)) ((union t (MaxR k (Mul c s)))) :ruleset alg)
(rule ((= t (Sum k (Exp2 (Add s (Mul n m))))) (= n (C -1.0)) (= m (MaxR k s)))
      ((union t (On k s (C 1.0)))) :ruleset alg)
(rule ((= t (Sum k (Mul (Exp2 (Add s (Mul n m))) w))) (= n (C -1.0)) (= m (MaxR k s)))
      ((union t (On k s w))) :ruleset alg)
(rule ((= t (Sum j (Mul p (Sum d (Mul a b))))) (= 0 (& j (ax a))) (= 0 (& d (ax p))))
      ((union t (Sum d (Mul a (Sum j (Mul p b)))))) :ruleset alg)
)";

// Axes: 1 query, 2 key, 4 value, 8 head, 16 group, 32 model, 64 hidden.
EgglogCase transformer(int layers) {
  std::string text = kTensorLaws;
  const auto let = [&](std::string name, int layer, std::string body) {
    text += fmt::format("(let ${}{} {})\n", name, layer, body);
  };
  text += "(let $x0 (In \"x\" 33))\n";
  for (int i = 0; i < layers; i++) {
    const auto v = [&](const char* name) { return fmt::format("${}{}", name, i); };
    let("q", i, fmt::format("(Sum 32 (Mul {} (In \"wq{}\" 56)))", v("x"), i));
    let("k", i, fmt::format("(Sum 32 (Mul (In \"kx{}\" 34) (In \"wk{}\" 56)))", i, i));
    let("v", i, fmt::format("(Sum 32 (Mul (In \"vx{}\" 34) (In \"wv{}\" 52)))", i, i));
    let("s", i,
        fmt::format(
            "(Where (Lt (In \"i\" 1) (In \"j\" 2)) (C -1000000.0) (Mul (C 0.125) (Sum 8 (Mul {} {}))))",
            v("q"), v("k")));
    let("p", i, fmt::format("(Exp2 (Mul (C 1.4427) (Add {} (Mul (C -1.0) (MaxR 2 {})))))", v("s"), v("s")));
    let("n", i, fmt::format("(Mul {} (Recip (Sum 2 {})))", v("p"), v("p")));
    let("o", i, fmt::format("(Sum 2 (Mul {} {}))", v("n"), v("v")));
    let("y", i, fmt::format("(Add {} (Sum 20 (Mul {} (In \"wo{}\" 52))))", v("x"), v("o"), i));
    let("h", i, fmt::format("(Exp2 (Sum 32 (Mul {} (In \"w1{}\" 96))))", v("y"), i));
    let("x", i + 1, fmt::format("(Add {} (Sum 64 (Mul {} (In \"w2{}\" 96))))", v("y"), v("h"), i));
    // The gradients, from an upstream one of this layer.
    let("go", i, fmt::format("(In \"go{}\" 21)", i));
    let("dp", i, fmt::format("(Sum 4 (Mul {} {}))", v("go"), v("v")));
    let("dd", i, fmt::format("(Sum 2 (Mul {} {}))", v("dp"), v("n")));
    let("ds", i, fmt::format("(Mul {} (Add {} (Mul (C -1.0) {})))", v("n"), v("dp"), v("dd")));
    let("dq", i, fmt::format("(Mul (C 0.125) (Sum 2 (Mul {} {})))", v("ds"), v("k")));
    let("dk", i, fmt::format("(Mul (C 0.125) (Sum 1 (Mul {} {})))", v("ds"), v("q")));
    let("dv", i, fmt::format("(Sum 1 (Mul {} {}))", v("n"), v("go")));
    let("dw", i, fmt::format("(Sum 1 (Mul {} {}))", v("x"), v("dq")));
  }
  return {"transformer_" + to_string(layers), text,
          "(run-schedule (saturate (run facts)))\n(run-schedule (repeat 8 (seq (run alg) (saturate (run "
          "facts)))))"};
}

}  // namespace

std::vector<EgglogCase> egglog_cases() {
  std::vector<EgglogCase> cases;
  for (int runs = 8; runs <= 12; runs++) cases.push_back(math(runs));
  for (int leaves = 8; leaves <= 11; leaves++) cases.push_back(associativity_commutativity(leaves));
  cases.push_back(closure(100'000));
  cases.push_back(points_to(20'000));
  cases.push_back(lambda_types(2'000));
  cases.push_back(containers(20'000));
  cases.push_back(transformer(24));
  return cases;
}

}  // namespace luminal::bench
