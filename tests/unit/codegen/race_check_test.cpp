#include <gmock/gmock.h>

#include "codegen/emit/c_family.h"
#include "codegen/emit/llvm.h"
#include "luminal/error.h"
#include "support/files.h"
#include "unit/codegen/block_programs.h"

/// What the interpreter finds in blocks of threads, and what the verifier refuses before.
namespace luminal::codegen {
namespace {

using test::error_of;
using test_cases::gpu;
using testing::HasSubstr;
using FindingKind = Finding::Kind;

constexpr int kThreads = 64;

/// Y[64 t + i] = X[64 t + 63 - i], through memory of the block. `body` does so with the buffers' numbers.
struct Reversal {
  int x = 0, y = 1, part = 2, shared = 3;
  Program program{.name = "reversed"};
  explicit Reversal(const std::function<void(const Reversal&, StageBuilder&)>& body, int64_t tasks = 2) {
    add_buffer(program, {.name = "X", .space = Space::Slot, .elements = kThreads * tasks, .is_kept = true});
    add_buffer(program, {.name = "Y", .space = Space::Output, .elements = kThreads * tasks});
    add_buffer(program, {.name = "part", .space = Space::Block, .elements = kThreads});
    add_buffer(program, {.name = "shared", .space = Space::Shared, .elements = kThreads * tasks});
    StageBuilder b(program, tasks, kThreads);
    body(*this, b);
    b.finish();
  }
  [[nodiscard]] RaceReport run() const {
    const int64_t count = program.buffers[0].elements.exec({});
    return check_races(program, std::vector{test_cases::numbers(Dtype::F32, count, 3)});
  }
};

void reverse(const Reversal& r, StageBuilder& b) {
  const Expression first = b.task() * kThreads, me = b.thread();
  b.store(r.part, me, b.load(r.x, first + me));
  b.barrier();
  b.store(r.y, first + me, b.load(r.part, kThreads - 1 - me));
}

/// The only finding of a program.
Finding finding_of(const std::function<void(const Reversal&, StageBuilder&)>& body) {
  static std::vector<std::unique_ptr<Reversal>> kept;  // findings name instructions
  const RaceReport report = kept.emplace_back(std::make_unique<Reversal>(body))->run();
  EXPECT_EQ(report.findings.size(), 1U) << report.to_string();
  return report.findings.empty() ? Finding() : report.findings[0];
}

TEST(RaceCheck, TextOfABlock) {
  EXPECT_EQ(Reversal(reverse).program.to_string(), R"(kernel reversed():
  X = slot 0 f32[128] kept
  Y = output 0 f32[128]
  part = block f32[64]
  shared = shared f32[128]
stage 0: task i0 in 2, thread i1 in 64
  %0 = f32 load X[64*i0 + i1]
  store part[i1] = %0
  barrier
  %1 = f32 load part[63 - i1]
  store Y[64*i0 + i1] = %1
)");
}

TEST(RaceCheck, ThreadsThatMeetAtABarrierAreRight) {
  const Reversal r(reverse);
  verify(r.program, gpu());
  const RaceReport report = r.run();
  EXPECT_EQ(report.found, 0) << report.to_string();
  const TensorData x = test_cases::numbers(Dtype::F32, 2 * kThreads, 3);
  for (size_t i = 0; i < 2 * kThreads; ++i)
    EXPECT_EQ(report.outputs[0].as<float>()[i],
              x.as<float>()[i / kThreads * kThreads + kThreads - 1 - i % kThreads]);
}

TEST(RaceCheck, AMissingBarrierIsARace) {
  const Finding f = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    b.store(r.part, me, b.load(r.x, first + me));
    b.store(r.y, first + me, b.load(r.part, kThreads - 1 - me));
  });
  EXPECT_EQ(f.kind, FindingKind::ThreadRace);
  ASSERT_NE(f.instruction, nullptr);
  EXPECT_EQ(f.instruction->kind, Instruction::Kind::Load);
  EXPECT_EQ(f.buffer, 2);
  EXPECT_EQ(f.element, 63);
  EXPECT_EQ(f.thread, 0);
  EXPECT_EQ(f.other_thread, 63);
  EXPECT_EQ(f.phase, 0);
  EXPECT_EQ(f.message, "thread 0 reads element 63 of part, which thread 63 writes, with no barrier between");
}

/// A second round of stores needs a second barrier: threads may still read what the first one left.
TEST(RaceCheck, AWriteAfterReadsIsARace) {
  const Finding f = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    b.store(r.part, me, b.load(r.x, first + me));
    b.barrier();
    const Id other = b.load(r.part, kThreads - 1 - me);
    b.store(r.part, me, other);
    b.store(r.y, first + me, other);
  });
  EXPECT_EQ(f.kind, FindingKind::ThreadRace);
  EXPECT_EQ(f.phase, 1);
  EXPECT_THAT(f.message, HasSubstr("thread 0 writes element 0 of part, which thread 63 reads"));
}

