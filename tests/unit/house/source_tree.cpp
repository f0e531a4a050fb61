#include "unit/house/source_tree.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace luminal::house {
namespace fs = std::filesystem;
namespace {

const std::string kUmbrella = "luminal/luminal.h";

/// What users could have written themselves: these see no module's insides.
const std::set<std::string> kOnPublicHeadersAlone{"nn",     "training", "data", "formats",
                                                  "models", "serving",  "cli"};

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (const auto ending = entry.path().extension(); ending == ".h" || ending == ".cpp")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> includes_of_file(const fs::path& file, const fs::path& root) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<Include> includes;
  std::ifstream stream(file);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number)
    if (std::smatch match; std::regex_search(line, match, pattern))
      includes.push_back(
          {fs::relative(file, root).string() + ":" + std::to_string(number), match[2], match[1] == "<"});
  return includes;
}

/// "graph" of "graph/node.h"; empty if there is no folder.
std::string first_folder(const std::string& file) {
  const auto slash = file.find('/');
  return slash == std::string::npos ? std::string() : file.substr(0, slash);
}

}  // namespace

SourceTree::SourceTree(fs::path root) : root_(std::move(root)) {
  static const std::regex pattern(R"(^luminal_module\((\w+))");
  std::ifstream build(root_ / "CMakeLists.txt");
  std::string line;
  while (std::getline(build, line))
    if (std::smatch match; std::regex_search(line, match, pattern))
      if (fs::exists(root_ / "src" / match[1].str())) modules_.push_back(match[1]);
  if (modules_.empty())
    throw std::runtime_error("no luminal_module() line in " + (root_ / "CMakeLists.txt").string());
  for (const fs::path& file : sources_below(root_ / "include/luminal"))
    public_headers_.insert(fs::relative(file, root_ / "include").string());
  public_headers_.erase(kUmbrella);
  assign_owners();
}

size_t SourceTree::rank(const std::string& module) const {
  return static_cast<size_t>(std::find(modules_.begin(), modules_.end(), module) - modules_.begin());
}

std::map<std::string, std::string> SourceTree::owners_with_code() const {
  std::map<std::string, std::string> found;
  for (const std::string& header : public_headers_) {
    const fs::path inside = fs::path(header).lexically_relative("luminal");
    const std::string name = inside.begin()->stem().string();
    if (rank(name) < modules_.size()) found.emplace(header, name);
  }
  for (const std::string& module : modules_)
    for (const fs::path& file : sources_below(root_ / "src" / module)) {
      if (file.extension() != ".cpp") continue;
      const auto includes = includes_of_file(file, root_);
      if (!includes.empty() && public_headers_.contains(includes.front().file))
        found.emplace(includes.front().file, module);
    }
  return found;
}

void SourceTree::assign_owners() {
  const auto with_code = owners_with_code();
  owners_ = with_code;
  for (const std::string& header : public_headers_) owners_.emplace(header, modules_.front());
  // Headers without code of their own: repeat until those that include each other have settled.
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::string& header : public_headers_) {
      if (with_code.contains(header)) continue;
      for (const Include& include : includes_of_header(header)) {
        const auto found = owners_.find(include.file);
        if (found == owners_.end() || rank(found->second) <= rank(owners_[header])) continue;
        owners_[header] = found->second;
        changed = true;
      }
    }
  }
}

std::vector<Include> SourceTree::includes_of_header(const std::string& public_header) const {
  return includes_of_file(root_ / "include" / public_header, root_);
}

std::vector<Include> SourceTree::includes_of_module(const std::string& module) const {
  std::vector<Include> all;
  for (const fs::path& file : sources_below(root_ / "src" / module)) {
    const auto part = includes_of_file(file, root_);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<std::string> SourceTree::order_breaches() const {
  std::vector<std::string> breaches;
  const auto check = [&](const std::string& module, const Include& include) {
    const bool is_public = public_headers_.contains(include.file);
    const std::string target = is_public ? owner(include.file) : first_folder(include.file);
    if (rank(target) == modules_.size() || target == module) return;  // of no module, or its own
    const std::string what =
        include.where + " (" + module + ") includes " + include.file + " (" + target + "): ";
    if (rank(target) > rank(module))
      breaches.push_back(what + target + " comes after " + module + " in CMakeLists.txt");
    else if (!is_public && target != "base" && kOnPublicHeadersAlone.contains(module))
      breaches.push_back(what + module + " builds on public headers and base alone");
  };
  for (const std::string& module : modules_)
    for (const Include& include : includes_of_module(module))
      if (!include.system) check(module, include);
  for (const std::string& header : public_headers_)
    for (const Include& include : includes_of_header(header))
      if (!include.system) check(owner(header), include);
  return breaches;
}

std::vector<std::string> SourceTree::public_header_breaches() const {
  std::vector<std::string> breaches;
  for (const std::string& header : public_headers_)
    for (const Include& include : includes_of_header(header)) {
      const bool of_standard_library =
          include.system && include.file.find_first_of("./") == std::string::npos;
      if (!of_standard_library && !public_headers_.contains(include.file))
        breaches.push_back(include.where + " includes " + include.file +
                           ": public headers include the standard library and public headers alone");
    }
  return breaches;
}

std::vector<std::string> SourceTree::missing_from_umbrella() const {
  std::set<std::string> reached;
  std::vector<std::string> open{kUmbrella};
  while (!open.empty()) {
    const std::string header = open.back();
    open.pop_back();
    for (const Include& include : includes_of_header(header))
      if (public_headers_.contains(include.file) && reached.insert(include.file).second)
        open.push_back(include.file);
  }
  std::vector<std::string> missing;
  std::set_difference(public_headers_.begin(), public_headers_.end(), reached.begin(), reached.end(),
                      std::back_inserter(missing));
  return missing;
}

std::vector<std::string> SourceTree::unlisted_folders() const {
  std::vector<std::string> unlisted;
  for (const auto& entry : fs::directory_iterator(root_ / "src"))
    if (entry.is_directory() && rank(entry.path().filename().string()) == modules_.size())
      unlisted.push_back(entry.path().filename().string());
  std::sort(unlisted.begin(), unlisted.end());
  return unlisted;
}

}  // namespace luminal::house
