#include "search/cover/known_covers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/bounded_json.h"
#include "base/log.h"
#include "search/bucket.h"
#include "search/program_key.h"

// A cover as text: a line of JSON, and a line for each of its specs.
namespace luminal::search {
namespace {

using nlohmann::json;

constexpr const char* kWhat = "cover";

/// Whether the launches of a cover make all that has to be made, each of what is there by then.
class CoverCheck {
 public:
  CoverCheck(const CoverProblem& problem, const SpecStore& store, const Cover& cover)
      : problem_(problem), store_(store), cover_(cover), is_there_(problem.classes.size(), 0) {}

  [[nodiscard]] bool holds() {
    for (size_t c = 0; c < is_there_.size(); ++c)
      is_there_[c] = problem_.classes[c].alternatives.empty() && problem_.classes[c].host < 0;
    const bool all_run =
        cover_.fusion_counts.size() == is_there_.size() &&
        std::ranges::all_of(cover_.steps, [&](const CoverStep& step) {
          return step.kernel >= 0 ? runs_kernel(static_cast<size_t>(step.kernel)) : runs_host(step.host);
        });
    for (size_t c = 0; all_run && c < is_there_.size(); ++c)
      if (problem_.classes[c].wanted && is_there_[c] == 0) return false;
    return all_run;
  }

 private:
  [[nodiscard]] bool is_class(int c) const { return c >= 0 && c < static_cast<int>(is_there_.size()); }
  [[nodiscard]] bool is_ready(int c) const { return is_class(c) && is_there_[static_cast<size_t>(c)] != 0; }

  bool runs_kernel(size_t number) {
    if (number >= cover_.kernels.size()) return false;
    const CoverKernel& kernel = cover_.kernels[number];
    const kernel::KernelSpec& spec = store_.at(kernel.spec);
    if (spec.slots().size() != kernel.inputs.size() || spec.outputs().size() != kernel.outputs.size() ||
        !std::ranges::all_of(kernel.inputs, [&](int c) { return is_ready(c); }) ||
        !std::ranges::all_of(kernel.interior, [&](int c) { return is_class(c); }) ||
        !std::ranges::all_of(kernel.outputs, [&](int c) { return is_class(c); }))
      return false;
    for (const int c : kernel.outputs) is_there_[static_cast<size_t>(c)] = 1;
    return true;
  }
  bool runs_host(int number) {
    if (number < 0 || number >= static_cast<int>(problem_.hosts.size())) return false;
    const auto& inputs = problem_.hosts[static_cast<size_t>(number)].inputs;
    if (!std::ranges::all_of(inputs, [&](int c) { return is_ready(c); })) return false;
    for (size_t c = 0; c < is_there_.size(); ++c)
      if (problem_.classes[c].host == number) is_there_[c] = 1;
    return true;
  }

