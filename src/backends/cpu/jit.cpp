#include "backends/cpu/jit.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "base/fail.h"
#include "base/suggest.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RTDyldMemoryManager.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>
#include <llvm/Support/Memory.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar.h>
#pragma GCC diagnostic pop

namespace luminal::backends {
namespace {

void start_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

[[noreturn]] void llvm_failed(const std::string& doing, const std::string& message) {
  throw InternalError(fmt::format("[llvm] {}: {}", doing, message));
}

std::unique_ptr<llvm::TargetMachine> make_machine(const HostCpu& cpu) {
  start_llvm();
  const std::string triple = llvm::sys::getProcessTriple();
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (target == nullptr) llvm_failed("finding the target " + triple, message);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // never contract: fma stands where the IR says so
  options.ExceptionModel = llvm::ExceptionHandling::None;
  // Code and its constants lie in one mapping (CodeMemory). The model for code that is compiled to be run at once, large,
  // takes constants' addresses from a table: LLVM then loads all of them before the loops, and sums are spilled.
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, cpu.cpu, cpu.features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) llvm_failed("making the target " + triple, "there is no code generator for it");
  return machine;
}

/// What LLVM says while it compiles; errors do not end the process.
struct Messages : llvm::DiagnosticHandler {
  explicit Messages(std::string& text) : errors(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(errors);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }
  std::string& errors;
};

std::unique_ptr<llvm::Module> parse(const std::string& ir, llvm::LLVMContext& context,
                                    const llvm::TargetMachine& machine) {
  llvm::SMDiagnostic problem;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, problem, context);
  if (!module)
    llvm_failed("reading the IR text",
                fmt::format("line {}: {}\n{}", problem.getLineNo(), problem.getMessage().str(),
                            problem.getLineContents().str()));
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(*module, &stream)) llvm_failed("checking the IR", message);
  return module;
}

/// Machines that nobody uses: making one, with its tables of the processor, takes as long as compiling a small
/// kernel.
class MachinePool {
 public:
  using Machine = std::unique_ptr<llvm::TargetMachine>;
  static MachinePool& of_process() {
    static MachinePool pool;
    return pool;
  }
  Machine take(const HostCpu& cpu) {
    {
      const std::scoped_lock lock(mutex_);
      if (auto& idle = idle_[key(cpu)]; !idle.empty()) {
        Machine machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    return make_machine(cpu);
  }
  void give_back(const HostCpu& cpu, Machine machine) {
    const std::scoped_lock lock(mutex_);
    idle_[key(cpu)].push_back(std::move(machine));
  }

 private:
  static std::string key(const HostCpu& cpu) { return cpu.cpu + " " + cpu.features; }
  std::mutex mutex_;
  std::map<std::string, std::vector<Machine>> idle_;
};

/// What is added to in a sum of vectors, or null.
const llvm::Value* addend(const llvm::Value* value) {
  if (value->getType()->isVectorTy()) {
    if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(value))
      return call->getIntrinsicID() == llvm::Intrinsic::fma ? call->getArgOperand(2) : nullptr;
    if (const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(value))
      return sum->getOpcode() == llvm::Instruction::FAdd ? sum->getOperand(0) : nullptr;
  }
  return nullptr;
}

/// Whether a block adds up a tile of vectors: there the schedule says in what order loads and sums come, and a
/// scheduler that moves the loads together pushes sums out of the registers. A loop carries the tile, or a block
/// without one has many terms that are added to other sums (a polynomial adds to constants).
bool sums_tile(const llvm::Module& module) {
  constexpr auto kTile = 8, kTerms = 32;  // sums of reductions are fewer
  const auto is_vector = [](const llvm::PHINode& phi) { return phi.getType()->isVectorTy(); };
  const auto adds_to_sum = [](const llvm::Instruction& i) {
    const llvm::Value* to = addend(&i);
    return to != nullptr && addend(to) != nullptr;
  };
  for (const llvm::Function& function : module)
    for (const llvm::BasicBlock& block : function)
      if (llvm::count_if(block.phis(), is_vector) >= kTile || llvm::count_if(block, adds_to_sum) >= kTerms)
        return true;
  return false;
}

/// LLVM's code generator without passes that take much of its time and make no kernel faster: our text hoists
/// addresses and keeps their distances constant, so that loop-reduce finds nothing.
class KernelPasses : public llvm::legacy::PassManager {
 public:
  explicit KernelPasses(bool keeps_order) : keeps_order_(keeps_order) {}
  void add(llvm::Pass* pass) override {
    const llvm::PassInfo* info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
    if (info != nullptr && is_left_out(info->getPassArgument()))
      delete pass;
    else
      llvm::legacy::PassManager::add(pass);
  }