/// Also where the first of several readers is the one that writes.
TEST(RaceCheck, AWriteOfWhatAllReadIsARace) {
  const Finding f = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    b.store(r.part, me, b.load(r.x, first + me));
    b.barrier();
    const Id all = b.load(r.part, 0);
    b.if_holds(me.lt(1), [&] { b.store(r.part, 0, all); });
    b.store(r.y, first + me, all);
  });
  EXPECT_EQ(f.kind, FindingKind::ThreadRace);
  EXPECT_EQ(f.thread, 0);
  EXPECT_EQ(f.other_thread, 63);
}

TEST(RaceCheck, TwoThreadsThatWriteOneElementAreARace) {
  const Finding f = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    const Id x = b.load(r.x, first + me);
    b.store(r.part, me / 2, x);
    b.store(r.y, first + me, x);
  });
  EXPECT_EQ(f.kind, FindingKind::ThreadRace);
  EXPECT_EQ(f.thread, 1);
  EXPECT_EQ(f.other_thread, 0);
}

TEST(RaceCheck, MemoryOfTheLaunchIsSharedByThreadsAndTasks) {
  const Finding threads = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    b.store(r.shared, first + me, b.load(r.x, first + me));
    b.store(r.y, first + me, b.load(r.shared, first + kThreads - 1 - me));
  });
  EXPECT_EQ(threads.kind, FindingKind::ThreadRace);
  EXPECT_EQ(threads.buffer, 3);
  const Finding tasks = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    const Id x = b.load(r.x, first + me);
    b.store(r.shared, me, x);
    b.store(r.y, first + me, x);
  });
  EXPECT_EQ(tasks.kind, FindingKind::TaskRace);
  EXPECT_EQ(tasks.task, 1);
  EXPECT_EQ(tasks.message, "two tasks of a stage write element 0 of shared");
}

TEST(RaceCheck, HolesAndAccessesOutsideAreFound) {
  const Finding unwritten = finding_of([](const Reversal& r, StageBuilder& b) {
    b.store(r.y, b.task() * kThreads + b.thread(), b.load(r.part, b.thread()));
  });
  EXPECT_EQ(unwritten.kind, FindingKind::Unwritten);
  EXPECT_EQ(unwritten.message, "reads element 0 of part, which nobody wrote");
  const Finding outside = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression me = b.task() * kThreads + b.thread();
    b.store(r.y, me, b.load(r.x, me + 1));
  });
  EXPECT_EQ(outside.kind, FindingKind::OutOfBounds);
  EXPECT_EQ(outside.element, 128);
  EXPECT_EQ(outside.task, 1);
  EXPECT_EQ(outside.thread, 63);
  const Finding never = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression me = b.task() * kThreads + b.thread();
    b.if_holds(me.lt(100), [&] { b.store(r.y, me, b.load(r.x, me)); });
  });
  EXPECT_EQ(never.kind, FindingKind::NeverWritten);
  EXPECT_EQ(never.element, 100);
  const Reversal twice([](const Reversal& r, StageBuilder& b) {
    const Expression me = b.task() * kThreads + b.thread();
    for (int k = 0; k < 2; ++k) b.store(r.y, me, b.load(r.x, me));
  });
  EXPECT_EQ(twice.run().found, 2 * kThreads);
  EXPECT_EQ(twice.run().findings.at(0).kind, FindingKind::WrittenTwice);
}

/// Where an output may take the memory of a slot, threads that read the slot read what others write.
TEST(RaceCheck, AnOutputMayLieWhereASlotDoes) {
  const auto findings = [](bool is_kept, bool waits) {
    Reversal r([&](const Reversal& own, StageBuilder& b) {
      const Expression me = b.task() * kThreads + b.thread();
      const Id other = b.load(own.x, b.task() * kThreads + kThreads - 1 - b.thread());
      if (waits) b.barrier();
      b.store(own.y, me, other);
    });
    r.program.buffers[0].is_kept = is_kept;
    const RaceReport report = r.run();
    std::string all;
    for (const Finding& f : report.findings) all += std::string(name(f.kind)) + ": " + f.message + "\n";
    return all;
  };
  EXPECT_EQ(findings(true, false), "");
  EXPECT_EQ(findings(false, true), "");
  EXPECT_EQ(findings(false, false),
            "thread race: thread 0 writes element 0 of Y, which thread 63 reads, with no barrier between\n");
  // A read behind the writes is too late, whoever wrote.
  Reversal late([](const Reversal& r, StageBuilder& b) {
    const Expression me = b.task() * kThreads + b.thread();
    b.store(r.y, me, b.load(r.x, me));
    b.barrier();
    b.store(r.shared, me, b.load(r.x, me));
  });
  late.program.buffers[0].is_kept = false;
  const RaceReport report = late.run();
  ASSERT_EQ(report.findings.size(), 1U) << report.to_string();
  EXPECT_EQ(report.findings[0].kind, FindingKind::Overwritten);
  EXPECT_EQ(report.findings[0].message, "reads element 0 of X, where Y may be written by then");
}

