#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace luminal::house {

/// One #include line: "src/graph/graph.cpp:12", and what stands between the quotes or brackets.
struct Include {
  std::string where, file;
  bool system = false;  ///< in angle brackets
};

/// The modules of a source tree and who includes what. Nothing is listed here by hand: modules and their
/// order are the luminal_module() lines of CMakeLists.txt, and a public header belongs to
///   the module of its name or its folder's (luminal/nn.h, luminal/nn/layers.h);
///   else the first module that has a .cpp whose first include it is;
///   else, a header without code, the last of the modules whose headers it includes, base if there is none.
class SourceTree {
 public:
  explicit SourceTree(std::filesystem::path root);

  /// In dependency order.
  [[nodiscard]] const std::vector<std::string>& modules() const { return modules_; }
  /// Public headers as they are included, "luminal/graph.h", without the umbrella.
  [[nodiscard]] const std::set<std::string>& public_headers() const { return public_headers_; }
  [[nodiscard]] const std::string& owner(const std::string& public_header) const {
    return owners_.at(public_header);
  }
  /// All includes of one module's sources, or of one public header.
  [[nodiscard]] std::vector<Include> includes_of_module(const std::string& module) const;
  [[nodiscard]] std::vector<Include> includes_of_header(const std::string& public_header) const;

  /// Breaches of the order, one message each: modules include public headers and headers of their own or of
  /// modules above them; those that build on the public headers alone, besides these only base and
  /// themselves; public headers only public headers of modules above.
  [[nodiscard]] std::vector<std::string> order_breaches() const;
  /// Headers of other libraries, and private ones, in public headers.
  [[nodiscard]] std::vector<std::string> public_header_breaches() const;
  /// Public headers that the umbrella luminal/luminal.h includes neither itself nor through others.
  [[nodiscard]] std::vector<std::string> missing_from_umbrella() const;
  /// Folders of src/ that no luminal_module() line names.
  [[nodiscard]] std::vector<std::string> unlisted_folders() const;

 private:
  [[nodiscard]] size_t rank(const std::string& module) const;
  void assign_owners();
  [[nodiscard]] std::map<std::string, std::string> owners_with_code() const;

  std::filesystem::path root_;
  std::vector<std::string> modules_;
  std::set<std::string> public_headers_;
  std::map<std::string, std::string> owners_;
};

}  // namespace luminal::house
