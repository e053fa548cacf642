/* The counters of step times never decrease: not if more is subtracted for timestamps, not with a new engine. Labels of
 * ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "server/metrics.h"

static yk_profile profile_of(uint64_t n_steps, double host_s)
{
  yk_profile profile = {.n_ranks = 2, .decode = {.n_steps = n_steps}};
  profile.decode.part_s[1][YK_TIME_HOST] = host_s;
  return profile;
}

static void expect_of(const yk_metrics *metrics, const yk_engine_info *info, const char *line)
{
  yk_strbuf text = {0};
  const yk_metrics_view view = {.prefix = "yoke", .model_name = "m", .info = info};
  yk_metrics_append(metrics, &view, &text);
  yk_strbuf_append(&text, "", 1);
  if (!strstr(text.data, line)) fail_msg("expected %s in %s", line, text.data);
  yk_strbuf_free(&text);
}

static void expect(const yk_metrics *metrics, const char *line)
{
  expect_of(metrics, NULL, line);
}

static void ranks_have_their_stage_process_and_host(void **state)
{
  (void)state;
  yk_metrics metrics = {0};
  yk_engine_info info = {.n_ranks = 2, .n_stages = 2, .n_processes = 2, .rank_hosts = {"a", "b \"x\""}};
  const yk_profile now = profile_of(10, 2.5);
  yk_metrics_init(&metrics);
  yk_metrics_profile(&metrics, &now);
  expect_of(&metrics, &info, "rank=\"0\",stage=\"0\",process=\"0\",host=\"a\",kind=\"weights\"} 0\n");
  expect_of(&metrics, &info,
            "rank=\"1\",stage=\"1\",process=\"1\",host=\"b \\\"x\\\"\",part=\"host\",kind=\"decode\"} 2.5\n");
  info.n_processes = info.n_stages = 1;
  expect_of(&metrics, &info, ",rank=\"1\",part=\"host\",kind=\"decode\"} 2.5\n");
}

static void counters_never_fall(void **state)
{
  (void)state;
  yk_metrics metrics = {0};
  yk_metrics_init(&metrics);
  yk_profile now = profile_of(10, 2.5);
  yk_metrics_profile(&metrics, &now);
  expect(&metrics, "yoke:timed_steps_total{engine=\"0\",model_name=\"m\",kind=\"decode\"} 10\n");
  expect(&metrics,
         "yoke:step_time_seconds_total{engine=\"0\",model_name=\"m\",rank=\"1\",part=\"host\",kind=\"decode\"} 2.5\n");
  now = profile_of(11, 2.25);
  yk_metrics_profile(&metrics, &now);
  expect(&metrics, "kind=\"decode\"} 11\n");
  expect(&metrics, "part=\"host\",kind=\"decode\"} 2.5\n");
  yk_metrics_engine_gone(&metrics, &(yk_engine_stats){0});
  now = profile_of(1, 0.5);
  yk_metrics_profile(&metrics, &now);
  expect(&metrics, "kind=\"decode\"} 12\n");
  expect(&metrics, "part=\"host\",kind=\"decode\"} 3\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(counters_never_fall),
                                     cmocka_unit_test(ranks_have_their_stage_process_and_host)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
