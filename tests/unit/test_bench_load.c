/* test_bench_load.c - loads: objectives, checks, lengths, arrivals, and traces of lengths with every bad file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/arrivals.h"
#include "bench/load.h"
#include "each_case.h"

enum { N = 20000 };

static void assert_message(yk_err *err, yk_status found, yk_status expected, const char *part)
{
  assert_int_equal(found, expected);
  if (!strstr(err->message, part)) fail_msg("expected \"%s\" in \"%s\"", part, err->message);
  yk_err_clear(err);
}

static void test_slo(void **state)
{
  (void)state;
  static const struct {
    const char *text, *part;
  } bad[] = {{"", "expected ttft"},        {"ttft", "ttft:MILLISECONDS"},  {"ttft:", "above 0, found \"\""},
             {"ttft:0", "above 0"},        {"ttft:-1", "above 0"},         {"ttft:nan", "above 0"},
             {"ttft:inf", "above 0"},      {"ttft:1e999", "above 0"},      {"ttft:5ms", "found \"5ms\""},
             {"ttfb:5", "\"ttfb:5\""},     {"ttft:5,", "expected ttft"},   {"ttft:5,ttft:6", "found ttft twice"},
             {"ttft:5 tpot:6", "above 0"}, {"e2el:1,,tpot:2", "expected"}, {"ttftx:5", "\"ttftx:5\""}};
  double slo[YK_BENCH_TIMES] = {1, 2, 3, 4};
  yk_err err = YK_ERR_INIT;
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof bad[0]); i++) {
    assert_message(&err, yk_bench_slo_parse(bad[i].text, slo, &err), YK_E_INVAL, bad[i].part);
    assert_true(slo[0] == 1 && slo[3] == 4);
  }
  assert_int_equal(yk_bench_slo_parse("tpot:50.5,e2el:3000", slo, &err), YK_OK);
  assert_true(slo[0] == 0 && slo[1] == 50.5 && slo[2] == 0 && slo[3] == 3000);
}

static void test_checks(void **state)
{
  (void)state;
  static const yk_bench_limits none = {0};
  yk_bench_trace_row rows[2] = {{0, 10, 5}, {1, 20, 5}};
  yk_bench_trace trace = {rows, 2, false};
  yk_err err = YK_ERR_INIT;
  yk_bench_load good, load;
  yk_bench_load_init(&good);
  assert_int_equal(yk_bench_load_check(&good, &none, &err), YK_OK);
#define REFUSES(code, part, ...)                                                                                       \
  do {                                                                                                                 \
    load = good;                                                                                                       \
    __VA_ARGS__;                                                                                                       \
    assert_message(&err, yk_bench_load_check(&load, &limits, &err), code, part);                                       \
  } while (0)
  yk_bench_limits limits = none;
  REFUSES(YK_E_INVAL, "found several", load.n_clients = 2);
  REFUSES(YK_E_INVAL, "found several", load.request_rate = 2);
  REFUSES(YK_E_INVAL, "found none", load.batch = 0);
  REFUSES(YK_E_INVAL, "--batch: expected 1 or more, found -1", load.batch = -1);
  REFUSES(YK_E_INVAL, "--clients: expected 1 or more, found -3", load.batch = 0; load.n_clients = -3);
  REFUSES(YK_E_INVAL, "found nan", load.batch = 0; load.request_rate = NAN);
  REFUSES(YK_E_INVAL, "found -2", load.batch = 0; load.request_rate = -2);
  REFUSES(YK_E_INVAL, "--requests: expected 1 or more, found 0", load.batch = 0; load.n_clients = 1;
          load.n_requests = 0);
  REFUSES(YK_E_INVAL, "found none", load.batch = 0; load.arrivals = YK_BENCH_TRACE_TIME);
  REFUSES(YK_E_INVAL, "a file without", load.batch = 0; load.arrivals = YK_BENCH_TRACE_TIME; load.trace = &trace);
  REFUSES(YK_E_INVAL, "--input-len: ", load.input = (yk_bench_lengths){0, 5});
  REFUSES(YK_E_INVAL, "found 6-5", load.output = (yk_bench_lengths){6, 5});
  REFUSES(YK_E_INVAL, "--shared-prefix: expected fewer tokens than the shortest prompt, 512, found 512",
          load.shared_prefix = 512);
  REFUSES(YK_E_INVAL, "found -1", load.shared_prefix = -1);
  REFUSES(YK_E_INVAL, "shortest prompt, 10, found 10", load.trace = &trace; load.batch = 2; load.shared_prefix = 10);
  limits = (yk_bench_limits){4, 612, 0};
  REFUSES(YK_E_CAPACITY, "--batch: expected at most 4, as --max-num-seqs and --max-num-batched-tokens allow, found 5",
          load.batch = 5);
  REFUSES(YK_E_CAPACITY, "613 tokens: expected at most 612", load.output = (yk_bench_lengths){1, 101});
  limits = (yk_bench_limits){0, 0, 1800};
  REFUSES(YK_E_CAPACITY, "expected at most 1800 tokens, the capacity of the KV cache, found 1836", load.batch = 3);
  load = good;
  load.batch = 3;
  load.shared_prefix = 100; /* is stored once */
  assert_int_equal(yk_bench_load_check(&load, &limits, &err), YK_OK);
}

