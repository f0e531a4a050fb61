#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/expression.h"
#include "luminal/scalar.h"

/// Loop IR: explicit loops over typed scalar and vector statements, between schedules and targets.
///
///   kernel: buffers A = slot 0 f32[n], Y = output 0 f32[n]
///   stage 0: task i0 in ceil(n/1024)
///     for i1 in 64 vector 16:
///       %0 = load f32x16 A[1024*i0 + 16*i1] mask n - 1024*i0 - 16*i1
///       %1 = f32x16 mul %0 %0
///       store Y[1024*i0 + 16*i1] = %1 mask ...
///
/// A program has stages. All tasks of a stage may run at once; a stage starts when the one before it is done.
/// Loops count from 0 in steps of 1: index arithmetic is an `Expression` over the loops' variables (variable
/// k is the index variable i<k> with the loop's extent) and named dims, so ranges are known to every
/// simplification. Everything else is in SSA form: an instruction defines at most one typed value; a loop
/// carries values from one iteration to the next, which is how register tiles and accumulators are written.
/// An extent may depend on outer variables (min(64, n - 64*i0)); its variable's range is then that of the
/// extent's greatest value. An extent below 1 runs nothing.
///
/// On a target that has them, a block of threads runs each task (a work-group of OpenCL, a thread block of CUDA):
///
///   stage 0: task i0 in n, thread i1 in 64
///     %0 = f32 load A[64*i0 + i1]
///     store part[i1] = %0               // part: Space::Block
///     barrier
///     %1 = f32 load part[63 - i1]       // that of another thread
///
/// Every thread runs the whole body, at any pace; at a barrier they wait for each other. Between two barriers none may
/// touch what another one writes. interpreter.h finds those that do.
namespace luminal::codegen {

struct Target;

/// Lanes of one dtype; one lane is a scalar. Vectors may be longer than a register: targets split them.
struct Type {
  Dtype dtype = Dtype::F32;
  int lanes = 1;
  friend bool operator==(const Type&, const Type&) = default;
};

/// Where a buffer lives.
enum class Space : uint8_t {
  Slot,    ///< kernel input `number`; read only
  Output,  ///< kernel output `number`; each element is written exactly once in the whole program
  Shared,  ///< workspace of the launch, seen by all stages and tasks
  Local,   ///< workspace of the thread, lost between tasks
  Table,   ///< `values`, part of the program; read only
  /// As Shared, written by preparing stages alone: what they leave there holds as long as the frozen slots hold the same,
  /// so that launches which find it there run the other stages only.
  Prepared,
  Block,  ///< workspace of a block's threads, lost between tasks
};
/// A slot of a block-quantised dtype is bytes: what reads it gives u8, or u16 of two neighbours (the lower one first), and
/// indices and strides count bytes.
struct Buffer {
  std::string name;
  Space space = Space::Slot;
  int number = 0;  ///< of the slot or output
  Dtype dtype = Dtype::F32;
  Expression elements = 1;
  bool is_kept = false;    ///< Slot: no output takes its memory, so that its elements stay as they are
  bool is_frozen = false;  ///< Slot: holds the same from launch to launch (kernel::Slot)
  std::span<const int32_t> values = {};  ///< Table: of static lifetime, i32
};

/// The most threads that a block may have on any target.
inline constexpr int kMostBlockThreads = 1024;

/// An SSA value of a stage.
using Id = uint32_t;
inline constexpr Id kNone = ~Id{0};

enum class LoopKind : uint8_t { Serial, Unrolled };

struct Instruction;
using Block = std::vector<Instruction>;

struct Instruction {
  enum class Kind : uint8_t {
    Compute,    ///< result = op(operands), lane by lane; Constant leaves have `bits`
    Index,      ///< result = the I64 scalar `index`
    Lanes,      ///< result = `pattern` as I64 lanes; 0, 1, 2, ... if there is none
    LaneMask,   ///< result = lane number < index, as Bool lanes
    Broadcast,  ///< result = the scalar operand in every lane
    Shuffle,    ///< result lane i = lane `pattern[i]` of the two operands one after the other
    Permute,    ///< result lane i = entry operands[0] lane i (I32, or U8 as the result), modulo all there
                ///< are, of one table or two one after the other (operands 1, 2) of 2^n lanes each
    Dot4,       ///< result lane i (I32) = operands[0] lane i + the sum of operands[1] lane j (U8) times
    ///< operands[2] lane j (I8) over the four lanes j from 4 * i on; wraps. None of operands[1] is
    ///< above `bits`
    Reduce,    ///< result = the operand's lanes folded with `op` (Add, Mul, Maximum, Minimum, And, Or, Xor)
               ///< to a scalar: lane i with lane i + lanes/2 until one is left; lanes is a power of two
    Load,      ///< lane i = buffer[index + i * stride]; lanes without mask read nothing and hold 0
    Gather,    ///< lane i = buffer[operand lane i] (I64)
    Store,     ///< buffer[index + i * stride] = operand lane i, where the mask holds
    Scatter,   ///< buffer[operands[1] lane i] = operands[0] lane i
    Prefetch,  ///< buffer[index] will be read soon, if it exists: a wish without an effect
    Loop,      ///< for variable in extent: body, with carried values
    If,        ///< body if the scalar Bool operand is true
    Barrier,  ///< threads of the block go on when all have come here; what they wrote is there for all of them
  };
  Kind kind = Kind::Compute;
  Id result = kNone;  ///< kNone for Store, Scatter, Prefetch, Loop, If, Barrier
  Type type;          ///< of the result, or of what is stored
  ScalarOp op = ScalarOp::Constant;
  uint64_t bits = 0;         ///< of a constant, as ScalarNode::payload; Dot4: the greatest number
  std::vector<Id> operands;  ///< as the kind says; all lanes equal unless it says otherwise
  Id mask = kNone;           ///< Load, Gather, Store, Scatter: Bool lanes, or kNone for all
  int buffer = -1;           ///< into Program::buffers
  Expression index = 0;
  int64_t stride = 1;        ///< elements from lane to lane
  bool streaming = false;    ///< Store: past the caches; the target may ignore it
  std::vector<int> pattern;  ///< Shuffle, Lanes
  // Loop and If.
  LoopKind loop = LoopKind::Serial;
  int variable = -1;        ///< Loop: number of the index variable, unique in the stage
  Expression extent = 1;    ///< Loop
  std::vector<Id> initial;  ///< Loop: values carried into the first iteration
  std::vector<Id> carried;  ///< Loop: their names inside the body
  std::vector<Id> next;     ///< Loop: their values for the next iteration, defined in or before the body
  std::vector<Id>
      results;  ///< Loop: their values after the last iteration (the initial ones if the extent is 0)
  Block body;
};

struct Stage {
  int task_variable = 0;  ///< index variable of the task number
  Expression tasks = 1;   ///< how many; over dims
  int threads = 1;        ///< of the block that runs a task
  int thread_variable =
      -1;                 ///< index variable of the thread's number; none where a single thread runs a task
  Block body;             ///< of one task, for each thread
  bool prepares = false;  ///< reads frozen slots alone and writes what is Prepared; such stages come first
  uint32_t value_count = 0;
  int variable_count = 1;
  std::vector<Type> types;  ///< by Id
};

/// What one call of a kernel that nobody generated sees.
struct NativeCall {
  const void* const* slots = nullptr;
  void* const* outputs = nullptr;
  std::span<const int64_t> dims;  ///< by Program::dims
  int64_t begin = 0, end = 0;     ///< tasks
  std::byte *shared = nullptr, *local = nullptr;
};
/// Code of a program's author (luminal/user_kernel.h), in place of the body of a program's only stage.
struct Native {
  std::string text;  ///< says which code it is: other code, another text
  std::function<void(const NativeCall& call)> run;
};

/// A kernel ready for a target.
struct Program {
  std::string name;               ///< a C identifier: what profilers show
  std::vector<std::string> dims;  ///< named dims read at run time, sorted; the others are constants by now
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
  std::shared_ptr<const Native> native;  ///< what the only stage's tasks do, if they have no body
  [[nodiscard]] std::string to_string() const;
};

/// Whether a program may have this name.
[[nodiscard]] bool is_identifier(std::string_view text);
/// Checks types, definitions before uses, unique variables and ids, buffers and spaces.
/// Also that no thread of a block misses a barrier (barriers.h).
/// Errors: InternalError naming the instruction and what is wrong.
void verify(const Program& program);
/// All of that but where barriers stand.
void verify_statements(const Program& program);
/// The same, and whether the target has as many threads and as much memory for a block.
void verify(const Program& program, const Target& target);

/// Builds one stage. The methods append to the innermost open block and return the new value.
class StageBuilder {
 public:
  StageBuilder(Program& program, Expression tasks, int threads = 1);
  StageBuilder(const StageBuilder&) = delete;
  StageBuilder& operator=(const StageBuilder&) = delete;
  /// The task number.
  [[nodiscard]] Expression task() const;
  /// The thread's number in its block.
  [[nodiscard]] Expression thread() const;