/// Workspaces of tasks that came before are not what a block finds in its own.
TEST(RaceCheck, ABlockFindsNothingOfTheTaskBefore) {
  const Finding f = finding_of([](const Reversal& r, StageBuilder& b) {
    const Expression first = b.task() * kThreads, me = b.thread();
    b.if_holds(b.task().lt(1), [&] { b.store(r.part, me, b.load(r.x, first + me)); });
    b.barrier();
    b.store(r.y, first + me, b.load(r.part, me));
  });
  EXPECT_EQ(f.kind, FindingKind::Unwritten);
  EXPECT_EQ(f.task, 1);
}

void barrier_of_a_half(const Reversal& r, StageBuilder& b) {
  const Expression me = b.task() * kThreads + b.thread();
  b.if_holds(b.thread().lt(kThreads / 2), [&] { b.barrier(); });
  b.store(r.y, me, b.load(r.x, me));
}

void barrier_of_uneven_loops(const Reversal& r, StageBuilder& b) {
  const Expression me = b.task() * kThreads + b.thread();
  b.loop(b.thread() / 60 + 1, LoopKind::Serial, [&](const Expression&) { b.barrier(); });
  b.store(r.y, me, b.load(r.x, me));
}

TEST(RaceCheck, BarriersThatSomePassByAreFoundAndRefused) {
  const Finding branch = finding_of(barrier_of_a_half);
  EXPECT_EQ(branch.kind, FindingKind::Divergence);
  EXPECT_EQ(branch.message, "32 of 64 threads come to a barrier, thread 32 does not");
  EXPECT_EQ(finding_of(barrier_of_uneven_loops).message,
            "4 of 64 threads come to a barrier, thread 0 does not");
  const auto problem = [](const std::function<void(const Reversal&, StageBuilder&)>& body) {
    const Reversal r(body);
    return error_of<InternalError>([&] { verify(r.program); });
  };
  EXPECT_THAT(problem(barrier_of_a_half), HasSubstr("barrier: stands in a branch on %2, which threads see"));
  EXPECT_THAT(problem(barrier_of_uneven_loops),
              HasSubstr("stands in a loop of i1/60 + 1 passes, which threads see"));
  // What a loop carries differs from its second pass on.
  EXPECT_THAT(
      problem([](const Reversal& r, StageBuilder& b) {
        const Expression me = b.task() * kThreads + b.thread();
        const Type type{Dtype::I64, 1};
        b.loop(3, LoopKind::Serial, {b.constant(type, 0)}, [&](const Expression&, std::span<const Id> v) {
          b.if_true(b.compute(ScalarOp::Eq, {v[0], b.constant(type, 0)}), [&] { b.barrier(); });
          return std::vector<Id>{b.index(b.thread())};
        });
        b.store(r.y, me, b.load(r.x, me));
      }),
      HasSubstr("barrier: stands in a branch"));
  // What other threads may write is not known to be the same.
  EXPECT_THAT(problem([](const Reversal& r, StageBuilder& b) {
                const Expression me = b.task() * kThreads + b.thread();
                b.store(r.part, b.thread(), b.load(r.x, me));
                b.barrier();
                const Id some = b.compute(ScalarOp::Lt, {b.load(r.part, 0), b.constant({Dtype::F32, 1}, 0)});
                b.if_true(some, [&] { b.barrier(); });
                b.store(r.y, me, b.load(r.x, me));
              }),
              HasSubstr("barrier: stands in a branch"));
}

TEST(RaceCheck, BarriersInLoopsAndBranchesThatAreTheSameForAllAreRight) {
  const Reversal r([](const Reversal& own, StageBuilder& b) {
    const Expression me = b.task() * kThreads + b.thread();
    b.loop(b.task() + 1, LoopKind::Serial, [&](const Expression&) { b.barrier(); });
    b.if_true(b.compute(ScalarOp::Lt, {b.load(own.x, 0), b.constant({Dtype::F32, 1}, 9)}),
              [&] { b.barrier(); });
    b.store(own.y, me, b.load(own.x, me));
  });
  verify(r.program, gpu());
  EXPECT_EQ(r.run().found, 0);
}

