#include <algorithm>
#include <sstream>

#include "backends/host/device.h"
#include "base/fail.h"
#include "base/hash.h"

namespace luminal::backends {
namespace {

std::string header_of(std::string_view body) {
  return fmt::format("luminal null kernel 2 {:016x}\n", hash_bytes(body));
}

/// Sizes like the real one's, and a run that does nothing.
class NullKernel : public HostKernel {
 public:
  struct Facts {
    std::vector<std::string> dims;
    std::vector<Expression> tasks;  ///< by stage
    Expression shared, local, prepared;
    int preparing = 0;  ///< stages
  };
  explicit NullKernel(Facts facts) : facts_(std::move(facts)) {}

  [[nodiscard]] const std::vector<std::string>& dims() const override { return facts_.dims; }
  [[nodiscard]] int stage_count() const override { return static_cast<int>(facts_.tasks.size()); }
  [[nodiscard]] int preparing_stages() const override { return facts_.preparing; }
  [[nodiscard]] int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    return value(facts_.tasks.at(static_cast<size_t>(stage)), dims);
  }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override {
    return value(facts_.shared, dims);
  }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t> dims) const override {
    return value(facts_.local, dims);
  }
  [[nodiscard]] int64_t prepared_bytes(std::span<const int64_t> dims) const override {
    return value(facts_.prepared, dims);
  }
  void run(int, const LaunchArguments&, int64_t, int64_t) const override {}

  /// A line for each fact: header with the hash of what follows, dims, workspaces, stages that prepare, tasks of every
  /// stage.
  [[nodiscard]] std::vector<std::byte> binary() const override {
    std::string body =
        fmt::format("{}\n{}\n{}\n{}\n{}\n", fmt::join(facts_.dims, " "), facts_.shared.to_text(),
                    facts_.local.to_text(), facts_.prepared.to_text(), facts_.preparing);
    for (const Expression& tasks : facts_.tasks) body += tasks.to_text() + "\n";
    const std::string text = header_of(body) + body;
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }

 private:
  [[nodiscard]] int64_t value(const Expression& e, std::span<const int64_t> sizes) const {
    DimMap dims;
    for (size_t i = 0; i < facts_.dims.size(); ++i) dims.emplace(facts_.dims[i], sizes[i]);
    return e.exec(dims);
  }

  Facts facts_;
};

class NullDevice : public HostDevice {
 public:
  explicit NullDevice(int threads) : HostDevice(threads) { target_.name = "null"; }
  [[nodiscard]] const codegen::Target& target() const override { return target_; }
  [[nodiscard]] std::optional<kernel::MachineLimits> limits() const override {
    return kernel::MachineLimits();
  }
  [[nodiscard]] bool computes() const override { return false; }

  [[nodiscard]] std::shared_ptr<const Kernel> compile(const codegen::Program& program,
                                                      const std::string&) override {
    codegen::verify(program);
    std::vector<Expression> tasks;
    for (const codegen::Stage& stage : program.stages) tasks.push_back(stage.tasks);
    const auto bytes = [&](codegen::Space space) { return workspace_of(program, space).bytes; };
    return std::make_shared<NullKernel>(
        NullKernel::Facts{.dims = program.dims,
                          .tasks = std::move(tasks),
                          .shared = bytes(codegen::Space::Shared),
                          .local = bytes(codegen::Space::Local),
                          .prepared = bytes(codegen::Space::Prepared),
                          .preparing = static_cast<int>(preparing_stages(program))});
  }

  [[nodiscard]] std::shared_ptr<const Kernel> load(std::span<const std::byte> binary) override {
    const std::string_view all(reinterpret_cast<const char*>(binary.data()), binary.size());
    const size_t header = std::min(all.find('\n'), all.size() - 1) + 1;
    if (all.empty() || all.substr(0, header) != header_of(all.substr(header)))
      fail<FormatError>(
          "[null] these are not the bytes of a null kernel, or they are damaged; compile it again");
    std::istringstream text{std::string(all.substr(header))};
    const auto next = [&] {
      std::string line;
      std::getline(text, line);
      return line;
    };
    std::istringstream names(next());
    NullKernel::Facts facts;
    for (std::string name; names >> name;) facts.dims.push_back(name);
    for (Expression* bytes : {&facts.shared, &facts.local, &facts.prepared})
      *bytes = Expression::parse(next());
    facts.preparing = std::stoi(next());
    for (std::string line; std::getline(text, line);) facts.tasks.push_back(Expression::parse(line));
    return std::make_shared<NullKernel>(std::move(facts));
  }

  [[nodiscard]] std::string source(const codegen::Program& program) override { return program.to_string(); }
  [[nodiscard]] std::string assembly(const codegen::Program& program) override {
    return fmt::format("; {}: the null device has no instructions\n", program.name);
  }

 private:
  codegen::Target target_;
};

}  // namespace

std::shared_ptr<Device> make_null_device(int threads) { return std::make_shared<NullDevice>(threads); }

}  // namespace luminal::backends