static void test_uniform_lengths(void **state)
{
  (void)state;
  static int counts[11];
  yk_bench_load load;
  double mean = 0, both = 0;
  yk_bench_load_init(&load);
  load.input = load.output = (yk_bench_lengths){5, 15};
  memset(counts, 0, sizeof counts);
  for (int i = 0; i < N; i++) {
    int32_t input, output;
    yk_bench_load_lengths(&load, i, &input, &output);
    assert_in_range(input, 5, 15);
    assert_in_range(output, 5, 15);
    counts[input - 5]++;
    mean += (double)input / N;
    both += (double)(input - 10) * (output - 10) / N;
  }
  assert_true(fabs(mean - 10) < 0.1);
  assert_true(fabs(both) < 0.3); /* of 10 if they were equal */
  for (int i = 0; i < 11; i++) assert_in_range(counts[i], N / 11 * 9 / 10, N / 11 * 11 / 10);
}

static void test_arrivals(void **state)
{
  (void)state;
  static double times[N];
  yk_bench_load load;
  yk_bench_load_init(&load);
  load.batch = 0;
  load.request_rate = 50;
  load.n_requests = N;
  yk_bench_arrivals_fill(&load, times);
  assert_true(times[0] == 0);
  assert_true(fabs(times[N - 1] / N * 50 - 1) < 0.03); /* the mean time between arrivals */
  int n_longer = 0;
  double squares = 0;
  for (int i = 1; i < N; i++) {
    double gap = (times[i] - times[i - 1]) * 50;
    assert_true(gap >= 0 && isfinite(gap));
    n_longer += gap > 1;
    squares += gap * gap / N;
  }
  assert_true(fabs((double)n_longer / N - exp(-1)) < 0.02);
  assert_true(fabs(squares - 2) < 0.2); /* of an exponential distribution of mean 1 */
  load.arrivals = YK_BENCH_CONSTANT;
  yk_bench_arrivals_fill(&load, times);
  for (int i = 0; i < N; i++) assert_true(fabs(times[i] - i / 50.0) < 1e-6);
}

static void test_arrivals_of_trace(void **state)
{
  (void)state;
  static const double as_is[] = {0, 1, 4, 6, 7, 10, 12}, at_10[] = {0, 0.05, 0.2, 0.3, 0.35, 0.5, 0.6};
  yk_bench_trace_row rows[3] = {{0, 10, 5}, {1, 20, 6}, {4, 30, 7}};
  yk_bench_trace trace = {rows, 3, true};
  double times[7];
  int32_t input, output;
  yk_bench_load load;
  yk_bench_load_init(&load);
  load.batch = 0;
  load.arrivals = YK_BENCH_TRACE_TIME;
  load.trace = &trace;
  load.n_requests = 7;
  yk_bench_arrivals_fill(&load, times);
  for (int i = 0; i < 7; i++) assert_true(fabs(times[i] - as_is[i]) < 1e-9);
  load.request_rate = 10;
  yk_bench_arrivals_fill(&load, times);
  for (int i = 0; i < 7; i++) assert_true(fabs(times[i] - at_10[i]) < 1e-9);
  yk_bench_load_lengths(&load, 4, &input, &output);
  assert_true(input == 20 && output == 6);
  assert_int_equal(yk_bench_load_longest(&load).both_tokens, 37);
  load.n_requests = 2;
  assert_int_equal(yk_bench_load_longest(&load).both_tokens, 26);
}

static yk_status parse(const char *text, yk_bench_trace *out, yk_err *err)
{
  return yk_bench_trace_parse("f", text, strlen(text), out, err);
}

