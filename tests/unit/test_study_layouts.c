/* The speed to expect of a layout: errors against committed measurements, and consequences of the formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "study/layouts.h"
#include "unit/study_fixture.h"

#define FORMAT .element_bytes = ALIKE((4 + 20.0 / 128) / 8), .group_size = 128, .vocab_size = 151936, .head_dim = 128

static const yk_model_shapes qwen3_8b = {
    .n_layers = 36, .hidden_size = 4096, .intermediate_size = 12288, .n_heads = 32, .n_kv_heads = 8, FORMAT};
static const yk_model_shapes qwen3_32b = {
    .n_layers = 64, .hidden_size = 5120, .intermediate_size = 25600, .n_heads = 64, .n_kv_heads = 8, FORMAT};

static const yk_model_shapes qwen3_30b_a3b = {.n_layers = 48,
                                              .hidden_size = 2048,
                                              .intermediate_size = 6144,
                                              .n_heads = 32,
                                              .n_kv_heads = 4,
                                              .n_expert_layers = 48,
                                              .n_experts = 128,
                                              .top_k = 8,
                                              .expert_size = 768,
                                              FORMAT};

typedef struct errors {
  double sum, most;
  int n;
} errors;

static void add_error(errors *e, double error)
{
  e->sum += fabs(error);
  e->most = fmax(e->most, fabs(error));
  e->n++;
}

static json_t *load_result(const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/../bench/results/%s", YOKE_TESTS_DIR, name);
  json_t *document = json_load_file(path, 0, NULL);
  assert_non_null(document);
  return document;
}

static double number(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

static yk_layout_hosts hosts_of(const char *gpu, int n_hosts, int per_host)
{
  const yk_gpu_type *type = yk_gpu_type_find(gpu);
  assert_non_null(type);
  return (yk_layout_hosts){*type, yk_gpu_type_rates(type), n_hosts, per_host, 46e9, 10e-6};
}

/* Compares one measured point. The mean number of rows of the timed steps is less than the batch, since the first
 * sequences end while the last prompts are computed. */
static void compare(const yk_model_shapes *shapes, const yk_layout_hosts *hosts, const json_t *point, errors *decode,
                    errors *prefill)
{
  double step_s = 1e-6 * number(json_object_get(point, "time_us"), "step");
  double batch = number(point, "batch");
  yk_layout layout = {(int)number(point, "ranks"), 1, 1};
  yk_layout_load load = {step_s * number(point, "decode_throughput"), number(point, "input_len"),
                         number(point, "output_len"), false, false};
  yk_layout_speed speed = yk_layout_compute(shapes, hosts, &layout, &load);
  add_error(decode, speed.step_s / step_s - 1);
  load.batch = batch;
  speed = yk_layout_compute(shapes, hosts, &layout, &load);
  if (batch <= 64) add_error(prefill, speed.prefill_rate / number(point, "prefill_throughput") - 1);
}

/* With the rates and all-reduces that the study measured on its machine. */
static void compare_study(const char *name, const char *gpu, const yk_model_shapes *shapes, double mean, double most)
{
  errors decode = {0}, prefill = {0};
  size_t i;
  json_t *point, *study = load_result(name);
  yk_layout_hosts hosts = hosts_of(gpu, 1, 2);
  assert_true(yk_machine_rates_read(json_object_get(study, "machine"), &hosts.rates));
  json_array_foreach(json_object_get(study, "points"), i, point)
  {
    if (json_object_size(json_object_get(point, "options")) == 0) compare(shapes, &hosts, point, &decode, &prefill);
  }
  print_message("%s: decode steps %.1f %% off, at most %.1f %%; prefill %.1f %%, at most %.1f %%\n", name,
                100 * decode.sum / decode.n, 100 * decode.most, 100 * prefill.sum / prefill.n, 100 * prefill.most);
  assert_true(decode.n >= 8);
  assert_true(decode.sum / decode.n <= mean && decode.most <= most);
  assert_true(prefill.sum / prefill.n <= 0.08 && prefill.most <= 0.15);
  json_decref(study);
}

static void test_measurements(void **state)
{
  (void)state;
  compare_study("study_qwen3_8b_h200_x2/study.json", "H200", &qwen3_8b, 0.02, 0.05);
  compare_study("study_qwen3_32b_h200_x2/study.json", "NVIDIA H200", &qwen3_32b, 0.045, 0.095);
  compare_study("study_qwen3_8b_h100_x2/study.json", "NVIDIA H100 80GB HBM3", &qwen3_8b, 0.04, 0.06);
}