 private:
  [[nodiscard]] bool is_left_out(std::string_view name) const {
    return name == "loop-reduce" || name == "post-RA-sched" || name == "x86-domain-reassignment" ||
           (keeps_order_ && name == "machine-scheduler");
  }
  bool keeps_order_;
};

std::string machine_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType form) {
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream stream(code);
  KernelPasses passes(sums_tile(module));
  // Our own text is hoisted and free of repeats: what is left are repeats that its parts could not see of each
  // other. A full pipeline takes several times as long and finds nothing more in such code.
  // The target's costs come first: a pass that asks for them before gets those of no target, and all after it.
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createEarlyCSEPass());
  if (machine.addPassesToEmitFile(passes, stream, nullptr, form, /*DisableVerify=*/true))
    llvm_failed("making machine code", "the target cannot write this form");
  passes.run(module);
  return {code.begin(), code.end()};
}

std::string compile(const std::string& ir, const HostCpu& cpu, llvm::CodeGenFileType form) {
  MachinePool::Machine machine = MachinePool::of_process().take(cpu);
  llvm::LLVMContext context;
  std::string errors;
  context.setDiagnosticHandler(std::make_unique<Messages>(errors));
  std::string code;
  {
    const std::unique_ptr<llvm::Module> module = parse(ir, context, *machine);
    code = machine_code(*module, *machine, form);
  }
  if (!errors.empty()) llvm_failed("making machine code", errors);
  MachinePool::of_process().give_back(cpu, std::move(machine));
  return code;
}

// --- loading ---

size_t whole_pages(size_t bytes) {
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// One mapping for an object: code, then constants, then data, each of whole pages, so that relative
/// addresses between them always reach.
class CodeMemory : public llvm::RTDyldMemoryManager {
 public:
  CodeMemory() = default;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory() override {
    if (start_ != nullptr) ::munmap(start_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align code_align, uintptr_t constants,
                              llvm::Align constants_align, uintptr_t data, llvm::Align data_align) override {
    const size_t sizes[] = {whole_pages(code + code_align.value()),
                            whole_pages(constants + constants_align.value()),
                            whole_pages(data + data_align.value())};
    size_ = sizes[0] + sizes[1] + sizes[2];
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      llvm_failed("loading code", fmt::format("no memory for {} bytes: {}", size_, std::strerror(errno)));
    start_ = static_cast<uint8_t*>(memory);
    uint8_t* at = start_;
    for (size_t k = 0; k < 3; ++k) {
      areas_[k] = {at, at, at + sizes[k]};
      at += sizes[k];
    }
  }
  uint8_t* allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    return take(areas_[0], size, align);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef,
                               bool read_only) override {
    return take(areas_[read_only ? 1 : 2], size, align);
  }
  bool finalizeMemory(std::string* message) override {
    const int protections[] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (size_t k = 0; k < 3; ++k) {
      const Area& a = areas_[k];
      if (a.start == a.end) continue;
      const auto bytes = static_cast<size_t>(a.end - a.start);
      if (k == 0) llvm::sys::Memory::InvalidateInstructionCache(a.start, bytes);
      if (::mprotect(a.start, bytes, protections[k]) != 0) {
        if (message != nullptr) *message = std::strerror(errno);
        return true;
      }
    }
    return false;
  }
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

 private:
  struct Area {
    uint8_t *start = nullptr, *next = nullptr, *end = nullptr;
  };
  static uint8_t* take(Area& area, size_t size, size_t align) {
    auto at = reinterpret_cast<uintptr_t>(area.next);
    at = (at + align - 1) / align * align;
    if (at + size > reinterpret_cast<uintptr_t>(area.end)) return nullptr;
    area.next = reinterpret_cast<uint8_t*>(at + size);
    return reinterpret_cast<uint8_t*>(at);
  }
  uint8_t* start_ = nullptr;
  size_t size_ = 0;
  Area areas_[3];
};

/// What compiled code may call: operations without an instruction, and nothing else of the process.
class RuntimeSymbols : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    struct Known {
      std::string_view name;
      const void* address;
    };
    using F = float (*)(float);
    using F2 = float (*)(float, float);
    using F3 = float (*)(float, float, float);
    using D = double (*)(double);
    using D2 = double (*)(double, double);
    using D3 = double (*)(double, double, double);
    const auto at = [](auto* function) { return reinterpret_cast<const void*>(function); };
    static const Known kKnown[] = {
        {"fmodf", at(static_cast<F2>(::fmodf))},
        {"fmod", at(static_cast<D2>(::fmod))},
        {"fmaf", at(static_cast<F3>(::fmaf))},
        {"fma", at(static_cast<D3>(::fma))},
        {"floorf", at(static_cast<F>(::floorf))},
        {"floor", at(static_cast<D>(::floor))},
        {"roundevenf", at(static_cast<F>(::nearbyintf))},
        {"roundeven", at(static_cast<D>(::nearbyint))},
        {"sqrtf", at(static_cast<F>(::sqrtf))},
        {"sqrt", at(static_cast<D>(::sqrt))},
        {"memcpy", at(::memcpy)},
        {"memset", at(::memset)},
        {"memmove", at(::memmove)},
    };
    for (const Known& k : kKnown)
      if (k.name == name) return {reinterpret_cast<uintptr_t>(k.address), llvm::JITSymbolFlags::Exported};
    return nullptr;
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
};

}  // namespace

