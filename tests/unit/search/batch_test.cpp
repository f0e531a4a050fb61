#include "search/verification/batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/verification/contain.h"
#include "support/plain_kernel.h"

// Kernels judged side by side, in contained processes.
namespace luminal::search {
namespace {

constexpr int64_t kSize = 64;

/// Elements of y = x * 3, each a task; `change` is applied to what it makes of x. Counts what it ran.
std::shared_ptr<test::PlainKernel> triple(std::function<float(float x, int64_t i)> change,
                                          std::atomic<int>* runs = nullptr) {
  return std::make_shared<test::PlainKernel>(
      kSize, [change = std::move(change), runs](void* const* buffers, int64_t i) {
        const float x = static_cast<const float*>(buffers[0])[i];
        static_cast<float*>(buffers[1])[i] = x * 3 + change(x, i);
        if (runs != nullptr) ++*runs;
      });
}

float right(float, int64_t) { return 0; }
/// Right on the small integers that come first.
float wrong_between_integers(float x, int64_t i) {
  return i == 17 && std::isfinite(x) && x != std::floor(x) ? 1 : 0;
}

/// What a candidate for x * 3 gets. `soak`: launches that take longer count as long ones.
FullVerdict verdict_on(const backends::Kernel& candidate, std::vector<const backends::Kernel*> independent,
                       std::optional<size_t> peer, std::chrono::milliseconds soak, int workers) {
  Graph cx;
  const auto x = cx.tensor({kSize});
  const auto y = (x * 3).retrieve();
  Subject subject{.graph = &cx, .unit = {}, .sizes = {{}}, .options = {}};
  subject.unit.tensors = {{cx.type(x.edge().source), x.edge().source, {}},
                          {cx.type(y.edge().source), y.edge().source, {}}};
  subject.unit.kernels = {{.inputs = {0}, .outputs = {1}, .spec = encode(cx).tensors.back().spec}};
  const FullCheck check{.subject = &subject,
                        .candidate = &candidate,
                        .independent = std::move(independent),
                        .peer = peer,
                        .split = {},
                        .options = {.threads = 1, .in_parts = false, .soak = soak}};
  return verify_in_full({&check, 1}, workers)[0];
}

/// Launches that count as long ones: further inputs are compared with what a peer makes of them.
class Peers : public testing::Test {
 protected:
  static FullVerdict verdict(const backends::Kernel& candidate, const backends::Kernel& plain,
                             const backends::Kernel& peer) {
    return verdict_on(candidate, {&plain, &peer}, 1, std::chrono::milliseconds(0), 1);
  }

  const SharedBytes shared_{sizeof(std::atomic<int>)};
  std::atomic<int>& runs_of_peer_ = shared_.as<std::atomic<int>>()[0];
};

TEST_F(Peers, StandInForPlainLoopsOnFurtherInputs) {
  const auto candidate = triple(right), plain = triple(right), peer = triple(right, &runs_of_peer_);
  const FullVerdict found = verdict(*candidate, *plain, *peer);
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_GE(runs_of_peer_, kSize);
  EXPECT_GE(found.compared, 2 * kSize);
}

TEST_F(Peers, ThatAreWrongDoNotBringDownWhatIsRight) {
  const auto candidate = triple(right), plain = triple(right),
             peer = triple(wrong_between_integers, &runs_of_peer_);
  const FullVerdict found = verdict(*candidate, *plain, *peer);
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_GE(runs_of_peer_, kSize);
}

// With as many processes as kinds of inputs each of them sees one kind.
TEST(SharedOutKinds, DoNotHideWhatALaunchKeepsForTheNext) {
  for (const int workers : {1, 2, 4, 6}) {
    const auto plain = triple(right);
    auto last = std::make_shared<std::optional<float>>();
    const auto keeps = triple([last](float x, int64_t i) {
      if (i != 17) return 0.0F;
      const float before = last->value_or(x);
      *last = x;
      return std::isfinite(x) && std::isfinite(before) ? 3 * before - 3 * x : 0;
    });
    const FullVerdict found = verdict_on(*keeps, {plain.get()}, {}, std::chrono::milliseconds(10), workers);
    ASSERT_TRUE(found.fault) << workers << " processes";
    EXPECT_EQ(found.fault->position, 17);
  }
}

TEST_F(Peers, DoNotHideWhatIsWrong) {
  const auto plain = triple(right), wrong = triple(wrong_between_integers);
  const auto other = triple([](float x, int64_t i) { return 2 * wrong_between_integers(x, i); });
  for (const auto& peer :
       {triple(right), other, wrong}) {  // right, wrong in another way, wrong in the same way
    const FullVerdict found = verdict(*wrong, *plain, *peer);
    ASSERT_TRUE(found.fault);
    EXPECT_EQ(found.fault->position, 17);
  }
}

}  // namespace
}  // namespace luminal::search
