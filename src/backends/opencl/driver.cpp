#include "backends/opencl/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/fail.h"

namespace luminal::backends::opencl {
namespace {

constexpr const char* kLibrary = "libOpenCL.so.1";
/// Where drivers describe themselves (the extension cl_khr_icd).
constexpr const char* kVendors = "/etc/OpenCL/vendors";

/// Stays loaded: drivers have threads of their own, which end with the process.
void* library() {
  static void* const handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

Driver load_driver() {
  if (library() == nullptr)
    fail<DeviceError>("[opencl] {} cannot be loaded; install an OpenCL loader and a driver", kLibrary);
  Driver found;
#define LUMINAL_OPENCL_FIND(name, result, parameters)                             \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library(), #name)); \
  if (found.name == nullptr)                                                      \
    fail<DeviceError>("[opencl] {} has no {}: OpenCL 1.2 is needed", kLibrary, #name);
  LUMINAL_OPENCL_FUNCTIONS(LUMINAL_OPENCL_FIND)
#undef LUMINAL_OPENCL_FIND
  return found;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

bool is_installed() {
  std::error_code none;
  const std::filesystem::directory_iterator vendors(kVendors, none), end;
  const bool has_driver =
      std::any_of(vendors, end, [](const auto& e) { return e.path().extension() == ".icd"; });
  return has_driver && library() != nullptr;
}

std::string name_of(Code code) {
  constexpr std::array<std::pair<Code, const char*>, 21> kNames{{
      {kDeviceNotFound, "CL_DEVICE_NOT_FOUND"},
      {-2, "CL_DEVICE_NOT_AVAILABLE"},
      {-3, "CL_COMPILER_NOT_AVAILABLE"},
      {kMemoryAllocationFailure, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {kOutOfResources, "CL_OUT_OF_RESOURCES"},
      {kOutOfHostMemory, "CL_OUT_OF_HOST_MEMORY"},
      {-8, "CL_MEM_COPY_OVERLAP"},
      {-11, "CL_BUILD_PROGRAM_FAILURE"},
      {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
      {-30, "CL_INVALID_VALUE"},
      {-36, "CL_INVALID_COMMAND_QUEUE"},
      {-38, "CL_INVALID_MEM_OBJECT"},
      {-42, "CL_INVALID_BINARY"},
      {-46, "CL_INVALID_KERNEL_NAME"},
      {-49, "CL_INVALID_ARG_INDEX"},
      {-51, "CL_INVALID_ARG_SIZE"},
      {-52, "CL_INVALID_KERNEL_ARGS"},
      {-54, "CL_INVALID_WORK_GROUP_SIZE"},
      {-58, "CL_INVALID_EVENT"},
      {kInvalidBufferSize, "CL_INVALID_BUFFER_SIZE"},
      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
  }};
  const auto* const found = std::ranges::find(kNames, code, &std::pair<Code, const char*>::first);
  return found == kNames.end() ? fmt::format("error {}", code) : found->second;
}

void check(Code code, const char* call) {
  if (code != kSuccess) fail<DeviceError>("[opencl] {}: {}", call, name_of(code));
}

}  // namespace luminal::backends::opencl