TEST(RaceCheck, TheVerifierRefusesWhatNoBlockIs) {
  const auto problem = [](const std::function<void(Program&)>& spoil, const Target& target = gpu()) {
    Reversal r(reverse);
    spoil(r.program);
    return error_of<InternalError>([&] { verify(r.program, target); });
  };
  verify(Reversal(reverse).program, gpu());
  EXPECT_THAT(problem([](Program& p) { p.stages[0].threads = 1, p.stages[0].thread_variable = -1; }),
              HasSubstr("uses i1, which no open loop has"));
  EXPECT_THAT(problem([](Program& p) { p.stages[0].threads = 4096; }), HasSubstr("4096 threads in a block"));
  EXPECT_THAT(problem([](Program& p) { p.stages[0].thread_variable = 0; }),
              HasSubstr("i0 is used by two loops"));
  EXPECT_THAT(problem([](Program& p) { p.stages[0].threads = 512; }),
              HasSubstr("blocks of 512 threads, where gpu has 256 at most"));
  EXPECT_THAT(problem([](Program& p) { p.buffers[2].elements = 20000; }),
              HasSubstr("80000 bytes for a block, where gpu has 49152 at most"));
  EXPECT_THAT(problem([](Program& p) { p.dims = {"n"}, p.buffers[2].elements = "n"; }),
              HasSubstr("buffer part of a block has no fixed size"));
  EXPECT_THAT(problem([](Program&) {}, test_cases::avx2()),
              HasSubstr("blocks of 64 threads, where cpu has 0 at most"));
  // A task of a single thread has neither barriers nor memory of a block.
  Program alone{.name = "alone"};
  add_buffer(alone, {.name = "Y", .space = Space::Output});
  add_buffer(alone, {.name = "part", .space = Space::Block});
  const auto alone_problem = [&](const std::function<void(StageBuilder&)>& body) {
    Program p = alone;
    StageBuilder b(p, 1);
    body(b);
    b.store(0, 0, b.constant({Dtype::F32, 1}, 1));
    b.finish();
    return error_of<InternalError>([&] { verify(p); });
  };
  EXPECT_THAT(alone_problem([](StageBuilder& b) { b.barrier(); }),
              HasSubstr("a thread alone waits for nobody"));
  EXPECT_THAT(alone_problem([](StageBuilder& b) { b.store(1, 0, b.constant({Dtype::F32, 1}, 1)); }),
              HasSubstr("part belongs to a block of threads"));
}

TEST(RaceCheck, PrintersOfLanguagesWithoutBlocksRefuseThem) {
  const Program p = Reversal(reverse).program;
  EXPECT_THAT(error_of<InternalError>([&] { (void)emit_llvm(p, {}); }), HasSubstr("blocks of 64 threads"));
  EXPECT_THAT(error_of<InternalError>([&] { (void)emit_c(p, plain_c()); }),
              HasSubstr("blocks of threads, which C has not"));
  const std::string text = emit_c(p, opencl_c());
  EXPECT_THAT(text, HasSubstr("reqd_work_group_size(64, 1, 1)"));
  EXPECT_THAT(text, HasSubstr("const long i1 = (long)get_local_id(0);"));
  EXPECT_THAT(text, HasSubstr("__local float b2_part[64];"));
  EXPECT_THAT(text, HasSubstr("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"));
}

/// Stores of 64 threads `stride` apart to memory of the block, loads of X `far` apart.
AccessFigures figures_of(int64_t stride, int64_t far) {
  Program p{.name = "strides"};
  add_buffer(p, {.name = "X", .space = Space::Slot, .elements = kThreads * far});
  add_buffer(p, {.name = "Y", .space = Space::Output, .elements = kThreads});
  add_buffer(p, {.name = "part", .space = Space::Block, .elements = kThreads * stride});
  StageBuilder b(p, 1, kThreads);
  const Id x = b.load(0, b.thread() * far);
  b.store(2, b.thread() * stride, x);
  b.store(1, b.thread(), x);
  b.finish();
  return check_races(p, std::vector{test_cases::numbers(Dtype::F32, kThreads * far, 1)}).figures;
}

TEST(RaceCheck, BanksAndSegmentsAreCounted) {
  const AccessFigures best = figures_of(1, 1);
  EXPECT_EQ(best.block_accesses, 2);  // warps
  EXPECT_EQ(best.bank_conflicts, 0);
  EXPECT_EQ(best.global_accesses, 4);
  EXPECT_EQ(best.segments, 4);
  EXPECT_EQ(best.least_segments, 4);
  EXPECT_EQ(figures_of(2, 1).bank_conflicts, 2 * 1);    // two words of each of 16 banks
  EXPECT_EQ(figures_of(32, 1).bank_conflicts, 2 * 31);  // all in one bank
  EXPECT_EQ(figures_of(33, 1).bank_conflicts, 0);       // one in each
  EXPECT_EQ(figures_of(1, 2).segments, 4 + 2);
  EXPECT_EQ(figures_of(1, 2).least_segments, 4);
  EXPECT_EQ(figures_of(1, 32).segments, 64 + 2);
}

}  // namespace
}  // namespace luminal::codegen
