#include "backends/opencl/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "codegen/emit/c_family.h"

namespace luminal::backends::opencl {
namespace {

using codegen::Program;
using codegen::Space;

/// Drivers may round f32 quotients and square roots as they like unless told otherwise; their compilers print warnings
/// to the terminal.
constexpr const char* kOptions = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt -w";

std::string build_log(const Card& card, ProgramHandle program) {
  size_t bytes = 0;
  driver().clGetProgramBuildInfo(program, card.id, kBuildLog, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  driver().clGetProgramBuildInfo(program, card.id, kBuildLog, bytes, log.data(), nullptr);
  log.resize(log.find_last_not_of(std::string_view("\0\n ", 3)) + 1);
  return log;
}

Code build(const Card& card, const OwnedProgram& program) {
  return driver().clBuildProgram(program.get(), 1, &card.id, kOptions, nullptr, nullptr);
}

std::vector<std::byte> binary_of(const OwnedProgram& program) {
  size_t size = 0;
  check(driver().clGetProgramInfo(program.get(), kBinarySizes, sizeof size, &size, nullptr),
        "clGetProgramInfo");
  std::vector<std::byte> bytes(size);
  std::byte* pointer = bytes.data();
  check(driver().clGetProgramInfo(program.get(), kBinaries, sizeof pointer, static_cast<void*>(&pointer),
                                  nullptr),
        "clGetProgramInfo");
  return bytes;
}

void check_parameters(const Card& card, const Program& program) {
  constexpr size_t kBuffer = 16, kNumber = 8;  // bytes: a handle and an offset, a dim
  const auto slots = static_cast<size_t>(std::ranges::count_if(
      program.buffers, [](const codegen::Buffer& b) { return b.space <= Space::Output; }));
  const size_t bytes = (slots + 3) * kBuffer + (program.dims.size() + 1) * kNumber;
  if (bytes > card.largest_parameters)
    fail<DeviceError>("[opencl] {} takes {} bytes of arguments ({} buffers, {} dims); the device passes {}",
                      program.name, bytes, slots, program.dims.size(), card.largest_parameters);
}

}  // namespace

OpenClKernel::OpenClKernel(Device& device, std::shared_ptr<const Card> card, OwnedProgram program,
                           KernelFile file)
    : device_(device),
      card_(std::move(card)),
      program_(std::move(program)),
      file_(std::move(file)),
      shared_(file_.shared_bytes, file_.dims),
      local_(file_.local_bytes, file_.dims),
      prepared_(file_.prepared_bytes, file_.dims) {
  for (const Expression& tasks : file_.tasks) tasks_.emplace_back(tasks, file_.dims);
}

int64_t OpenClKernel::tasks(int stage, std::span<const int64_t> dims) const {
  return std::max<int64_t>(0, tasks_.at(static_cast<size_t>(stage))(dims));
}

OwnedKernel OpenClKernel::stage(int number) const {
  Code code = kSuccess;
  OwnedKernel kernel(
      driver().clCreateKernel(program_.get(), file_.symbols.at(static_cast<size_t>(number)).c_str(), &code));
  check(code, "clCreateKernel");
  return kernel;
}

std::shared_ptr<const Kernel> compile_kernel(Device& device, const std::shared_ptr<const Card>& card,
                                             const Program& program, const std::string& source) {
  if (program.native)
    fail<DeviceError>("[opencl] {} is native code, which runs on the host alone", program.name);
  check_parameters(*card, program);
  Code code = kSuccess;
  const char* text = source.c_str();
  OwnedProgram made(driver().clCreateProgramWithSource(card->context.get(), 1, &text, nullptr, &code));
  check(code, "clCreateProgramWithSource");
  if (build(*card, made) != kSuccess)
    throw InternalError(fmt::format("[opencl] compiling {}: {}", program.name, build_log(*card, made.get())));
  KernelFile file = kernel_file_of(program, card->identity);
  file.local_bytes = codegen::local_workspace_of(program, codegen::opencl_c()).bytes;
  file.object = binary_of(made);
  return std::make_shared<OpenClKernel>(device, card, std::move(made), std::move(file));
}

std::shared_ptr<const Kernel> load_kernel(Device& device, const std::shared_ptr<const Card>& card,
                                          std::span<const std::byte> binary) {
  KernelFile file = parse_kernel_file(binary);
  if (file.host != card->identity)
    fail<FormatError>("[opencl] compiled for another device ({}); delete it, and it will be compiled again",
                      file.host);
  const size_t bytes = file.object.size();
  const auto* const data = reinterpret_cast<const unsigned char*>(file.object.data());
  const unsigned char* pointer = data;
  Code status = kSuccess, code = kSuccess;
  OwnedProgram made(driver().clCreateProgramWithBinary(card->context.get(), 1, &card->id, &bytes, &pointer,
                                                       &status, &code));
  if (code != kSuccess || status != kSuccess || build(*card, made) != kSuccess)
    fail<FormatError>("[opencl] the driver refuses the binary ({}); delete it, and it will be compiled again",
                      name_of(code != kSuccess ? code : status));
  return std::make_shared<OpenClKernel>(device, card, std::move(made), std::move(file));
}

}  // namespace luminal::backends::opencl