  [[nodiscard]] Type type(Id id) const;
  [[nodiscard]] const Program& program() const { return *program_; }
  Id constant(Type type, double value);
  Id constant_bits(Type type, uint64_t bits);
  Id compute(ScalarOp op, std::vector<Id> operands);  ///< of the operands' dtype; comparisons give Bool
  /// sum + term, rounded once where the term is a product of floats: the order and the rounding inside a sum are the
  /// code generator's. `term` was made last and is read by nobody else; a product becomes the sum.
  Id add_term(Id sum, Id term);
  Id convert(Id a, Dtype to);
  Id bitcast(Id a, Dtype to);
  Id index(const Expression& e);  ///< an I64 scalar
  Id lanes(int count);
  Id lanes(std::vector<int> numbers);  ///< at least two, as I64
  Id lane_mask(const Expression& count, int lanes);
  Id broadcast(Id scalar, int lanes);
  Id shuffle(Id a, Id b, std::vector<int> pattern);
  Id permute(Id numbers, std::vector<Id> tables);
  Id dot4(Id sum, Id natural, Id whole, int greatest = 255);
  Id reduce(ScalarOp op, Id a);
  /// Of a slot of blocks, the values of elements (block_load.h), as f32.
  Id load(int buffer, const Expression& index, int lanes = 1, int64_t stride = 1, Id mask = kNone);
  Id gather(int buffer, Id indices, Id mask = kNone);
  /// Of a slot of blocks, its bytes.
  Id load_bytes(int buffer, const Expression& byte, int lanes = 1, int64_t stride = 1);
  /// The bytes `byte` and byte + 1 of a buffer of bytes or blocks as U16, and those behind them in further lanes.
  Id load_words(int buffer, const Expression& byte, int lanes = 1);
  Id gather_bytes(int buffer, Id bytes, Id mask = kNone);
  /// Entries of a table of static lifetime.
  Id look_up(std::span<const int32_t> table, Id indices);
  void store(int buffer, const Expression& index, Id value, int64_t stride = 1, Id mask = kNone,
             bool streaming = false);
  void scatter(int buffer, Id value, Id indices, Id mask = kNone);
  void prefetch(int buffer, const Expression& index);  ///< of an element, which may lie outside
  /// All nodes of a body, its inputs replaced; scalars among them are broadcast where lanes differ. One
  /// output.
  Id inline_function(const ScalarFunction& f, std::span<const Id> inputs);
  /// for variable in extent: body(variable, carried) -> next. Returns the values after the loop.
  std::vector<Id> loop(
      const Expression& extent, LoopKind kind, std::vector<Id> initial,
      const std::function<std::vector<Id>(const Expression& variable, std::span<const Id> carried)>& body);
  void loop(const Expression& extent, LoopKind kind,
            const std::function<void(const Expression& variable)>& body);
  void if_true(Id condition, const std::function<void()>& body);
  Id holds(const Expression& condition);  ///< whether a formula is not 0
  void if_holds(const Expression& condition, const std::function<void()>& body);
  void barrier();
  /// Values and variables from here on get numbers behind those of a stage whose body is to stand in this one, and what
  /// variable 0 is there it is here: called before anything else.
  void number_behind(const Stage& other);
  void append(Block body);
  /// Appends the stage to the program; the builder is done.
  void finish(bool prepares = false);