static void test_good_traces(void **state)
{
  (void)state;
  static const char *const same[] = {
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 "
      "18:15:50.9951690,396,0\n",
      "\xEF\xBB\xBFGeneratedTokens,TIMESTAMP,ContextTokens\r\n44,2024-02-28 23:59:59.5+00:00,374\r\n\r\n"
      "0,2024-02-29T00:00:03.8145790Z,396",
      "\"timestamp\",\"input_length\",x,\"output_length\"\n1000,374,,44\n5314.579,396,,1\n",
      "{\"timestamp\": 27482, \"input_length\": 374, \"output_length\": 44, \"hash_ids\": [1, 2]}\n\n"
      " {\"output_length\": 0, \"input_length\": 396, \"timestamp\": 31796.579}"};
  yk_err err = YK_ERR_INIT;
  yk_bench_trace trace;
  for (size_t i = 0; each_case(i, i < sizeof same / sizeof same[0]); i++) {
    if (parse(same[i], &trace, &err) != YK_OK) fail_msg("%zu: %s", i, err.message);
    assert_int_equal(trace.n_rows, 2);
    assert_true(trace.has_times && trace.rows[0].time_s == 0 && fabs(trace.rows[1].time_s - 4.314579) < 1e-5);
    assert_true(trace.rows[0].input_tokens == 374 && trace.rows[0].output_tokens == 44);
    assert_true(trace.rows[1].input_tokens == 396 && trace.rows[1].output_tokens == 1); /* none counts as one */
    yk_bench_trace_free(&trace);
  }
  assert_int_equal(parse("input_length,output_length\n3,4\n", &trace, &err), YK_OK);
  assert_false(trace.has_times);
  yk_bench_trace_free(&trace);
}

static void test_bad_traces(void **state)
{
  (void)state;
#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define PLAIN "input_length,output_length\n"
  static const struct {
    const char *text, *part;
  } bad[] = {
      {"", "f: expected rows of lengths, found none"},
      {AZURE, "found none"},
      {"ContextTokens,x\n1,2\n", "f:1: expected a column GeneratedTokens or output_length, found \"Context"},
      {"1,2,3\n", "f:1: expected a column ContextTokens"},
      {PLAIN "1\n", "f:2: expected at least 2 columns, found 1"},
      {PLAIN "1,2\n-1,2\n", "f:3: length of the input: expected a whole number from 0 to 1073741824, found \"-1\""},
      {PLAIN "1,2.5\n", "length of the output"},
      {PLAIN "1,\n", "found \"\""},
      {PLAIN "1,99999999999\n", "found \"99999999999\""},
      {PLAIN "1,99999999999999999999999999999\n", "expected a whole number"},
      {AZURE "yesterday,1,2\n", "f:2: TIMESTAMP: expected a date as 2023-11-16 18:15:46.68, found \"yesterday\""},
      {AZURE "2023-13-16 18:15:46,1,2\n", "found \"2023-13-16"},
      {AZURE "2023-11-16 24:15:46,1,2\n", "expected a date"},
      {AZURE "2023-11-16 18:15:46 CET,1,2\n", "expected a date"},
      {AZURE "2023-11-16 18:15:46,1,2\n2023-11-16 18:15:45.5,1,2\n",
       "f:3: expected no earlier timestamp than in the row before, found 0.5 s less"},
      {"timestamp,input_length,output_length\nx,1,2\n", "timestamp: expected milliseconds, found \"x\""},
      {"timestamp,input_length,output_length\nnan,1,2\n", "expected milliseconds"},
      {"{\"input_length\": 1}\n", "output_length"},
      {"{\"input_length\": 1, \"output_length\": \"2\"}\n", "output_length"},
      {"{\"input_length\": -1, \"output_length\": 2}\n", "f:1"},
      {"{\"input_length\": 1, \"output_length\": 2}\n[1]\n", "f:2: expected an object, found array"},
      {"{\"input_length\": 1, \"output_length\": 2}\n{\"input\n", "f:2: "},
      {"{\"input_length\": 1, \"output_length\": 2}\n{\"input_length\": 1, \"output_length\": 2, \"timestamp\": 5}",
       "f:2: expected a timestamp in every row or in none, found one"}};
  yk_err err = YK_ERR_INIT;
  yk_bench_trace trace;
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof bad[0]); i++) {
    assert_message(&err, parse(bad[i].text, &trace, &err), YK_E_FORMAT, bad[i].part);
    assert_true(trace.rows == NULL && trace.n_rows == 0);
  }
  assert_message(&err, yk_bench_trace_read("/no/such/file", &trace, &err), YK_E_IO, "/no/such/file");
  assert_null(trace.rows);
}

/* Every prefix of a file is read or refused, wherever it is cut. */
static void test_cut_traces(void **state)
{
  (void)state;
  static const char *const texts[] = {AZURE "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,9\n",
                                      "{\"timestamp\": 27482, \"input_length\": 374, \"output_length\": 44}\n"};
  for (size_t i = 0; i < 2; i++)
    for (size_t n = 0; n <= strlen(texts[i]); n++) {
      yk_bench_trace trace;
      yk_status status = yk_bench_trace_parse("f", texts[i], n, &trace, NULL);
      assert_true((status == YK_OK) == (trace.n_rows > 0));
      yk_bench_trace_free(&trace);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slo),
                                     cmocka_unit_test(test_checks),
                                     cmocka_unit_test(test_uniform_lengths),
                                     cmocka_unit_test(test_arrivals),
                                     cmocka_unit_test(test_arrivals_of_trace),
                                     cmocka_unit_test(test_good_traces),
                                     cmocka_unit_test(test_bad_traces),
                                     cmocka_unit_test(test_cut_traces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
