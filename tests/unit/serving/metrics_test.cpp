#include "serving/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

namespace luminal::serving {
namespace {

using testing::HasSubstr;

TEST(Metrics, ArePrometheusText) {
  Metrics metrics;
  metrics.count_request("/v1/completions", 200);
  metrics.count_request("/v1/completions", 200);
  metrics.count_request("other", 404);
  metrics.count_prompt(10, 4);
  metrics.count_tokens(3);
  metrics.first_token_after(0.05);
  metrics.first_token_after(1000);
  metrics.count_answer("stop", 11, 2);  // 10 tokens behind the first in 2 s
  const std::string text = metrics.to_text({{"luminal_requests_waiting", "Waiting.", 7}});
  for (const char* line :
       {"luminal_requests_total{path=\"/v1/completions\",status=\"200\"} 2\n",
        "luminal_requests_total{path=\"other\",status=\"404\"} 1\n",
        "luminal_answers_total{finish=\"stop\"} 1\n", "luminal_prompt_tokens_total 10\n",
        "luminal_reused_prompt_tokens_total 4\n", "luminal_generated_tokens_total 3\n",
        "luminal_time_to_first_token_seconds_bucket{le=\"0.025\"} 0\n",
        "luminal_time_to_first_token_seconds_bucket{le=\"0.05\"} 1\n",
        "luminal_time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n",
        "luminal_time_to_first_token_seconds_count 2\n", "luminal_tokens_per_second_bucket{le=\"5\"} 1\n",
        "luminal_tokens_per_second_sum 5\n",
        "# TYPE luminal_requests_waiting gauge\nluminal_requests_waiting 7\n"})
    EXPECT_THAT(text, HasSubstr(line));
  // The format of each line: a comment, or a name with labels and a number.
  static const std::regex line_pattern(
      R"re(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)re");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(std::regex_match(line, line_pattern)) << line;
}

}  // namespace
}  // namespace luminal::serving