 private:
  Id define(Instruction instruction);
  void append(Instruction instruction);
  Id splat(Id id, int lanes);
  Program* program_;
  Stage stage_;
  std::vector<Block*> open_;
  Expression task_, thread_ = 0;
};

/// What an access to the buffer gives or takes, and how many of them there are: elements, or the bytes of blocks.
[[nodiscard]] Dtype access_dtype(const Buffer& buffer);
[[nodiscard]] Expression access_count(const Buffer& buffer);
/// Of those, how many a lane of an access takes: two bytes for a U16, otherwise one.
[[nodiscard]] int access_width(const Instruction& access, const Buffer& buffer);
/// Index of a new buffer of `program`.
int add_buffer(Program& program, Buffer buffer);

/// Calls `visit` on every instruction of a block, loops and branches before what is in them.
void for_each_instruction(const Block& block, const std::function<void(const Instruction&)>& visit);

/// How many of the stages, the first ones, prepare.
[[nodiscard]] size_t preparing_stages(const Program& program);
/// What they do.
struct Preparation {
  /// Programs that have the same one prepare the same, in the same places, of slots that hold the same. 0 if nothing is
  /// prepared, or if it depends on named dims.
  uint64_t hash = 0;
  std::vector<int> slots;  ///< numbers of those that are read, by the order of their first use
  std::vector<int> spent;  ///< those of `slots` that no later stage reads
};
[[nodiscard]] Preparation preparation_of(const Program& program);

/// Where the buffers of one workspace (Shared, Local, Prepared or Block) lie: byte offsets, each a multiple of 64.
struct Workspace {
  std::vector<Expression> offsets;  ///< by buffer; 0 for those of other spaces
  Expression bytes = 0;
};
[[nodiscard]] Workspace workspace_of(const Program& program, Space space);

}  // namespace luminal::codegen