// --- the host ---

HostCpu host_cpu(std::string_view overrides) {
  start_llvm();
  HostCpu host{.cpu = llvm::sys::getHostCPUName().str()};
  llvm::StringMap<bool> has = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> names;
  for (const auto& feature : has) names.push_back(feature.getKey().str());
  std::ranges::sort(names);
  // Halves are storage, so conversions are all that is asked of the processor. With arithmetic on halves,
  // LLVM 19 swaps the operands of a masked compare to fold a load and leaves the predicate as it is.
  if (has.contains("avx512fp16")) has["avx512fp16"] = false;
  for (const std::string& name : names)
    host.features += fmt::format("{}{}{}", host.features.empty() ? "" : ",", has[name] ? '+' : '-', name);
  for (size_t at = 0; at < overrides.size();) {
    const size_t end = std::min(overrides.find(',', at), overrides.size());
    const std::string name(overrides.substr(at + 1, end - at - 1));
    const bool on = overrides[at] == '+';
    if (!has.contains(name))
      fail<DeviceError>(
          "[cpu] LUMINAL_CPU_FEATURES names '{}', which is not a feature of this kind of processor{}", name,
          did_you_mean(name, names));
    if (on && !has[name])
      fail<DeviceError>(
          "[cpu] LUMINAL_CPU_FEATURES asks for '{}', which this processor ({}) lacks; leave it out", name,
          host.cpu);
    host.features += "," + std::string(overrides.substr(at, end - at));
    at = end + 1;
  }
  const std::unique_ptr<llvm::TargetMachine> machine = make_machine(host);
  // Switching a feature off switches off what builds on it: the machine knows.
  const auto enabled = [&](const char* feature) {
    return machine->getMCSubtargetInfo()->checkFeatures(std::string("+") + feature);
  };
  const llvm::Triple triple = machine->getTargetTriple();
  if (triple.isX86()) {
    const bool wide = enabled("avx512f") && enabled("avx512vl") && enabled("avx512bw") && enabled("avx512dq");
    host.vector_bytes = wide ? 64 : enabled("avx2") ? 32 : 16;
    host.vector_registers = wide ? 32 : 16;
    host.converts_f16 = enabled("f16c");
    host.permutes = enabled("avx2");
    host.dots = (enabled("avx512vnni") && enabled("avx512vl")) || enabled("avxvnni");
  } else {
    host.vector_registers = 32;
    host.converts_f16 = triple.isAArch64();
  }
  return host;
}

std::vector<std::byte> compile_object(const std::string& ir, const HostCpu& cpu) {
  const std::string code = compile(ir, cpu, llvm::CodeGenFileType::ObjectFile);
  std::vector<std::byte> bytes(code.size());
  std::memcpy(bytes.data(), code.data(), code.size());
  return bytes;
}

std::string compile_assembly(const std::string& ir, const HostCpu& cpu) {
  return compile(ir, cpu, llvm::CodeGenFileType::AssemblyFile);
}

struct LoadedObject::State {
  CodeMemory memory;
  RuntimeSymbols symbols;
  llvm::RuntimeDyld linker{memory, symbols};
  std::unique_ptr<llvm::RuntimeDyld::LoadedObjectInfo> info;
};

LoadedObject::LoadedObject(std::span<const std::byte> object) : state_(std::make_unique<State>()) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernel"));
  if (!file) llvm_failed("reading an object", llvm::toString(file.takeError()));
  if (!(*file)->isELF() || (*file)->getArch() != llvm::Triple(llvm::sys::getProcessTriple()).getArch())
    llvm_failed("reading an object", "it is not an ELF file for this kind of processor");
  state_->info = state_->linker.loadObject(**file);
  if (!state_->linker.hasError()) state_->linker.resolveRelocations();
  if (state_->linker.hasError()) llvm_failed("linking an object", state_->linker.getErrorString().str());
  std::string message;
  if (state_->memory.finalizeMemory(&message)) llvm_failed("protecting code", message);
}

LoadedObject::~LoadedObject() = default;

void* LoadedObject::symbol(const std::string& name) const {
  const llvm::JITEvaluatedSymbol found = state_->linker.getSymbol(name);
  if (!found) llvm_failed("linking an object", "it has no symbol " + name);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(found.getAddress()));
}

}  // namespace luminal::backends
