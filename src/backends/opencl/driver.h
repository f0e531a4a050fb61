#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

/// The functions of OpenCL 1.2 that are used, found at run time: nothing links the library, which many machines do not
/// have. Numbers and signatures are those of the Khronos specification (OpenCL 1.2, revision 19; cl.h), a fixed ABI.
namespace luminal::backends::opencl {

using Platform = struct PlatformOfDriver*;
using DeviceId = struct DeviceOfDriver*;
using Context = struct ContextOfDriver*;
using Queue = struct QueueOfDriver*;
using Memory = struct MemoryOfDriver*;
using ProgramHandle = struct ProgramOfDriver*;
using KernelHandle = struct KernelOfDriver*;
using EventHandle = struct EventOfDriver*;
using Code = int32_t;
using Bits = uint64_t;
using Number = uint32_t;

inline constexpr Code kSuccess = 0, kDeviceNotFound = -1, kMemoryAllocationFailure = -4, kOutOfResources = -5,
                      kOutOfHostMemory = -6, kInvalidBufferSize = -61;
inline constexpr Bits kAnyType = 0xFFFFFFFF, kReadWrite = 1 << 0, kProfiling = 1 << 1, kIsGpu = 1 << 2;
inline constexpr Number kYes = 1, kNo = 0;
/// Of devices and their floats.
inline constexpr Number kComputeUnits = 0x1002, kLargestAllocation = 0x1010, kLargestParameters = 0x1017,
                        kMostGroupItems = 0x1004, kLocalBytes = 0x1023, kType = 0x1000, kFloatConfig = 0x101B,
                        kCacheBytes = 0x101E, kIsLittleEndian = 0x1026, kIsAvailable = 0x1027,
                        kHasCompiler = 0x1028, kDeviceName = 0x102B, kDriverVersion = 0x102D,
                        kDeviceVersion = 0x102F, kDoubleConfig = 0x1032;
inline constexpr Bits kKeepsSubnormals = 1 << 0, kHasInfinityAndNan = 1 << 1, kRoundsToNearest = 1 << 2,
                      kFusesMultiplyAdd = 1 << 5, kDividesCorrectly = 1 << 7;
/// Of programs and events.
inline constexpr Number kBinarySizes = 0x1165, kBinaries = 0x1166, kBuildLog = 0x1183, kEndOfCommand = 0x1283;

// A name, its result, its parameters.
#define LUMINAL_OPENCL_FUNCTIONS(F)                                                                        \
  F(clGetPlatformIDs, Code, (Number, Platform*, Number*))                                                  \
  F(clGetDeviceIDs, Code, (Platform, Bits, Number, DeviceId*, Number*))                                    \
  F(clGetDeviceInfo, Code, (DeviceId, Number, size_t, void*, size_t*))                                     \
  F(clCreateContext, Context,                                                                              \
    (const intptr_t*, Number, const DeviceId*, void (*)(const char*, const void*, size_t, void*), void*,   \
     Code*))                                                                                               \
  F(clReleaseContext, Code, (Context))                                                                     \
  F(clCreateCommandQueue, Queue, (Context, DeviceId, Bits, Code*))                                         \
  F(clReleaseCommandQueue, Code, (Queue))                                                                  \
  F(clCreateBuffer, Memory, (Context, Bits, size_t, void*, Code*))                                         \
  F(clReleaseMemObject, Code, (Memory))                                                                    \
  F(clCreateProgramWithSource, ProgramHandle, (Context, Number, const char**, const size_t*, Code*))       \
  F(clCreateProgramWithBinary, ProgramHandle,                                                              \
    (Context, Number, const DeviceId*, const size_t*, const unsigned char**, Code*, Code*))                \
  F(clBuildProgram, Code,                                                                                  \
    (ProgramHandle, Number, const DeviceId*, const char*, void (*)(ProgramHandle, void*), void*))          \
  F(clGetProgramInfo, Code, (ProgramHandle, Number, size_t, void*, size_t*))                               \
  F(clGetProgramBuildInfo, Code, (ProgramHandle, DeviceId, Number, size_t, void*, size_t*))                \
  F(clReleaseProgram, Code, (ProgramHandle))                                                               \
  F(clCreateKernel, KernelHandle, (ProgramHandle, const char*, Code*))                                     \
  F(clReleaseKernel, Code, (KernelHandle))                                                                 \
  F(clSetKernelArg, Code, (KernelHandle, Number, size_t, const void*))                                     \
  F(clEnqueueNDRangeKernel, Code,                                                                          \
    (Queue, KernelHandle, Number, const size_t*, const size_t*, const size_t*, Number, const EventHandle*, \
     EventHandle*))                                                                                        \
  F(clEnqueueReadBuffer, Code,                                                                             \
    (Queue, Memory, Number, size_t, size_t, void*, Number, const EventHandle*, EventHandle*))              \
  F(clEnqueueWriteBuffer, Code,                                                                            \
    (Queue, Memory, Number, size_t, size_t, const void*, Number, const EventHandle*, EventHandle*))        \
  F(clEnqueueCopyBuffer, Code,                                                                             \
    (Queue, Memory, Memory, size_t, size_t, size_t, Number, const EventHandle*, EventHandle*))             \
  F(clEnqueueFillBuffer, Code,                                                                             \
    (Queue, Memory, const void*, size_t, size_t, size_t, Number, const EventHandle*, EventHandle*))        \
  F(clEnqueueMarkerWithWaitList, Code, (Queue, Number, const EventHandle*, EventHandle*))                  \
  F(clEnqueueBarrierWithWaitList, Code, (Queue, Number, const EventHandle*, EventHandle*))                 \
  F(clWaitForEvents, Code, (Number, const EventHandle*))                                                   \
  F(clGetEventProfilingInfo, Code, (EventHandle, Number, size_t, void*, size_t*))                          \
  F(clReleaseEvent, Code, (EventHandle))                                                                   \
  F(clFlush, Code, (Queue))                                                                                \
  F(clFinish, Code, (Queue))

struct Driver {
#define LUMINAL_OPENCL_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  LUMINAL_OPENCL_FUNCTIONS(LUMINAL_OPENCL_MEMBER)
#undef LUMINAL_OPENCL_MEMBER
};

/// Loaded with the first call. Errors: DeviceError that names the library or the function that is missing.
[[nodiscard]] const Driver& driver();
/// Whether the library and the description of a driver are there. Asks no driver, which takes long to load.
[[nodiscard]] bool is_installed();

/// "CL_OUT_OF_RESOURCES", or the number.
[[nodiscard]] std::string name_of(Code code);
/// Errors: DeviceError that names the call, unless it succeeded.
void check(Code code, const char* call);

/// A handle of the driver, released with the object.
template <class Handle, Code (*Driver::*release)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) (driver().*release)(handle_);
  }
  [[nodiscard]] const Handle& get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using OwnedContext = Owned<Context, &Driver::clReleaseContext>;
using OwnedQueue = Owned<Queue, &Driver::clReleaseCommandQueue>;
using OwnedProgram = Owned<ProgramHandle, &Driver::clReleaseProgram>;
using OwnedKernel = Owned<KernelHandle, &Driver::clReleaseKernel>;
using OwnedEvent = Owned<EventHandle, &Driver::clReleaseEvent>;

}  // namespace luminal::backends::opencl