  const CoverProblem& problem_;
  const SpecStore& store_;
  const Cover& cover_;
  std::vector<char> is_there_;
};

/// The lines of a text, one after the other.
std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

double number(const json& value) {
  if (!value.is_number()) fail<FormatError>("[{}] a cost is no number", kWhat);
  return value.get<double>();
}

Cover read_cover(std::string_view text, SpecStore& store) {
  const json head = parse_bounded_json(next_line(text), kWhat);
  std::vector<SpecId> specs;
  while (!text.empty()) specs.push_back(store.intern(kernel::KernelSpec::parse_json(next_line(text))));
  Cover cover;
  for (const json& each : head.at("kernels")) {
    const auto spec = whole_number<size_t>(each.at("spec"), kWhat);
    if (spec >= specs.size()) fail<FormatError>("[{}] there is no spec {}", kWhat, spec);
    cover.kernels.push_back({specs[spec], whole_numbers<int>(each.at("inputs"), kWhat),
                             whole_numbers<int>(each.at("outputs"), kWhat),
                             whole_numbers<int>(each.at("interior"), kWhat), number(each.at("cost_us"))});
  }
  for (const int launch : whole_numbers<int>(head.at("steps"), kWhat))
    cover.steps.push_back(launch >= 0 ? CoverStep{.kernel = launch} : CoverStep{.host = -1 - launch});
  cover.cost_us = number(head.at("cost_us"));
  cover.unfused_us = number(head.at("unfused_us"));
  cover.flips = whole_number<int>(head.at("flips"), kWhat);
  cover.merges = whole_number<int>(head.at("merges"), kWhat);
  cover.fusion_counts = whole_numbers<int>(head.at("fusion_counts"), kWhat);
  return cover;
}

}  // namespace

CacheKey cover_key(const CoverProblem& problem, const SpecStore& store, const SearchOptions& options,
                   std::span<const std::string> prices) {
  std::vector<uint64_t> content{problem.classes.size(), problem.hosts.size()};
  const auto add_list = [&](const std::vector<int>& list) {
    content.push_back(list.size());
    for (const int each : list) content.push_back(static_cast<uint64_t>(each));
  };
  for (const CoverProblem::Class& each : problem.classes) {
    content.push_back(each.alternatives.size());
    for (const CoverProblem::Alternative& alternative : each.alternatives) {
      content.push_back(store.at(alternative.spec).hash());
      add_list(alternative.arguments);
    }
    content.push_back((each.wanted ? 1U : 0U) + (each.no_recompute ? 2U : 0U) + (each.unstored ? 4U : 0U));
    content.push_back(static_cast<uint64_t>(each.host));
    content.push_back(each.label);
  }
  for (const CoverProblem::Host& host : problem.hosts) {
    add_list(host.inputs);
    add_list(host.after);
    content.push_back(host.must_run ? 1 : 0);
    content.push_back(host.label);
  }
  std::vector<std::string> parts{
      "cover", std::string(source_version()),
      std::string(reinterpret_cast<const char*>(content.data()), content.size() * sizeof(uint64_t)),
      fmt::format("{} {} {} {}", static_cast<int>(options.math), options.fusions, options.merge,
                  options.large_bytes)};
  parts.insert(parts.end(), prices.begin(), prices.end());
  return make_key(parts);
}

std::vector<std::string> prices_of_model(const codegen::Target& target, const codegen::Bucket& bucket) {
  return {key_text(target), key_text_of_caches(target), to_string(bucket)};
}

std::string cover_to_text(const Cover& cover, const SpecStore& store) {
  std::unordered_map<SpecId, size_t> numbers;
  std::string specs;
  // Plain text: a tree of JSON values would take longer to make than the rest of what a layer costs.
  std::string head = R"({"kernels":[)";
  const auto out = std::back_inserter(head);
  for (const CoverKernel& kernel : cover.kernels) {
    const auto [known, fresh] = numbers.try_emplace(kernel.spec, numbers.size());
    if (fresh) specs += "\n" + store.at(kernel.spec).to_json();
    fmt::format_to(out, R"({}{{"spec":{},"inputs":[{}],"outputs":[{}],"interior":[{}],"cost_us":{}}})",
                   head.back() == '[' ? "" : ",", known->second, fmt::join(kernel.inputs, ","),
                   fmt::join(kernel.outputs, ","), fmt::join(kernel.interior, ","),
                   json(kernel.cost_us).dump());
  }
  std::vector<int> steps;
  for (const CoverStep& step : cover.steps) steps.push_back(step.kernel >= 0 ? step.kernel : -1 - step.host);
  fmt::format_to(
      out, R"(],"steps":[{}],"cost_us":{},"unfused_us":{},"flips":{},"merges":{},"fusion_counts":[{}]}})",
      fmt::join(steps, ","), json(cover.cost_us).dump(), json(cover.unfused_us).dump(), cover.flips,
      cover.merges, fmt::join(cover.fusion_counts, ","));
  return head + specs;
}

std::optional<Cover> parse_cover(std::string_view text, const CoverProblem& problem, SpecStore& store) {
  std::string why = "its launches do not make what the graph wants";
  try {
    Cover cover = read_cover(text, store);
    if (CoverCheck(problem, store, cover).holds()) return cover;
  } catch (const Error& damage) {
    why = damage.what();
  } catch (const json::exception& damage) {
    why = damage.what();
  }
  debug(1, "[cache] a stored cover is not one of this graph and is found again: {}", why);
  return std::nullopt;
}

Cover known_cover(Cache& cache, const CacheKey& key, const CoverProblem& problem, SpecStore& store,
                  const std::function<Cover()>& find) {
  if (const auto stored = cache.find_object(key)) {
    const std::string_view text(reinterpret_cast<const char*>(stored->data()), stored->size());
    if (std::optional<Cover> cover = parse_cover(text, problem, store)) {
      debug(3, "[cache] the cover was found before");
      return std::move(*cover);
    }
  }
  Cover cover = find();
  store_cover(cache, key, cover, store);
  return cover;
}

void store_cover(Cache& cache, const CacheKey& key, const Cover& cover, const SpecStore& store) {
  const std::string text = cover_to_text(cover, store);
  cache.store_object(key, std::as_bytes(std::span(text)));
}

}  // namespace luminal::search