/* With the type's own rates and formula of all-reduces. */
static void compare_runs(const char *name, const char *wanted, const yk_model_shapes *shapes, double mean, double most)
{
  errors decode = {0}, prefill = {0};
  size_t i;
  json_t *run, *runs = load_result(name);
  yk_layout_hosts hosts = hosts_of("h200", 1, 8);
  json_array_foreach(json_object_get(runs, "runs"), i, run)
  {
    const char *model = json_string_value(json_object_get(run, "model"));
    if (strcmp(model, wanted) == 0) compare(shapes, &hosts, run, &decode, &prefill);
  }
  print_message("%s, %s: decode steps %.1f %% off, at most %.1f %%\n", name, wanted, 100 * decode.sum / decode.n,
                100 * decode.most);
  assert_true(decode.n >= 5);
  assert_true(decode.sum / decode.n <= mean && decode.most <= most);
  json_decref(runs);
}

static void test_given_rates(void **state)
{
  (void)state;
  compare_runs("models_bbeed12_h200_x4.json", "qwen3-8b", &qwen3_8b, 0.05, 0.15);
  compare_runs("models_1869a2e_h200.json", "qwen3-30b-a3b", &qwen3_30b_a3b, 0.1, 0.25);
}

static yk_layout_speed speed_of(const yk_layout_hosts *hosts, int tp, int pp, double batch)
{
  const yk_layout layout = {tp, pp, 1};
  const yk_layout_load load = {batch, 1000, 1000, false, false};
  assert_true(yk_layout_is_placed(hosts, &layout));
  return yk_layout_compute(&qwen3_8b, hosts, &layout, &load);
}

/* GeForce cards over PCIe: four replicas answer more in all than four ranks; over NVLink one request is faster on four
 * ranks. */
static void test_replicas(void **state)
{
  (void)state;
  yk_layout_hosts pcie = hosts_of("NVIDIA GeForce RTX 4090", 1, 4), nvlink = hosts_of("H200", 1, 4);
  assert_true(4 * speed_of(&pcie, 1, 1, 16).replica_rate > 1.4 * speed_of(&pcie, 4, 1, 64).replica_rate);
  assert_true(speed_of(&nvlink, 4, 1, 1).step_s < 0.7 * speed_of(&nvlink, 1, 1, 1).step_s);
}

/* Over two hosts: all-reduces of a group of 16, or one send between two stages of 8. */
static void test_hosts(void **state)
{
  (void)state;
  yk_layout_hosts hosts = hosts_of("H200", 2, 8);
  yk_layout_speed wide = speed_of(&hosts, 16, 1, 1), stages = speed_of(&hosts, 8, 2, 1);
  assert_int_equal(wide.hosts_per_tp_group, 2);
  assert_true(fabs(wide.sent_bytes - 73 * 8 * 8192.0) < 1); /* each rank sends the sum of its host */
  assert_true(fabs(stages.sent_bytes - 8192.0) < 1);
  assert_true(wide.all_reduce_s > 73 * 10e-6 && wide.all_reduce_s < 73 * 20e-6); /* one latency each */
  yk_layout_speed many = speed_of(&hosts, 16, 1, 64);
  assert_true(fabs(many.sent_bytes - 73 * 8192.0) < 1); /* slices: 2 (h - 1) / h = 1 */
  assert_true(many.all_reduce_s > 73 * 20e-6);
  assert_true(stages.step_s < wide.step_s);
  yk_layout_speed one = speed_of(&hosts, 8, 1, 256);
  stages = speed_of(&hosts, 8, 2, 512); /* 256 rows a group: the same step, half the layers */
  assert_true(stages.replica_rate > 1.6 * one.replica_rate && stages.replica_rate < 2 * one.replica_rate);
  hosts.link_latency_s = 0;
  hosts.link_bytes_per_s = 1e15;
  assert_true(speed_of(&hosts, 16, 1, 1).all_reduce_s < 0.5 * wide.all_reduce_s);
  const yk_layout uneven[] = {{3, 1, 1}, {12, 1, 1}, {8, 3, 1}, {4, 4, 1}};
  for (size_t i = 0; i < sizeof uneven / sizeof *uneven; i++)
    assert_int_equal(yk_layout_is_placed(&hosts, &uneven[i]), i >= 2);
}

static void test_types(void **state)
{
  (void)state;
  assert_string_equal(yk_gpu_type_find("NVIDIA A100-SXM4-80GB")->name, "A100");
  assert_string_equal(yk_gpu_type_find("a10")->name, "A10");
  assert_null(yk_gpu_type_find("NVIDIA T4"));
  for (int i = 0; yk_gpu_type_at(i); i++)
    assert_ptr_equal(yk_gpu_type_find(yk_gpu_type_at(i)->name), yk_gpu_type_at(i));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_measurements), cmocka_unit_test(test_given_rates),
                                     cmocka_unit_test(test_replicas), cmocka_unit_test(test_hosts),
                                     cmocka_unit_test(test_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
