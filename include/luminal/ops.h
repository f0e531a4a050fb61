#pragma once
#include "luminal/op_def.h"

/// The primitive ops: the whole vocabulary that compilers see. One file each in src/ops; docs/ops.md has the
/// table. Attributes are named in brackets. Elementwise inputs have equal dims and, unless said, equal
/// dtypes.
namespace luminal {

// Leaves
extern const OpDef kInput;     ///< data given by the user [dtype: Dtype, dims: Shape]
extern const OpDef kConstant;  ///< one number, rank 0 [value: Number, dtype: Dtype]
extern const OpDef kIota;  ///< integer formula over the flat index z and named dims [expression: Expression,
                           ///< dims: Shape, dtype: Dtype]
extern const OpDef kRandom;  ///< i64 [2]: a key made of seed and stream, and how many runs came before
                             ///< [seed: int64, stream: int64]

// Unary
extern const OpDef kLog2, kExp2, kSin, kRecip, kSqrt, kFloor;
extern const OpDef kCast;     ///< to another type, as C++ static_cast; floats out of an integer's range
                              ///< saturate, NaN gives 0 [dtype: Dtype]
extern const OpDef kBitcast;  ///< the same bits as another type of equal width [dtype: Dtype]
extern const OpDef kDetach;   ///< the value itself, through which no gradient flows

// Binary
extern const OpDef kAdd, kMul, kDiv;
extern const OpDef kMax;     ///< NaN if either is NaN [ties: string "split" or "first", used by the gradient]
extern const OpDef kMod;     ///< floored: the divisor's sign; for floats too
extern const OpDef kIntDiv;  ///< integers, floored; x / 0 is 0
extern const OpDef kLessThan;        ///< any equal dtypes -> bool
extern const OpDef kAnd, kOr, kXor;  ///< bitwise on integers, logical on bool
extern const OpDef kShift;           ///< left by b > 0, arithmetically right by b < 0
extern const OpDef kWhere;           ///< (bool, x, x) -> x: no arithmetic on the values, bits are kept

extern const OpDef kRandomBits;  ///< (element, key, run), all i64 -> i32, or i64 for 32 bits and more:
                                 ///< random bits by Philox4x32-10 [bits: int64, 1 to 63]

// Accurate scalar functions, into which rules do not look
extern const OpDef kExp, kLog, kLog1p, kExpm1, kCos, kTan, kTanh, kErf, kPow;

// Reductions [axes: vector<int64_t>, sorted]; the axes vanish
extern const OpDef kSumReduce;  ///< accumulates in accumulation_dtype
extern const OpDef
    kMaxReduce;  ///< minus infinity (the least integer) over nothing; NaN if any is NaN [ties: string]
extern const OpDef kProdReduce;

// Along an axis [axis: int64]
extern const OpDef
    kArgsort;  ///< places (i64) of the elements in order [descending: bool; count: int64, if not all]
extern const OpDef kCumsum, kCumprod,
    kCummax;  ///< of each element and all before it, or behind it [axis: int64, reverse: bool]
extern const OpDef
    kLinearRecurrence;  ///< (a, b) -> y: y(i) = a(i) y(i-1) + b(i) [axis: int64, reverse: bool]

// Indexing: by flat positions; or, with [axis: int64, slices: bool], by places along an axis, of elements each or of
// whole slices. Error at run time if out of range
extern const OpDef
    kGather;  ///< (data, integer index) -> index dims, or data dims with the index's for the axis
extern const OpDef
    kScatter;  ///< (base, index, updates) -> base dims: a copy of base with base[index] = or += updates,
               ///< in their order [mode: string "assign" or "add"; dims: Shape, if base is one number]

// Loops
extern const OpDef
    kScan;  ///< steps of a body over carried state (scan.h) [body: Payload, carries, sequences:
            ///< int64, length: Expression, reverse: bool]

// Markers
extern const OpDef kGraphBreak;  ///< the value itself; nothing fuses across
extern const OpDef kPrint;       ///< the value itself, printed at each run [message: string]
extern const OpDef
    kDiff;  ///< the value itself, compared with a file at each run [file: string, atol: Number, rtol: Number]
extern const OpDef kFunction;      ///< user code [function: Payload (HostFunction)]
extern const OpDef kCustomKernel;  ///< user kernel [kernel: Payload]

}  // namespace luminal
